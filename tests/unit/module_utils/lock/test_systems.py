"""For which systems packages are locked, and which wheel profiles those mean."""

from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import systems
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.systems import Host
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

LAYERS = ("driver", "cuda")


def seen(models=("L40S",), driver=None, name="debian", version="13", arch="x86_64"):
    return {
        "os": {"id": name, "version_id": version, "arch": arch},
        "nvidia": {
            "gpus": [{"model": model, "name": "NVIDIA X", "pci_id": "10de:ffff"} for model in models],
            "driver": {"module": driver},
        },
    }


def wishes(*hosts):
    found, problems = systems.wanted(hosts, LAYERS)
    assert problems == []
    return [(one.pool, one.platform, one.gpus) for one in found]


def host(name="a", groups=("driver",), stack=None, observation=None, pool="default"):
    return Host(name, pool, groups, stack or {}, observation)


def test_wheels_alone_ask_no_node():
    assert wishes(host(groups=("pytorch", "verify"))) == []


def test_a_declaration_for_nodes_that_are_not_there_yet():
    stack = {"platforms": ["ubuntu2404-x86_64", "debian13-x86_64"], "gpus": ["L40S", "A10"]}
    gpus = ("A10", "L40S")
    assert wishes(host(stack=stack, groups=())) == [
        ("default", "debian13-x86_64", gpus),
        ("default", "ubuntu2404-x86_64", gpus),
    ]


def test_what_was_seen_is_joined_by_pool_and_platform():
    assert wishes(
        host("a", observation=seen(["L40S"])),
        host("b", observation=seen(["A10"])),
        host("c", observation=seen(["B200"], version="12"), pool="other"),
    ) == [("default", "debian13-x86_64", ("A10", "L40S")), ("other", "debian12-x86_64", ("B200",))]


def test_only_what_all_have_is_there_to_keep():
    found, _none = systems.wanted([host("a", observation=seen(driver="570.1.1"))], LAYERS)
    assert found[0].installed == {"driver": "570.1.1"}
    pair = [host("a", observation=seen(driver="570.1.1")), host("b", observation=seen())]
    assert systems.wanted(pair, LAYERS)[0][0].installed == {}


@pytest.mark.parametrize(
    ("observation", "texts"),
    [
        (None, ["could not be reached"]),
        ({"os": {"arch": "x86_64"}}, ["names no ID"]),
        (seen(version=None), ["names no VERSION_ID, as debian testing"]),
        (seen(arch="riscv64"), ["its architecture is riscv64"]),
        (seen(name="pop", version="22.04"), ["pop 22.04 is no platform"]),
        (seen([None, None, "L40S"]), ["the model of a GPU is not known: NVIDIA X 10de:ffff"]),
        (seen([None], version=None), ["VERSION_ID", "the model of a GPU"]),
    ],
)
def test_what_is_not_known_of_a_host_is_named(observation, texts):
    found, problems = systems.wanted([host("node-a", observation=observation)], LAYERS)
    assert found == []
    assert [problem["where"] for problem in problems] == ["host node-a"] * len(texts)
    for problem, text in zip(problems, texts):
        assert text in problem["text"]
        assert problem["fix"]


def test_a_driver_to_keep_is_the_same_on_all_nodes():
    keep = {"driver": "keep"}
    nodes = [
        host("a", stack=keep, observation=seen(driver="570.1.1")),
        host("b", stack=keep, observation=seen(driver="570.1.1")),
        host("c", stack=keep, observation=seen(driver="580.2.2")),
        host("d", stack=keep, observation=seen()),
    ]
    assert systems.wanted(nodes[:2], LAYERS)[1] == []
    assert systems.wanted([*nodes[:2], nodes[2]._replace(pool="other")], LAYERS)[1] == []
    problems = systems.wanted(nodes, LAYERS)[1]
    assert [(problem["where"], problem["key"]) for problem in problems] == [
        ("host c", "trainrig_stack.driver"),
        ("host d", "trainrig_stack.driver"),
    ]
    assert "different drivers: 580.2.2 here, 570.1.1 on those before it" in problems[0]["text"]
    assert "different drivers: none here, 570.1.1" in problems[1]["text"]


