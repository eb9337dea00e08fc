"""Runs tests/cases/report/*.yml: what a run left behind, and the verdict, reasons and next steps a person must read."""

import json

import pytest
from ansible_collections.trainrig.gpu.plugins.plugin_utils.report_files import check

from tests.unit.module_utils.report.reports import all_cases, report

CASES = dict(all_cases())


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    case = CASES[name]
    expect = case["expect"]
    made = report(case["hosts"], case.get("phase", "site"))
    for key in ("verdict", "reasons"):
        assert made[key] == expect.get(key, made[key])
    if "states" in expect:
        assert {host: entry["state"] for host, entry in made["hosts"].items()} == expect["states"]
    if "rules" in expect:
        assert [one["rule"] for one in made["findings"]] == expect["rules"]
    if "applied" in expect:
        assert {host: entry["applied"] for host, entry in made["hosts"].items()} == expect["applied"]
    if "commands" in expect:
        assert [one["text"] for one in made["next"]["commands"]] == expect["commands"]
    for key, value in expect.get("next", {}).items():
        assert made["next"][key] == value, key
    assert made["next"]["commands"] == [] if made["verdict"] == "pass" else made["next"]["commands"]
    check(made)
    json.dumps(made, allow_nan=False)


def test_hosts_are_in_the_order_people_count():
    assert list(report({"n10": {}, "n2": {}, "n1": {}})["hosts"]) == ["n1", "n2", "n10"]


def test_the_same_step_is_said_once_with_its_hosts():
    same = {"findings": [{"action": {"kind": "reboot", "text": "sudo systemctl reboot"}}]}
    steps = report({"n1": same, "n2": same})["next"]["commands"]
    assert steps[0] == {"text": "sudo systemctl reboot", "command": None, "hosts": ["n1", "n2"], "because": "some.rule"}


def test_the_way_to_look_again_names_every_inventory():
    warning = {"a": {"findings": [{"severity": "warn"}]}}
    again = report(warning, sources=["inventories/case", "more hosts.yml"])["next"]["commands"][-1]["command"]
    assert again == "ansible-playbook trainrig.gpu.site -i inventories/case -i 'more hosts.yml'"
    assert report(warning, sources=[])["next"]["commands"] == []


def test_what_can_be_typed_as_it_is_is_told_from_what_has_to_be_read():
    whole = {"findings": [{"action": {"kind": "reboot", "text": "`sudo systemctl reboot`"}}]}
    prose = {"findings": [{"action": {"kind": "reboot", "text": "Run `sudo systemctl reboot`, then wait."}}]}
    assert report({"n1": whole})["next"]["commands"][0]["command"] == "sudo systemctl reboot"
    assert report({"n1": whole})["next"]["commands"][0]["text"] == "sudo systemctl reboot"
    assert report({"n1": prose})["next"]["commands"][0]["command"] is None


def test_the_verified_environment_is_the_one_that_is_shown():
    verified = {"python": "3.13.1", "interpreter": "/x/python"}
    verified.update(torch="2.13.0+cu130", cuda="13.0", nccl=[2, 27, 7])
    seen = report({"a": {"versions": verified}})["hosts"]["a"]["observation"]["python"]
    assert seen == {
        "interpreter": "/x/python",
        "version": "3.13.1",
        "torch": "2.13.0+cu130",
        "torch_cuda": "13.0",
        "nccl": "2.27.7",
    }
    assert report()["hosts"]["a"]["observation"]["python"]["torch"] == "2.13.0+cpu"


def test_a_single_nodes_numbers_carry_its_name_in_the_inventory():
    assert {one["host"] for one in report({"n1": {}, "n2": {}})["measurements"]} == {"n1", "n2"}


def test_the_plan_keeps_no_inputs():
    assert report()["hosts"]["a"]["plan"]["layers"] == [
        {"layer": "pytorch", "title": "an environment", "state": "clean", "reasons": []}
    ]


def test_unknown_is_null():
    bare = {"observation": {"schema": 1, "nvidia": None, "machine": None, "python_env": None}}
    seen = report({"a": bare})["hosts"]["a"]["observation"]
    assert seen["gpus"] is None
    assert seen["gpus_lost"] is None
    assert seen["memory_mib"] is None
    assert seen["python"]["torch"] is None
