"""What the page shows of hardware: the matrix of pairs, topologies, peers, health, and the text for the provider."""

import copy
from xml.etree import ElementTree

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.report import (
    drawings,
    junit,
    page_hardware,
    pair_map,
    provider,
    topology,
)

from tests.unit.module_utils.judge.test_health import QUIET
from tests.unit.module_utils.report.fleets import collectives, pair, report_of

MADE = report_of("h100s")


def texts(svg):
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter("text")]


# pairs


def test_the_slow_pair_is_the_one_that_shows():
    found = pair_map.heat_map(MADE["measurements"])
    assert found["hosts"] == [f"gpu-0{number}" for number in range(1, 9)]
    assert found["measured"] == 28
    assert [row["hosts"] for row in pair_map.slowest(MADE["measurements"])] == [["gpu-02", "gpu-07"]]
    svg = drawings.matrix(found, "m")
    assert texts(svg).count("171") == 2
    assert svg.count('class="h4 edge"') == 2


def test_what_was_not_measured_is_open_and_what_failed_is_no_number():
    found = pair_map.heat_map([pair("a", "b", 300.0), pair("b", "c", None, "fail"), pair("c", "d", 310.0)])
    assert found["cells"]["b", "c"] == {"busbw_gb_s": None, "status": "fail", "share": None}
    svg = drawings.matrix(found, "m")
    assert svg.count('class="open"') == 6
    assert texts(svg).count("✕") == 2
    assert "0" not in texts(svg)
    assert "a, d: not measured" in svg


def test_cards_that_were_measured_alone_and_whole_sets_are_no_pairs():
    alone = {**pair("a", "b", 40.0), "rail": "mlx5_0"}
    many = {**pair("a", "b", 100.0), "hosts": ["a", "b", "c"]}
    assert pair_map.heat_map([alone, many]) is None


def test_a_pair_that_was_measured_again_counts_once():
    found = pair_map.heat_map([pair("b", "a", speed) for speed in (100.0, 300.0, 310.0)])
    assert found["cells"] == {("a", "b"): {"busbw_gb_s": 300.0, "status": "pass", "share": 1.0}}


def test_of_many_hosts_those_with_slow_pairs_are_shown():
    names = [f"n{number}" for number in range(100)]
    rows = [pair(one, other, 300.0) for one, other in zip(names[::2], names[1::2])]
    rows += [pair("n7", "n90", 90.0, "fail")]
    found = pair_map.heat_map(rows)
    assert len(found["hosts"]) == pair_map.SHOWN
    assert {"n7", "n90"} <= set(found["hosts"])
    assert found["left_out"] == 100 - pair_map.SHOWN


# topology


def test_groups_are_what_hangs_below_one_switch():
    found = topology.picture(QUIET)
    assert found["nvlink"] == "NV18"
    members = [
        ([gpu["name"] for gpu in group["gpus"]], [nic["device"] for nic in group["nics"]]) for group in found["groups"]
    ]
    assert members == [
        (["GPU0", "GPU1"], ["mlx5_0"]),
        (["GPU2", "GPU3"], ["mlx5_1"]),
        (["GPU4", "GPU5"], ["mlx5_2"]),
        (["GPU6", "GPU7"], ["mlx5_3"]),
    ]
    assert [group["numa"] for group in found["groups"]] == [0, 0, 1, 1]


def test_links_that_are_not_the_same_are_counted():
    seen = copy.deepcopy(QUIET)
    matrix = seen["nvidia"]["topology"]["gpus"]
    matrix["GPU0"]["GPU1"] = matrix["GPU1"]["GPU0"] = "NV4"
    found = topology.picture(seen)
    assert found["nvlink"] is None
    assert found["pairs"] == {"NV4": 1, "NV18": 27}
    assert "links between the GPUs: NV4 1 x, NV18 27 x" in texts(drawings.host(found, "t"))


def test_hosts_that_look_alike_are_drawn_once():
    found = page_hardware.topologies(MADE)
    assert [one["hosts"] for one in found["drawn"]] == [
        "gpu-01, gpu-02, gpu-04, gpu-05, gpu-06, gpu-07, gpu-08",
        "gpu-03",
    ]
    assert "does not answer: 0000:ba:00.0" in texts(found["drawn"][1]["svg"])
    assert found["unknown"] == ""


