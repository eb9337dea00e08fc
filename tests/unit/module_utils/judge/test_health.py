"""Runs tests/cases/health/*.yml: three looks at a node, what differs between them, and exactly what must be found."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.judge import health, rules_health
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, enrich, probes, source
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT, load

from tests.unit.module_utils.judge.test_cases import put, text_of

CASES = Path(__file__).parents[3] / "cases"
TABLE = yaml.safe_load((CASES / "health" / "changes.yml").read_text(encoding="utf-8"))
DATA = health.Data(rules=load("rules"), xids=load("xids"), health=load("health"))
#: The time between the two looks, in seconds.
APART = 300.0
UNDER_LOAD = {"utilization_percent": 100, "throttle_reasons": ["sw_power_cap"], "temperature_c": 62, "power_w": 690.0}


def observed(case):
    outputs = source.BundleSource(CASES / "observe" / case / "bundle").read(probes.table().values())
    return enrich.enrich(build.build(outputs), load("gpus"))


#: What the bundle does not have: a quiet log, and counters at rest.
QUIET = observed("healthy_8x_h100")
QUIET["kernel_log"] = {**QUIET["kernel_log"], "xids": [], "sxids": [], "aer": [], "fallen_off": []}
QUIET["rdma"]["counters"] = {
    f"{device['name']}/1": {"link_downed": 0, "symbol_error": 0, "port_rcv_errors": 0}
    for device in QUIET["rdma"]["devices"]
}
for _gpu in QUIET["nvidia"]["gpus"]:
    _gpu["nvlink"]["errors"] = {kind: {str(link): 0 for link in range(18)} for kind in ("replay", "recovery", "crc")}
    _gpu["nvlink"]["link_gb_s"] = [26.562] * 18


def looks(case):
    before, during, after = (copy.deepcopy(QUIET) for _ in range(3))
    for gpu in during["nvidia"]["gpus"]:
        gpu.update(UNDER_LOAD)
        gpu["pcie"]["gen"] = gpu["pcie"]["gen_max"]
    after["identity"]["clock_unix_s"] += APART
    for name, look in (("before", before), ("during", during), ("after", after)):
        for part in ("both", name):
            for path, value in (case.get(part) or {}).items():
                put(look, path, value)
    return before, None if case.get("during", {}) is None else [during], after


def judged(case):
    return health.judge(*looks(case), "node-a", DATA)


@pytest.mark.parametrize("name", TABLE)
def test_case(name):
    case = TABLE[name]
    findings, measurements = judged(case)
    assert {one["rule"]: one["severity"] for one in findings} == case["rules"]
    for words in case.get("says", []):
        assert words in "\n".join(map(text_of, findings))
    kinds = {one["rule"]: one["action"]["kind"] for one in findings}
    assert {**kinds, **case.get("actions", {})} == kinds
    unknown = [one["check"] for one in measurements if not one["known"]]
    assert unknown == case.get("not_known", [])
    for one in findings:
        assert one["cause"] and one["action"]["text"] and one["evidence"]
        assert "{" not in one["cause"] + one["action"]["text"]
        assert one["host"] == "node-a"


def test_every_rule_has_a_sick_case():
    assert {rule for case in TABLE.values() for rule in case["rules"]} == set(rules_health.RULES)


def test_every_check_is_a_measurement_that_says_what_it_saw():
    findings, measurements = judged({})
    assert findings == []
    assert [one["check"] for one in measurements] == list(health.CHECKS)
    assert {one["status"] for one in measurements} == {"pass"}
    assert all(one["reason"] and one["known"] for one in measurements)
    assert {one["reason"] for one in measurements} >= {"all 8 answer", "at most 62 C", "none"}
    schema = json.loads((ROOT / "data/schemas/report.schema.json").read_text(encoding="utf-8"))
    for one in measurements:
        jsonschema.validate(one, {**schema, "$ref": "#/$defs/measurement", "required": [], "properties": {}})


def test_a_check_that_failed_says_why():
    _findings, measurements = judged(TABLE["a slow PCIe link"])
    (failed,) = [one for one in measurements if one["status"] == "fail"]
    assert (failed["check"], failed["reason"]) == (
        "PCIe link under load",
        "GPU 0000:ba:00.0: PCIe generation 1 of 5 under load",
    )


def test_what_is_not_known_is_no_pass():
    _findings, measurements = judged(TABLE["nobody looked while the load ran"])
    unknown = [one for one in measurements if not one["known"]]
    assert {one["status"] for one in unknown} == {"info"}
    assert {one["reason"] for one in unknown} == {"not known: nobody looked while the load ran"}


def test_a_node_without_gpus_and_adapters_is_not_asked_about_them():
    machine = observed("cpu_only_vm")
    findings, measurements = health.judge(machine, None, machine, "node-a", DATA)
    assert findings == []
    assert [one["check"] for one in measurements] == ["still running"]


def test_looks_of_which_nothing_is_known_are_borne():
    findings, _measurements = health.judge({}, [{}], {}, None, DATA)
    assert findings == []
    assert health.judge(build.empty(), [build.empty()], build.empty(), None, DATA)[0] == []


def test_a_look_with_few_probes_is_enough_while_the_load_runs():
    assert set(health.PROBES) <= set(probes.table())
    before, (during,), after = looks(TABLE["power brake"])
    little = {"nvidia": {"gpus": during["nvidia"]["gpus"]}}
    assert {one["rule"] for one in health.judge(before, [little], after, "a", DATA)[0]} == {"health.throttled"}


def test_the_data_follows_its_schema_and_names_its_sources():
    data = load("health")
    plain = json.loads(json.dumps(data))
    schema = json.loads((ROOT / "data/schemas/health.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(plain, schema)
    named = {row["source"] for row in [*data["rdma"], *data["nvlink"], data["pcie_replays"]]}
    assert named | {row["source"] for row in data["harmless_xids"].values()} <= set(data["sources"])