def test_other_pythons_do_not_hide_the_driver():
    pair = [seen(driver="570.1.1"), {**seen(driver="570.1.1"), "interpreters": [{"version": "3.12.3"}]}]
    found, _none = systems.wanted([host(name, observation=one) for name, one in zip("ab", pair)], LAYERS)
    assert found[0].installed == {"driver": "570.1.1"}


def test_one_pool_is_declared_alike():
    pair = [
        host("a", observation=seen(), stack={"driver": "550"}),
        host("b", observation=seen(), stack={"driver": "535"}),
    ]
    assert "declared differently" in systems.wanted(pair, LAYERS)[1][0]["text"]
    assert systems.wanted([pair[0], pair[1]._replace(pool="other")], LAYERS)[1] == []


@pytest.mark.parametrize(
    ("name", "version", "arch", "platform"),
    [
        ("ubuntu", "24.04", "x86_64", "ubuntu2404-x86_64"),
        ("ubuntu", "22.04", "aarch64", "ubuntu2204-sbsa"),
        ("debian", "13", "x86_64", "debian13-x86_64"),
        ("rocky", "9.6", "x86_64", "rhel9-x86_64"),
        ("rhel", "10.0", "x86_64", "rhel10-x86_64"),
        ("ol", "9.3", "x86_64", "rhel9-x86_64"),
        ("sles", "15.6", "x86_64", "sles15-x86_64"),
        ("sles", "16.0", "x86_64", "suse16-x86_64"),
        ("opensuse-leap", "15.6", "x86_64", "opensuse15-x86_64"),
        ("azurelinux", "3.0", "aarch64", "azl3-sbsa"),
        ("amzn", "2023", "x86_64", "amzn2023-x86_64"),
        ("kylin", "V10", "x86_64", "kylin10-x86_64"),
        ("openEuler", "24.03", "x86_64", "openeuler-x86_64"),
        ("ubuntu", "25.10", "x86_64", None),
        ("linuxmint", "22", "x86_64", None),
        ("rhel", "1", "x86_64", None),
        ("debian", "130", "x86_64", None),
        ("debian", "", "x86_64", None),
    ],
)
def test_the_platform_s_code(name, version, arch, platform):
    assert systems.platform_of(seen(name=name, version=version, arch=arch)) == platform


def test_every_platform_of_data_is_found_by_what_a_node_says_and_no_other():
    assert {code for _id, _version, code in systems._CODES} == set(load("packages")["platforms"])


def test_every_platform_with_apt_has_suites():
    """Otherwise nothing can be locked there."""
    named = {code for row in load("origins")["origins"].values() for code in row.get("platforms", {})}
    apt = {code for code, row in load("packages")["platforms"].items() if row["family"] in ("debian", "ubuntu")}
    assert apt == named


def made(pool="default", platform="debian13-x86_64", torch="2.6.0", variant="cu124", python="3.13"):
    resolution = {"pytorch": {"version": torch, "variant": variant}, "python": python}
    return {"pool": pool, "platform": platform, "resolution": resolution}


def test_the_wheels_that_systems_mean():
    found = systems.profiles(
        [
            made(),
            made(platform="debian12-x86_64", python="3.11"),
            made(torch="2.5.1"),
            made(pool="b"),
            made(platform="u-sbsa"),
        ]
    )
    assert [(row["name"], row["pytorch"], row["python"], row["pool"], row["platform"]) for row in found] == [
        ("cu124", "2.6.0", ["3.13", "3.11"], "default", "linux-x86_64"),
        ("cu124-2.5.1", "2.5.1", ["3.13"], "default", "linux-x86_64"),
        ("cu124-b", "2.6.0", ["3.13"], "b", "linux-x86_64"),
        ("cu124-aarch64", "2.6.0", ["3.13"], "default", "linux-aarch64"),
    ]
