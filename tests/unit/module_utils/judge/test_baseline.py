"""A site's record: what goes in, what later results are held against, and what a damaged file is answered with."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

import json

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.judge import baseline
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.job import Job
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

DATA = load("thresholds")
WHEN = "2026-11-30T12:00:00+00:00"


def jobs(count, model="L40S"):
    hosts = [f"node-{number}" for number in range(count)]
    return {host: Job(host, model, "pcie", None, None, False, 31.5, 8) for host in hosts}


def row(host, busbw, size=2**34, **more):
    return {
        "stage": "collectives",
        "collective": "all_reduce",
        "backend": "nccl",
        "nodes": 1,
        "ranks": 8,
        "size_bytes": size,
        "busbw_gb_s": busbw,
        "hosts": [host] if isinstance(host, str) else host,
        "status": "pass",
        **more,
    }


def recorded(*rows, count=4):
    return baseline.record(rows, jobs(count), WHEN, "abc")


def test_a_record_has_the_largest_size_of_what_passed():
    document = recorded(
        row("node-0", 5.0, size=4096),
        row("node-0", 22.04),
        row("node-1", 9.0, status="fail"),
        row("node-0", 21.0, collective="all_gather"),
        row(["node-1", "node-0"], 11.0, nodes=2, ranks=16),
        {"stage": "ddp", "ranks": 8, "samples_per_s": 9.0, "hosts": ["node-0"], "status": "pass"},
    )
    baseline.check(json.loads(json.dumps(document)))
    assert [(one["collective"], one["hosts"], one["busbw_gb_s"]) for one in document["rows"]] == [
        ("all_gather", ["node-0"], 21.0),
        ("all_reduce", ["node-0"], 22.04),
        ("all_reduce", ["node-0", "node-1"], 11.0),
    ]
    assert document["rows"][1] == {
        "kind": "baseline",
        "models": ["L40S"],
        "gpus_per_node": 8,
        "nodes": 1,
        "link": "pcie",
        "from_bytes": 2**34,
        "busbw_gb_s": 22.04,
        "collective": "all_reduce",
        "backend": "nccl",
        "hosts": ["node-0"],
        "recorded": WHEN,
        "lock_digest": "abc",
    }


@pytest.mark.parametrize(
    ("busbw", "severity"), [(22.0, None), (20.0, None), (19.7, "warn"), (18.8, "warn"), (18.6, "fail"), (1.0, "fail")]
)
def test_a_drop_warns_and_then_fails(busbw, severity):
    findings, notes = baseline.judge([row("node-0", busbw)], recorded(row("node-0", 22.0)), jobs(1), DATA)
    assert [one["severity"] for one in findings] == ([severity] if severity else [])
    assert notes[0].status == (severity or "pass")
    assert notes[0].exact
    if findings:
        assert findings[0]["rule"] == "verify.below_baseline"
        assert findings[0]["host"] == "node-0"
        assert "lock digest abc" in findings[0]["evidence"][1]["text"]


def test_a_replaced_node_is_held_against_the_others():
    before = recorded(row("node-0", 22.0), row("node-1", 22.2), row("node-2", 22.4))
    findings, notes = baseline.judge([row("node-3", 15.0)], before, jobs(4), DATA)
    assert [one["severity"] for one in findings] == ["fail"]
    assert (notes[0].baseline_gb_s, notes[0].exact) == (22.2, False)
    assert "the median of other hosts" in findings[0]["evidence"][1]["text"]


@pytest.mark.parametrize(
    "later",
    [
        row("node-3", 15.0),  # two others are no median
        row("node-0", 15.0, ranks=4),
        row("node-0", 15.0, collective="broadcast"),
        row("node-0", 15.0, size=2**20),  # smaller than what was recorded
        row("node-0", 15.0, backend="gloo"),
    ],
)
def test_what_was_not_recorded_is_said(later):
    before = recorded(row("node-0", 22.0), row("node-1", 22.2))
    findings, notes = baseline.judge([later], before, jobs(4), DATA)
    assert [(one["rule"], one["severity"]) for one in findings] == [("verify.baseline_missing", "info")]
    assert notes == []


def test_other_hardware_under_the_same_name_has_no_row():
    findings, _notes = baseline.judge([row("node-0", 9.0)], recorded(row("node-0", 22.0)), jobs(1, "L40"), DATA)
    assert [one["rule"] for one in findings] == ["verify.baseline_missing"]


def test_gloo_only_warns():
    before = recorded(row("node-0", 2.0, backend="gloo"))
    for value, expected in ((1.1, []), (0.9, ["warn"])):
        findings, _notes = baseline.judge([row("node-0", value, backend="gloo")], before, jobs(1), DATA)
        assert [one["severity"] for one in findings] == expected


def test_recording_again_replaces_and_loses_nothing():
    old = recorded(row("node-0", 22.0), row("node-1", 22.2))
    new = baseline.record([row("node-0", 23.0, size=2**33)], jobs(1), "2026-12-01T00:00:00+00:00", None)
    both = baseline.merge(old, new)
    assert [(one["hosts"], one["busbw_gb_s"]) for one in both["rows"]] == [(["node-0"], 23.0), (["node-1"], 22.2)]
    assert baseline.merge(None, old) == old
    baseline.check(both)


GOOD = recorded(row("node-0", 22.0))


def changed(**changes):
    return {"schema": 1, "rows": [GOOD["rows"][0], {**GOOD["rows"][0], **changes}]}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, "not a record of schema 1"),
        ({"schema": 2, "rows": []}, "not a record of schema 1"),
        ({"schema": 1, "rows": ["x"]}, "row 1: 'x' is no row"),
        (changed(busbw_gb_s="fast"), "row 2: busbw_gb_s cannot be 'fast'"),
        (changed(busbw_gb_s=True), "row 2: busbw_gb_s cannot be True"),
        (changed(busbw_gb_s=0), "row 2: needs kind: baseline"),
        (changed(kind="site_floor"), "row 2: needs kind: baseline"),
        (changed(hosts="node-0"), "row 2: hosts cannot be 'node-0'"),
        (changed(speed=1), "row 2: unknown key 'speed'"),
        ({"schema": 1, "rows": [{"kind": "baseline"}]}, "row 1: models is missing"),
    ],
)
def test_a_damaged_record_is_named(document, words):
    with pytest.raises(baseline.BaselineError, match=r"verify_baseline\.yml") as error:
        baseline.check(document)
    assert words in str(error.value)
    assert "To fix it: " in str(error.value)
