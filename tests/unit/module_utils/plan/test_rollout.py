"""The settings of a rollout, checked before any contact, and the order in which its hosts come."""

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.plan import rollout
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import message

HOSTS = ["n1", "n2", "n3", "n4"]


def test_defaults_disturb_nobody():
    settings, problems = rollout.checked({}, HOSTS)
    assert problems == []
    assert settings == {
        "reboot": "never",
        "reboot_timeout": 1800,
        "batch": 1,
        "canary": [],
        "drain": {},
        "uncordon": {},
    }


def test_texts_of_the_command_line_are_numbers_and_one_host_is_a_list():
    given = {"trainrig_batch": "3", "trainrig_reboot_timeout": 60, "trainrig_canary": "n2"}
    settings, problems = rollout.checked({**given, "trainrig_reboot": "when_needed"}, HOSTS)
    assert problems == []
    assert [settings[key] for key in ("batch", "reboot_timeout", "canary", "reboot")] == [3, 60, ["n2"], "when_needed"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("trainrig_reboot", "when_neded", "did you mean when_needed"),
        ("trainrig_reboot", "always", "take of never, when_needed"),
        ("trainrig_reboot", True, "take of never, when_needed"),
        ("trainrig_reboot_timeout", "soon", "a whole number"),
        ("trainrig_batch", 0, "a whole number"),
        ("trainrig_batch", True, "a whole number"),
        ("trainrig_batch", "-1", "a whole number"),
        ("trainrig_canary", ["n1", "n22"], "did you mean n2"),
        ("trainrig_drain", "kubectl drain n1", "neither a command nor a file of tasks"),
        ("trainrig_drain", {"command": "kubectl drain n1"}, "a list of words"),
        ("trainrig_uncordon", {"comand": ["x"]}, "comand means nothing here"),
        ("trainrig_uncordon", {"command": ["x"], "on": "nodes"}, "must be controller or node"),
        ("trainrig_uncordon", {"command": ["x"], "tasks": "y.yml"}, "one of command and tasks"),
        ("trainrig_uncordon", {"tasks": "y.yml", "on": "node"}, "on goes with a command only"),
    ],
)
def test_a_bad_value_is_named_with_its_fix(key, value, said):
    _settings, problems = rollout.checked({key: value}, HOSTS)
    assert [problem["key"] for problem in problems] == [key]
    assert said in message(problems[0]) and "To fix it: " in message(problems[0])


def test_a_hook_has_one_shape():
    assert rollout.hook(["a", 1]) == ({"command": ["a", "1"], "on": "controller"}, "")
    assert rollout.hook({"command": ["a"], "on": "node"}) == ({"command": ["a"], "on": "node"}, "")
    assert rollout.hook({"tasks": "drain.yml"}) == ({"tasks": "drain.yml"}, "")


@pytest.mark.parametrize(
    ("canary", "size", "expected"),
    [
        ([], 1, [["n1"], ["n3"], ["n2"], ["n4"]]),
        (["n4"], 2, [["n4"], ["n1", "n2"], ["n3"]]),
        (["n4", "n2"], 9, [["n4"], ["n2"], ["n1", "n3"]]),
    ],
)
def test_canaries_come_first_one_by_one_and_then_batches(canary, size, expected):
    pools = {"n1": "a", "n2": "a", "n3": "b", "n4": "b"}
    assert rollout.batches(HOSTS, pools, canary, size) == expected


def test_a_canary_that_needs_nothing_is_none():
    assert rollout.batches(["n1", "n2"], {}, ["n3"], 2) == [["n1", "n2"]]


def test_each_batch_says_its_place_among_all():
    said = [turn["said"] for turn in rollout.turns([["n1"], ["n3"], ["n2", "n4"]])]
    assert said == ["n1 (1 of 4)", "n3 (2 of 4)", "n2, n4 (3 to 4 of 4)"]
    assert rollout.turns([]) == []


def test_where_it_stops_is_said_with_the_next_step():
    finding = rollout.stopped("n1", "fail", True, "ansible-playbook trainrig.gpu.upgrade -i inv")
    assert "it stays drained" in finding["summary"] and finding["action"]["text"].endswith("upgrade -i inv`")
    assert "drained" not in rollout.stopped("n1", "fail", False, "x")["summary"]
