"""Builds reports from the cases under tests/cases/report."""

import copy
from pathlib import Path

import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.verdict import verdict
from ansible_collections.trainrig.gpu.plugins.module_utils.report.build import build

CASES = Path(__file__).parents[3] / "cases" / "report"
BASE = yaml.safe_load((CASES / "base.yml").read_text(encoding="utf-8"))
FINISHED = "2026-01-02T03:04:05Z"

FINDING = {
    "rule": "some.rule",
    "severity": "fail",
    "layer": "driver",
    "scope": "host",
    "summary": "something was found",
    "cause": "a cause",
    "action": {"kind": "none", "text": ""},
    "evidence": [{"probe": "dmesg", "text": "a line"}],
    "phase": "preflight",
}
MEASUREMENT = {
    "collectives": BASE["measurements"][0],
    "ddp": BASE["measurements"][1],
}


def merged(base, changes):
    result = copy.deepcopy(base)
    for key, value in changes.items():
        nested = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if nested else value
    return result


def host(name, changes):
    """base.yml with the case's changes; findings and measurements are completed, so that a case says what matters."""
    result = merged(BASE, changes)
    result["findings"] = [{**FINDING, "host": name, **one} for one in result["findings"] or []]
    for part in (result, result["carried"] or {}):
        if part.get("measurements") is not None:
            part["measurements"] = [{**MEASUREMENT.get(one["stage"], {}), **one} for one in part["measurements"]]
    if result["carried"]:
        carried = result["carried"]
        carried["findings"] = [{**FINDING, "host": name, **one} for one in carried.get("findings") or []]
    return result


def report(hosts=None, phase="site", **options):
    """A report over these hosts (name -> what differs from base.yml)."""
    hosts = {"a": {}} if hosts is None else hosts
    settings = {"inventory": "case", "sources": ["inventories/case"], "lock_digest": "0f" * 32, **options}
    filled = {name: host(name, changes) for name, changes in hosts.items()}
    return build(filled, judge=verdict, phase=phase, finished=FINISHED, **settings)


def all_cases():
    for path in sorted(CASES.glob("*.yml")):
        if path.name != "base.yml":
            for name, case in yaml.safe_load(path.read_text(encoding="utf-8")).items():
                yield f"{path.stem}/{name}", case