def test_where_no_tool_tells_it_is_said_and_nothing_drawn():
    found = page_hardware.topologies(report_of("unknown"))
    assert found["drawn"] == []
    assert found["unknown"] == "new-1"


@pytest.mark.parametrize(
    "svg", [drawings.matrix(pair_map.heat_map(MADE["measurements"]), "m"), drawings.host(topology.picture(QUIET), "t")]
)
def test_a_drawing_says_what_it_shows(svg):
    root = ElementTree.fromstring(svg)
    described = {element.get("id"): "".join(element.itertext()) for element in root if element.get("id")}
    assert root.get("role") == "img"
    assert set(root.get("aria-labelledby").split()) == set(described)
    assert all(described.values())


# peers and health


def test_peers_are_shown_where_they_are_known_and_said_where_not():
    rows = page_hardware.peer_rows(MADE["measurements"])
    assert [row["where"] for row in rows][:2] == ["gpu-05", "gpu-01"]
    assert {row["ceiling"] for row in rows} >= {"788 (52 %)"}
    alone = [{**one, "hosts": ["x"]} for one in collectives(470.0)]
    alone[-1].update(median_gb_s=None, percentile=None, threshold_gb_s=None)
    (row,) = page_hardware.peer_rows(alone)
    assert (row["median"], row["percentile"], row["floor"]) == ("unknown", "unknown", "none")


def test_hosts_without_a_word_share_a_row_of_health():
    rows = page_hardware.health_rows(MADE["measurements"])
    assert [row["host"] for row in rows] == ["gpu-06", "gpu-08", "gpu-01, gpu-02, gpu-03, gpu-04, gpu-05, gpu-07"]
    assert rows[0]["found"][0]["check"] == "NVLinks"
    assert rows[1]["unknown"] == [
        {"check": "clocks, temperature, PCIe link under load", "reason": "nobody looked while the load ran"}
    ]


# the provider's text


def test_the_provider_is_told_what_where_and_by_which_line():
    said = provider.text(MADE)
    assert "GPU 0000:2a:00.0: NVLink 3 counted errors under load" in said
    assert "serial 1652923051, UUID GPU-515eed00" in said
    assert "expected: at least 440 GB/s" in said
    assert "measured: 7" in said
    assert "2026-01-02T03:04:05Z" in said
    assert max(map(len, said.splitlines())) < 140


@pytest.mark.parametrize(
    ("finding", "theirs"),
    [
        ({"severity": "fail", "action": {"kind": "replace"}}, True),
        ({"severity": "warn", "action": {"kind": "ask_provider"}}, True),
        ({"severity": "info", "action": {"kind": "ask_provider"}}, False),
        ({"severity": "fail", "action": {"kind": "configure"}}, False),
        ({"severity": "fail", "action": {"kind": "reset"}, "rule": "health.xid"}, True),
        ({"severity": "warn", "action": {"kind": "reset"}, "rule": "health.xid"}, False),
        ({"severity": "fail", "action": {"kind": "reset"}, "rule": "gpu.other"}, False),
    ],
)
def test_only_what_is_the_providers_is_sent(finding, theirs):
    assert provider.theirs(finding) is theirs


def test_nothing_is_sent_where_nothing_is_theirs():
    made = {**MADE, "findings": [one for one in MADE["findings"] if not provider.theirs(one)]}
    assert provider.text(made) == ""


# JUnit


def test_a_case_for_each_check_and_each_thing_that_was_ordered():
    root = ElementTree.fromstring(junit.render(MADE).encode("utf-8"))
    third = {case.get("name"): case for case in root.findall("testsuite[@name='gpu-03']/testcase")}
    assert third["GPUs"].find("failure").get("message") == "8 ordered, 7 delivered"
    assert third["GPU model"].find("failure") is None
    assert third["health: Xid errors"].find("failure") is None
    sixth = {case.get("name"): case for case in root.findall("testsuite[@name='gpu-06']/testcase")}
    assert sixth["health: NVLinks"].find("failure") is not None
    eighth = {case.get("name"): case for case in root.findall("testsuite[@name='gpu-08']/testcase")}
    assert "nobody looked" in eighth["health: clocks"].find("skipped").get("message")
    assert not [name for name in third if name.startswith("acceptance.")]


def test_what_was_left_out_is_named_once_with_its_hosts():
    assert MADE["left_out"] == [{"what": "growing sets of hosts", "why": "budget of 5 minutes", "hosts": ["gpu-01"]}]
