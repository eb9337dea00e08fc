"""A node beside its peers: equal hardware of one pool, and nobody else."""

import copy

from ansible_collections.trainrig.gpu.plugins.module_utils.judge import peers
from ansible_collections.trainrig.gpu.plugins.module_utils.report import standing
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

from tests.unit.module_utils.judge.test_health import QUIET
from tests.unit.module_utils.report.fleets import collectives, report_of

DATA = load("thresholds")


def placed(speeds, **changes):
    hosts = {name: {"observation": QUIET, "measurements": collectives(speed)} for name, speed in speeds.items()}
    for name, change in changes.items():
        hosts[name].update(change)
    return standing.placed(hosts, lambda rows, kinds, pool: peers.judge(rows, kinds, DATA, pool))


def last(hosts, name):
    return hosts[name]["measurements"][-1]


SPEEDS = {f"n{number}": 470.0 + number for number in range(8)}


def test_the_largest_size_knows_its_median_and_percentile():
    hosts = placed(SPEEDS)
    assert last(hosts, "n7")["percentile"] == 100
    assert last(hosts, "n0")["percentile"] == 12
    assert last(hosts, "n0")["median_gb_s"] == last(hosts, "n5")["median_gb_s"] > 0
    assert "percentile" not in hosts["n0"]["measurements"][0]
    assert all(host["findings"] == [] for host in hosts.values())


def test_one_that_is_far_slower_stands_out():
    hosts = placed({**SPEEDS, "n3": 300.0})
    assert [(name, one["rule"]) for name, host in hosts.items() for one in host["findings"]] == [
        ("n3", "verify.slower_than_peers")
    ]


def test_other_hardware_and_other_pools_are_no_peers():
    other = copy.deepcopy(QUIET)
    for gpu in other["nvidia"]["gpus"]:
        gpu["model"] = "A100_SXM4_80"
    hosts = placed({**SPEEDS, "n3": 200.0, "n4": 200.0}, n3={"observation": other}, n4={"pool": "another"})
    assert "percentile" not in last(hosts, "n3")
    assert "percentile" not in last(hosts, "n4")
    assert all(not host.get("findings") for host in hosts.values())


def test_a_host_of_which_nothing_is_known_stays_as_it_is():
    hosts = placed(SPEEDS, n1={"observation": None}, n2={"measurements": None})
    assert "percentile" not in last(hosts, "n1")
    assert hosts["n2"] == {"observation": QUIET, "measurements": None}


def test_the_report_has_them():
    rows = [one for one in report_of("h100s")["measurements"] if one.get("percentile") is not None]
    assert {one["host"]: one["percentile"] for one in rows}["gpu-05"] == 14, "the slowest of seven"
    assert "gpu-03" not in {one["host"] for one in rows}, "it lacks a GPU, so that it is no peer of the others"
