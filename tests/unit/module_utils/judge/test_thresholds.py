"""data/thresholds.yml is whole, sourced and physically possible; a site's own rows are checked with a clear word."""

import json

import jsonschema
import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.job import Job, describe
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.thresholds import (
    ThresholdError,
    ceiling,
    check_site_rows,
    fit,
)
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT, load

DATA, GPUS = load("thresholds"), load("gpus")["gpus"]
FIGURES = [
    pytest.param(row, id=f"{row['models'][0]}-{row['gpus_per_node']}x{row['nodes']}-{row['kind']}-{row['busbw_gb_s']}")
    for row in DATA["all_reduce"]
]


def job(model, link="nvlink", **changes):
    nvlink = GPUS[model]["nvlink"]
    facts = {
        "host": "a",
        "model": model,
        "link": link,
        "nvlink_gb_s": nvlink["total_gb_s"] / 2 if nvlink["total_gb_s"] else None,
        "nvlink_generation": nvlink["generation"],
        "through_switch": nvlink["through"] == "nvswitch",
        "pcie_gb_s": 63.0,
        "expected_gpus": 8,
    }
    return Job(**{**facts, **changes})


def test_schema():
    schema = json.loads((ROOT / "data/schemas/thresholds.schema.json").read_text(encoding="utf-8"))
    text = json.loads(json.dumps(DATA))
    jsonschema.Draft202012Validator(schema).validate(text)
    text["all_reduce"][0]["busbw"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(text)


@pytest.mark.parametrize("row", FIGURES)
def test_a_figure_can_be_followed_and_is_possible(row):
    assert row["source"] in DATA["sources"]
    for model in row["models"]:
        assert model in GPUS
        # Every published row over several nodes is of nodes with 400 GB/s of network at most, Slingshot of 100.
        network = {"network_gb_s": 100.0 if model == "GH200" else 400.0, "network_layer": "InfiniBand"}
        machine = job(model, row["link"], nvlink_domain=GPUS[model]["nvlink"].get("domain", 0), **network)
        limit = ceiling(machine, "all_reduce", row["nodes"], row["gpus_per_node"] * row["nodes"], DATA)
        assert limit is None or row["busbw_gb_s"] < limit
        assert limit is not None or row["nodes"] > 18 or row["link"].startswith("bridge")


def test_no_source_is_named_in_vain():
    used = {row["source"] for row in DATA["all_reduce"]}
    used |= {DATA[name]["source"] for name in ("pcie_gb_s_per_lane", "in_network_reduction")}
    assert used == set(DATA["sources"])


def test_deleting_a_row_changes_the_answer():
    hopper = job("H100_SXM5_80")
    size = 2**34
    assert fit(hopper, 1, 8, size, DATA).fail_below == 440
    less = {**DATA, "all_reduce": [row for row in DATA["all_reduce"] if row["source"] != "oci"]}
    assert fit(hopper, 1, 8, size, less).fail_below == 460
    none = {**DATA, "all_reduce": []}
    assert fit(hopper, 1, 8, size, none).fail_below is None


def test_a_model_is_not_matched_by_a_part_of_its_name():
    assert fit(job("GB200"), 1, 8, 2**34, DATA).fail_below is None
    assert fit(job("B200"), 1, 8, 2**34, DATA).fail_below == 440


def test_two_nodes_are_another_job_than_sixteen_gpus_of_one():
    assert fit(job("H100_SXM5_80"), 2, 16, 2**34, DATA).fail_below == 440
    assert fit(job("H100_SXM5_80"), 1, 16, 2**34, DATA).fail_below is None
    assert fit(job("H100_SXM5_80"), 8, 64, 2**34, DATA)[:2] == (300, 400)


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        (700.0, (job("H100_SXM5_80"), "all_reduce", 1, 8)),  # 450 * 14/9: summed in the switch
        (450.0, (job("H100_SXM5_80"), "all_gather", 1, 8)),
        (450.0, (job("H100_SXM5_80"), "all_reduce", 1, 2)),
        (300.0, (job("A100_SXM4_80"), "all_reduce", 1, 8)),  # its switches do not sum
        (450.0, (job("GH200"), "all_reduce", 1, 4)),  # no switch
        (63.0, (job("L40S", "pcie"), "all_reduce", 1, 4)),
        (None, (job("H800"), "all_reduce", 1, 8)),  # its link rate is not sourced
        (None, (job("H100_SXM5_80"), "all_reduce", 2, 16)),  # the network decides
        (None, (job("H100_SXM5_80"), "all_reduce", 1, 1)),
        (None, (job("L40S", "pcie", pcie_gb_s=None), "all_reduce", 1, 4)),
        (None, (job("A40", "bridge+pcie"), "all_reduce", 1, 4)),
    ],
)
def test_ceiling(expected, arguments):
    assert ceiling(*arguments, DATA) == expected


