"""Nodes are compared with their like: who is slow stands out, who is not stays silent, and numbers are not invented."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.peers import judge
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

DATA = load("thresholds")


def row(host, busbw, size=2**34, **more):
    return {
        "stage": "collectives",
        "collective": "all_reduce",
        "backend": "nccl",
        "nodes": 1,
        "ranks": 8,
        "size_bytes": size,
        "dtype": "float32",
        "busbw_gb_s": busbw,
        "hosts": [host],
        **more,
    }


def pool(*values, **more):
    return [row(f"node-{number}", value, **more) for number, value in enumerate(values)]


def hardware(count, what="L40S x8"):
    return {f"node-{number}": what for number in range(count)}


def test_an_even_pool_is_silent_and_annotated():
    findings, notes = judge(pool(480.0, 481.0, 482.0, 483.0), hardware(4), DATA)
    assert findings == []
    assert [(one.host, one.percentile, one.median) for one in notes] == [
        ("node-0", 25, 481.5),
        ("node-1", 50, 481.5),
        ("node-2", 75, 481.5),
        ("node-3", 100, 481.5),
    ]


def test_the_slow_one_is_named_with_its_share():
    findings, notes = judge(pool(22.0, 22.1, 17.0, 22.2), hardware(4), DATA, "gpu")
    assert [(one["rule"], one["host"], one["severity"], one["pool"]) for one in findings] == [
        ("verify.slower_than_peers", "node-2", "warn", "gpu")
    ]
    assert "77% of the median of its 3 peers" in findings[0]["summary"]
    assert [one.host for one in notes if one.stands_out] == ["node-2"]


def test_less_than_half_fails():
    findings, _notes = judge(pool(22.0, 22.1, 10.0, 22.2), hardware(4), DATA)
    assert [one["severity"] for one in findings] == ["fail"]


@pytest.mark.parametrize(
    ("rows", "machines"),
    [
        (pool(22.0, 10.0), hardware(2)),  # of two nobody knows which one is right
        (pool(480.0, 481.0, 360.0), {**hardware(2), "node-2": "other"}),  # other hardware
        (pool(480.0, 481.0, 360.0), hardware(2)),  # hardware that is not known
        ([*pool(480.0, 481.0), row("node-2", 360.0, ranks=4)], hardware(3)),  # another job
        (pool(480.0, 481.0, 482.0, nodes=2), hardware(3)),
        (pool(0.0, 0.0, 0.0, ranks=1), hardware(3)),
    ],
)
def test_what_cannot_be_compared_is_not(rows, machines):
    assert judge(rows, machines, DATA) == ([], [])


def test_gloo_is_annotated_and_not_judged():
    findings, notes = judge(pool(2.0, 2.1, 0.5, backend="gloo"), hardware(3), DATA)
    assert findings == []
    assert len(notes) == 3
    assert {one.bound for one in notes} == {None}


def test_only_the_largest_size_counts():
    small = [row(f"node-{number}", 1.0 + 9 * number, size=4096) for number in range(4)]
    findings, notes = judge([*small, *pool(480.0, 481.0, 482.0, 483.0)], hardware(4), DATA)
    assert findings == []
    assert {one.size_bytes for one in notes} == {2**34}


def test_training_speed_is_compared_too():
    rows = [
        {"stage": "ddp", "backend": "nccl", "nodes": 1, "ranks": 8, "hosts": [f"node-{number}"], "samples_per_s": speed}
        for number, speed in enumerate((900.0, 910.0, 500.0))
    ]
    findings, _notes = judge(rows, hardware(3), DATA)
    assert [one["host"] for one in findings] == ["node-2"]
    assert "ddp: 500 samples/s" in findings[0]["summary"]


def test_an_uneven_pool_has_a_wide_bound():
    """Where healthy nodes differ a lot, a node within that is not called slow."""
    findings, _notes = judge(pool(400.0, 430.0, 470.0, 500.0, 380.0, 460.0, 360.0), hardware(7), DATA)
    assert findings == []


def test_without_the_gap_the_slowest_of_an_even_pool_would_be_slow():
    tight = {**DATA, "pairs": {**DATA["pairs"], "least_gap": {"value": 0.0001}}}
    values = pool(480.0, 480.1, 480.1, 480.2, 470.0)
    assert judge(values, hardware(5), DATA)[0] == []
    assert "node-4" in [one["host"] for one in judge(values, hardware(5), tight)[0]]
