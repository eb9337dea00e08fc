"""What was ordered against what is there: met, short, another thing, not known; and what is wrong with an order."""

import copy
import json

import jsonschema
import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.report import acceptance, expected
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import message
from ansible_collections.trainrig.gpu.plugins.plugin_utils import declarations
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT, load

from tests.unit.module_utils.judge.test_cases import put
from tests.unit.module_utils.judge.test_health import QUIET
from tests.unit.module_utils.report.fleets import LIMITS, ORDERED, report_of

MODELS = LIMITS["gpus"]


def rows(changes=None, ordered=None):
    seen = copy.deepcopy(QUIET)
    seen["machine"]["virt"] = "none"
    for path, value in (changes or {}).items():
        put(seen, path, value)
    found = acceptance.rows(seen, acceptance.Order(ordered or {}, MODELS, LIMITS["tolerances"]))
    return {row["what"]: row for row in found}


def states(changes, ordered=ORDERED):
    return {what: row["status"] for what, row in rows(changes, ordered).items() if row["status"] != "met"}


#: What differs from eight sound H100 -> what is not as ordered.
CASES = {
    "as ordered": ({}, {}),
    "a GPU that is lost": ({"nvidia.gpus.3.lost": True}, {"GPUs": "short"}),
    "a GPU that is hidden": ({"nvidia.gpus.3.hidden": True}, {"GPUs": "short"}),
    "another model": (
        {"nvidia.gpus.*.model": "H100_PCIe", "nvidia.gpus.*.pci_id": "10de:2331"},
        {"GPU model": "differs"},
    ),
    "one of another model": ({"nvidia.gpus.3.model": "H100_NVL"}, {"GPU model": "differs"}),
    "an id that is in no table": (
        {"nvidia.gpus.*.model": None, "nvidia.gpus.*.pci_id": "10de:ffff"},
        {"GPU model": "unknown", "GPU memory": "unknown"},
    ),
    "a slot of an older generation": ({"nvidia.gpus.1.pcie.gen_max": 4}, {"GPU PCIe generation": "short"}),
    "a link that is down": ({"nvidia.gpus.1.nvlink.links_active": 17}, {"NVLinks of a GPU": "short"}),
    "a port that is down": ({"rdma.devices.1.ports.0.state": "Down"}, {"RDMA ports": "short"}),
    "a slow port": ({"rdma.devices.1.ports.0.rate_gbit_s": 200.0}, {"RDMA ports": "short", "rate of a port": "short"}),
    "no tool for RDMA": ({"rdma.devices": None}, {"RDMA ports": "unknown", "rate of a port": "unknown"}),
    "half the threads": ({"machine.cpu.threads": 96}, {"CPU threads": "short"}),
    "memory within the tolerance": ({"machine.memory_mib": 1993000}, {}),
    "memory beyond it": ({"machine.memory_mib": 1992000}, {"memory": "short"}),
    "a disk that says no size": ({"machine.block_devices.0.size_mib": None}, {"disks": "unknown"}),
    "a small disk": ({"machine.block_devices.0.size_mib": 1500000}, {"disks": "short"}),
    "more than ordered": ({"machine.cpu.threads": 256, "machine.memory_mib": 4000000}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    changes, wrong = CASES[name]
    assert {what: state for what, state in states(changes).items() if state != "not_declared"} == wrong


def test_without_an_order_everything_is_shown_and_nothing_accused():
    found = rows()
    assert {row["by"] for row in found.values() if row["expected"] is not None} == {"model"}
    assert acceptance.findings("a", list(found.values()), "verify") == []
    assert found["GPUs"]["delivered"] == 8
    assert found["GPU memory"]["delivered"] == 80, "the size on the label, not the 79.6 GiB that the driver shows"


def test_unknown_is_said_and_never_zero():
    seen = acceptance.rows({}, acceptance.Order(ORDERED, MODELS, {}))
    assert {row["delivered"] for row in seen} == {None}
    assert {row["status"] for row in seen if row["expected"] is not None} == {"unknown"}
    assert acceptance.text(None, "GiB") == "unknown"


def test_the_one_that_has_least_is_named():
    found = rows({"nvidia.gpus.1.nvlink.links_active": 17})["NVLinks of a GPU"]
    assert (found["delivered"], found["detail"]) == (17, "0000:2a:00.0")


def test_a_virtual_machine_is_not_held_to_the_models_pcie():
    found = rows({"machine.virt": "kvm", "nvidia.gpus.*.pcie.gen_max": 3})["GPU PCIe generation"]
    assert (found["expected"], found["status"]) == (None, "not_declared")


def test_gpus_of_another_vendor_are_known_by_their_pci_id():
    bus = [{"address": "0000:05:00.0", "id": "1002:74a1"}, {"address": "0000:15:00.0", "id": "1002:74a1"}]
    ordered = {"gpus": {"model": "MI300X", "count": 2}}
    found = rows({"nvidia.gpus": [], "pci": bus}, ordered)
    assert (found["GPU model"]["status"], found["GPUs"]["status"]) == ("met", "met")
    assert found["GPU memory"]["delivered"] == 192


def test_what_is_missing_is_a_finding_for_the_provider_and_what_is_not_known_a_warning():
    found = acceptance.findings(
        "a", list(rows({"nvidia.gpus.3.lost": True, "rdma.devices": None}, ORDERED).values()), "v"
    )
    assert [(one["rule"], one["severity"], one["action"]["kind"]) for one in found] == [
        ("acceptance.missing", "fail", "ask_provider"),
        ("acceptance.unknown", "warn", "configure"),
        ("acceptance.unknown", "warn", "configure"),
    ]
    assert found[0]["summary"] == "GPUs: 8 ordered, 7 delivered"
    assert found[0]["evidence"][0]["text"] == "does not answer: 0000:5d:00.0"


def test_what_only_the_model_says_accuses_nobody():
    short = rows({"nvidia.gpus.1.nvlink.links_active": 17}, {})
    assert short["NVLinks of a GPU"]["status"] == "short"
    assert acceptance.findings("a", list(short.values()), "verify") == []


#: An order with a mistake in it -> the one message about it.
MISTAKES = [
    ([], "trainrig_expected: []: must be keys with values."),
    ({"gpu": {}}, "trainrig_expected.gpu: no such key. To fix it: did you mean gpus."),
    ({"racks": 1}, "trainrig_expected.racks: no such key. To fix it: known are gpus, nics, cpus"),
    (
        {"gpus": 8},
        "trainrig_expected.gpus: 8: must be keys with values. To fix it: write keys with values; known are model",
    ),
    (
        {"gpus": {"model": "H100"}},
        "trainrig_expected.gpus.model: H100: no such GPU in data/gpus.yml. To fix it: did you mean",
    ),
    ({"gpus": {"model": 100}}, "trainrig_expected.gpus.model: 100: no such GPU"),
    ({"gpus": {"count": "8"}}, "trainrig_expected.gpus.count: 8: must be a whole number above 0 (GPUs of a node)"),
    ({"gpus": {"count": True}}, "trainrig_expected.gpus.count: True: must be a whole number"),
    ({"cpus": 0}, "trainrig_expected.cpus: 0: must be a whole number above 0"),
    ({"cpus": 1.5}, "trainrig_expected.cpus: 1.5: must be a whole number above 0"),
    ({"memory_gib": -1}, "trainrig_expected.memory_gib: -1: must be a number above 0"),
    ({"memory_gib": float("nan")}, "trainrig_expected.memory_gib: nan: must be a number above 0"),
    ({"memory_gib": float("inf")}, "trainrig_expected.memory_gib: inf: must be a number above 0"),
    ({"nics": {"rate": 400}}, "trainrig_expected.nics.rate: no such key. To fix it: did you mean rate_gbit_s."),
]


@pytest.mark.parametrize(("written", "said"), MISTAKES)
def test_a_mistake_gets_one_clear_error(written, said):
    (problem,) = expected.problems(written, MODELS)
    assert message(problem).startswith(said)
    assert "To fix it: " in message(problem)


def test_a_sound_order_gets_none():
    assert expected.problems(ORDERED, MODELS) == []
    assert expected.problems(None, MODELS) == []
    assert expected.problems({}, MODELS) == []


def test_the_report_holds_every_host_against_the_order():
    made = report_of("h100s")
    short = {
        host: [row["what"] for row in entry["acceptance"] if row["status"] == "short"]
        for host, entry in made["hosts"].items()
    }
    assert {host for host, rows_ in short.items() if rows_} == {"gpu-03"}
    assert short["gpu-03"] == ["GPUs", "RDMA ports"]
    assert made["verdict"] == "fail"


def test_the_tolerances_follow_their_schema():
    schema = json.loads((ROOT / "data/schemas/acceptance.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(load("acceptance"), schema)


def test_the_declaration_of_a_host_is_checked():
    assert declarations.ordered(None) == []
    assert declarations.ordered(ORDERED) == []
    (problem,) = declarations.ordered({"cpu": 4})
    assert message(problem) == (
        "variable trainrig_expected: trainrig_expected.cpu: no such key. To fix it: did you mean cpus."
    )
