"""Runs tests/cases/plan/*.yml: a layer as it was applied, what changed, and the reasons a human must read."""

import copy
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.decide import decide, manifest_problem
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.digest import digest

CASES = Path(__file__).parents[3] / "cases" / "plan"
BASE = yaml.safe_load((CASES / "base.yml").read_text(encoding="utf-8"))
FILES = sorted(path for path in CASES.glob("*.yml") if path.name != "base.yml")


def merged(base, changes):
    """The base with the case's changes laid over it; the word `removed` takes a key away."""
    result = copy.deepcopy(base)
    for key, value in (changes or {}).items():
        if value == "removed":
            result.pop(key)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def cases():
    for path in FILES:
        for name, case in yaml.safe_load(path.read_text(encoding="utf-8")).items():
            yield pytest.param(case, id=f"{path.stem}/{name}")


@pytest.mark.parametrize("case", list(cases()))
def test_case(case):
    inputs = merged(BASE["inputs"], case.get("inputs"))
    fingerprints = merged(BASE["fingerprints"], case.get("now"))
    entry = {"state": "clean", "digest": digest(BASE["inputs"]), "inputs": BASE["inputs"]}
    entry = merged({**entry, "fingerprints": BASE["fingerprints"], "resources": BASE["resources"]}, case.get("entry"))
    plan = decide(
        "pytorch",
        inputs,
        None if case.get("no_entry") else entry,
        None if case.get("not_looked_at") else fingerprints,
        manifest_problem(case["manifest_probe"], case.get("manifest")) if "manifest_probe" in case else None,
        recheck=case.get("recheck", False),
        deferred=case.get("deferred"),
        resources=merged(BASE["resources"], case.get("resources")),
    )
    assert plan["reasons"] == case["reasons"]
    assert plan["state"] == case.get("state", "dirty" if case["reasons"] else "clean")
    assert plan["digest"] == digest(inputs)


def test_a_digest_does_not_depend_on_the_order_of_keys():
    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})


@pytest.mark.parametrize("part", ["code", "options", "lock", "mode", "observed"])
def test_every_part_of_the_inputs_counts(part):
    changed = copy.deepcopy(BASE["inputs"])
    changed[part] = "oci" if part == "mode" else {**changed[part], "new": "x"}
    assert digest(changed) != digest(BASE["inputs"])
    entry = {
        "state": "clean",
        "digest": digest(BASE["inputs"]),
        "inputs": BASE["inputs"],
        "fingerprints": {},
        "resources": {},
    }
    assert decide("pytorch", changed, entry, {})["state"] == "dirty"
