"""What the site recorded, and a later run beside it: the same hosts, and others of equal hardware."""

from ansible_collections.trainrig.gpu.plugins.module_utils.report import recorded
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

from tests.unit.module_utils.judge.test_health import QUIET
from tests.unit.module_utils.report.fleets import collectives

DATA = recorded.Data(load("gpus"), load("thresholds"))
SPEEDS = {"n1": 470.0, "n2": 480.0, "n10": 475.0}


def fleet(speeds, **more):
    return {name: {"observation": QUIET, "measurements": collectives(speed), **more} for name, speed in speeds.items()}


def rules(hosts):
    return {name: [one["rule"] for one in host.get("findings") or []] for name, host in hosts.items()}


def last(hosts, name):
    return hosts[name]["measurements"][-1]


RECORD = recorded.record(fleet(SPEEDS), "2026-11-30T10:00:00Z", "abc", DATA)


def test_the_record_has_each_host_at_its_largest_size():
    rows = {row["hosts"][0]: row for row in RECORD["rows"]}
    assert set(rows) == set(SPEEDS)
    assert rows["n1"]["from_bytes"] == last(fleet(SPEEDS), "n1")["size_bytes"]
    assert rows["n1"]["models"] and rows["n1"]["lock_digest"] == "abc"


def test_the_same_again_is_silent_and_knows_its_record():
    hosts = recorded.against(fleet(SPEEDS), RECORD, DATA)
    assert rules(hosts) == {name: [] for name in SPEEDS}
    assert last(hosts, "n1")["baseline_gb_s"] == round(last(fleet(SPEEDS), "n1")["busbw_gb_s"], 3)
    assert "baseline_gb_s" not in hosts["n1"]["measurements"][0], "small sizes are latency"


def test_one_that_got_slower_is_found_and_nobody_else():
    hosts = recorded.against(fleet({**SPEEDS, "n2": 300.0}), RECORD, DATA)
    assert rules(hosts) == {"n1": [], "n2": ["verify.below_baseline"], "n10": []}


def test_a_new_node_is_held_to_the_others():
    assert rules(recorded.against(fleet({"n11": 475.0}), RECORD, DATA)) == {"n11": []}
    assert rules(recorded.against(fleet({"n11": 200.0}), RECORD, DATA)) == {"n11": ["verify.below_baseline"]}


def test_what_two_measured_together_is_told_once():
    def together(speed):
        hosts = fleet({"n1": 470.0, "n2": 470.0})
        for host in hosts.values():
            both = {"nodes": 2, "ranks": 16, "hosts": ["n1", "n2"], "busbw_gb_s": speed, "stage": "fleet"}
            host["measurements"] = [{**host["measurements"][-1], **both}]
        return hosts

    record = recorded.record(together(440.0), "2026-11-30T10:00:00Z", None, DATA)
    assert [row["hosts"] for row in record["rows"]] == [["n1", "n2"]]
    hosts = recorded.against(together(200.0), record, DATA)
    assert rules(hosts) == {"n1": ["verify.below_baseline"], "n2": []}
    assert last(hosts, "n2")["baseline_gb_s"] == 440.0
    # A host of the pool that was not reached stands before them: what was found must not be lost with it.
    missing = {"n0": {"observation": None, "measurements": None}}
    hosts = recorded.against({**missing, **together(200.0)}, record, DATA)
    assert rules(hosts) == {"n0": [], "n1": ["verify.below_baseline"], "n2": []}


def test_hosts_of_which_nothing_was_measured_stay_as_they_are():
    hosts = {"n1": {"observation": None, "measurements": None}}
    assert recorded.against(hosts, RECORD, DATA) == hosts
    assert recorded.record(hosts, "2026-11-30T10:00:00Z", None, DATA)["rows"] == []