RAILS = {"network_gb_s": 400.0, "network_layer": "Ethernet"}  # 8x 400 Gbit/s
SHARP = {"network_gb_s": 400.0, "network_layer": "InfiniBand"}


@pytest.mark.parametrize(
    ("expected", "machine", "collective", "nodes", "ranks"),
    [
        # A node sends one buffer; busbw counts 30/16 of it.
        (750.0, job("B200", **RAILS), "all_reduce", 2, 16),
        (750.0, job("B200", **SHARP), "all_reduce", 2, 16),
        # 400 * 31/32 * 4/3; where the network adds up 2 * 400 * 31/32.
        (516.7, job("B200", **RAILS), "all_reduce", 4, 32),
        (775.0, job("B200", **SHARP), "all_reduce", 4, 32),
        (450.0, job("H100_SXM5_80", **RAILS), "all_reduce", 8, 64),
        (516.7, job("B200", **SHARP), "all_gather", 4, 32),  # nothing to add up
        (516.7, job("B200", **SHARP), "reduce_scatter", 4, 32),
        (400.0, job("B200", **RAILS), "broadcast", 4, 32),
        (64.6, job("B200", **RAILS), "all_to_all", 4, 32),  # 400 * 31 / (8 * 24)
        # Inside, what a GPU sends: 300 + 400/8, and nothing adds up in its switch.
        (350.0, job("A100_SXM4_80", **RAILS), "all_reduce", 2, 16),
        (63.0, job("L40S", "pcie", **RAILS), "all_reduce", 2, 8),
        (250.0, job("H100_SXM5_80", network_gb_s=250.0), "all_reduce", 4, 4),  # one GPU a node: only the network
        (63.0, job("L40S", "pcie", network_gb_s=250.0), "all_reduce", 4, 4),
        (750.0, job("H800", **RAILS), "all_reduce", 2, 16),  # its own link is not sourced
        (None, job("H100_SXM5_80", **RAILS), "all_reduce", 2, 15),
        (None, job("H100_SXM5_80"), "all_reduce", 2, 16),
        # 18 nodes of one NVLink domain are one node; beyond it nothing is known.
        (1750.7, job("GB200", nvlink_domain=72, **RAILS), "all_reduce", 18, 72),
        (None, job("GB200", nvlink_domain=72, **RAILS), "all_reduce", 36, 144),
    ],
)
def test_ceiling_of_several_nodes(expected, machine, collective, nodes, ranks):
    assert ceiling(machine, collective, nodes, ranks, DATA) == expected


def observed(*devices):
    return {"nvidia": {"gpus": []}, "rdma": {"devices": [dict(device) for device in devices]}}


def port(rate, state="Active", layer="InfiniBand"):
    return {"port": 1, "state": state, "rate_gbit_s": rate, "link_layer": layer}


@pytest.mark.parametrize(
    ("network", "devices"),
    [
        ((None, None), []),
        ((100.0, "InfiniBand"), [{"ports": [port(400)]}, {"ports": [port(400)]}, {"ports": [port(400, "Down")]}]),
        ((53.125, "InfiniBand"), [{"ports": [port(25, layer="Ethernet")]}, {"ports": [port(400)]}]),
        ((50.0, "Ethernet"), [{"ports": [port(400, layer="Ethernet")]}, {"virtual": True, "ports": [port(400)]}]),
        ((25.0, "InfiniBand"), [{"virtual": True, "ports": [port(200)]}]),  # in a virtual machine
        ((None, None), [{"ports": [port(400)]}, {"ports": [port(None)]}]),
    ],
)
def test_what_the_network_cards_send(network, devices):
    found = describe("a", observed(*devices), load("gpus"), DATA)
    assert (found.network_gb_s, found.network_layer) == network


GOOD = {"models": ["L40S"], "gpus_per_node": 4, "busbw_gb_s": 20}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"busbw": 20}, "unknown key 'busbw'"),
        ({"models": "L40S"}, "models must be a list"),
        ({"busbw_gb_s": "fast"}, "busbw_gb_s must be a number above 0, not 'fast'"),
        ({"busbw_gb_s": 0}, "must be a number above 0"),
        ({"severity": "refuse"}, "severity must be fail or warn, not 'refuse'"),
    ],
)
def test_a_bad_row_is_named(changes, words):
    with pytest.raises(ThresholdError, match="verify_thresholds, row 2: ") as error:
        check_site_rows([GOOD, {**GOOD, **changes}])
    assert words in str(error.value)


@pytest.mark.parametrize("key", ["models", "gpus_per_node", "busbw_gb_s"])
def test_a_row_that_lacks_a_key_is_named(key):
    with pytest.raises(ThresholdError, match=f"row 1: {key} is missing"):
        check_site_rows([{name: value for name, value in GOOD.items() if name != key}])
