"""The report as JUnit XML: a suite per host, a case per layer, rule and measurement, and one for the verdict."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional
from xml.etree import ElementTree

from ansible_collections.trainrig.gpu.plugins.module_utils.report import acceptance
from ansible_collections.trainrig.gpu.plugins.module_utils.report.build import STOPPING
from ansible_collections.trainrig.gpu.plugins.module_utils.report.summary import places
from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import clean, number, one_line, size

#: Holds what concerns several hosts.
FLEET = "fleet"
_FAILING = ("refuse", "fail")


class _Case:
    """One test case: passed, unless an outcome (failure, error or skipped) is given."""

    def __init__(self, kind: str, name: str, outcome: Optional[str] = None, message: str = "", text: str = "") -> None:
        self.kind, self.name, self.outcome, self.message, self.text = kind, name, outcome, message, text

    def element(self, suite: str) -> ElementTree.Element:
        attributes = {"classname": clean(f"{suite}.{self.kind}"), "name": one_line(self.name)}
        case = ElementTree.Element("testcase", attributes)
        if self.outcome:
            child = ElementTree.SubElement(case, self.outcome, {"message": one_line(self.message)})
            if self.outcome != "skipped":
                child.set("type", clean(self.kind))
            child.text = clean(self.text) or None
        elif self.text:
            ElementTree.SubElement(case, "system-out").text = clean(self.text)
        return case


def finding_text(finding: Mapping[str, Any]) -> str:
    """Cause, evidence and next step of a finding as plain text."""
    lines = [f"cause: {finding.get('cause')}"]
    lines += [f"evidence ({one.get('probe')}): {one.get('text')}" for one in finding.get("evidence") or []]
    action = finding.get("action") or {}
    lines.append(f"next: {action.get('text')} [{action.get('kind')}]")
    return "\n".join(lines)


def _finding_case(finding: Mapping[str, Any]) -> _Case:
    severity = str(finding.get("severity"))
    summary = f"{severity}: {finding.get('summary')}"
    outcome = "failure" if severity in _FAILING else None
    text = finding_text(finding) if outcome else f"{summary}\n{finding_text(finding)}"
    return _Case("finding", str(finding.get("rule")), outcome, summary, text)


def measurement_name(one: Mapping[str, Any]) -> str:
    """ddp gloo 2 ranks; all_reduce gloo 2 ranks 8 MiB float32."""
    if one.get("check"):
        return f"{one.get('stage')}: {one['check']}"
    words = [str(one.get("collective") or one.get("stage")), one.get("backend")]
    if one.get("ranks") is not None:
        words.append(f"{one['ranks']} ranks")
    if one.get("size_bytes") is not None:
        words.append(size(one["size_bytes"]))
    words.append(one.get("dtype"))
    return " ".join(str(word) for word in words if word)


def _measurement_case(one: Mapping[str, Any]) -> _Case:
    numbers = {key: value for key, value in one.items() if isinstance(value, (int, float)) and value is not None}
    text = "\n".join(f"{key}: {number(value)}" for key, value in sorted(numbers.items()))
    reason = one.get("reason") or "outside of what is expected"
    text = f"cause: {reason}\n{text}" if one.get("status") in ("fail", "warn") else text
    outcome = "failure" if one.get("status") == "fail" else None
    if one.get("known") is False and one.get("status") == "info":
        outcome, text = "skipped", ""
    elif one.get("check") and not outcome:
        text = str(reason)
    return _Case(str(one.get("stage") or "measurement"), measurement_name(one), outcome, str(reason), text)


def _order_case(row: Mapping[str, Any]) -> _Case:
    """One thing that was ordered. What only the model says accuses nobody."""
    amounts = [acceptance.text(row[name], row["unit"]) for name in ("expected", "delivered")]
    said = f"{amounts[0]} ordered, {amounts[1]} delivered"
    if row["status"] == "unknown":
        return _Case("ordered", row["what"], "skipped", said)
    failed = row["status"] in acceptance.MISSING and row["by"] == "inventory"
    return _Case(
        "ordered", row["what"], "failure" if failed else None, said, "\n".join(filter(None, [said, row["detail"]]))
    )


def _host_cases(entry: Mapping[str, Any]) -> List[_Case]:
    if entry["state"] == "unreachable":
        return [_Case("host", "answers", "error", "the host did not answer", "nothing is known about it")]
    cases = [_Case("host", "answers")]
    failed = {one["layer"]: one for one in entry["failures"]}
    for row in (entry["plan"] or {}).get("layers") or []:
        reasons = "; ".join(row["reasons"] or [])
        if row["layer"] in failed:
            one = failed[row["layer"]]
            cases.append(_Case("layer", row["layer"], "failure", one["message"] or "failed", f"task: {one['task']}"))
        elif row["state"] == "deferred":
            cases.append(_Case("layer", row["layer"], "skipped", reasons or "deferred"))
        else:
            cases.append(_Case("layer", row["layer"], text=f"{row['state']}: {reasons}" if reasons else ""))
    cases += [_order_case(row) for row in entry.get("acceptance") or [] if row["expected"] is not None]
    return cases


def cases(report: Mapping[str, Any]) -> Dict[str, List[_Case]]:
    """The cases by suite, hosts in the report's order, then what concerns several of them, then the verdict."""
    suites: Dict[str, List[_Case]] = {name: _host_cases(entry) for name, entry in report["hosts"].items()}
    shared: List[_Case] = []
    for finding in report["findings"]:
        # A failed layer is a case already, under the layer's own name.
        if finding.get("rule") == "run.layer_failed" and any(
            case.kind == "layer" and case.name == finding.get("layer") and case.outcome
            for case in suites.get(finding.get("host") or "", [])
        ):
            continue
        # So is what was ordered, under its own name.
        if finding.get("rule") not in ("run.unreachable", "acceptance.missing", "acceptance.unknown"):
            suites.get(finding.get("host") or "", shared).append(_finding_case(finding))
    for one in report["measurements"]:
        names = places(one)
        suites.get(names[0] if len(names) == 1 else "", shared).append(_measurement_case(one))
    verdict, why = report["verdict"], "; ".join(report["reasons"])
    stopping = "failure" if verdict in STOPPING else None
    shared.append(_Case("verdict", "verdict", stopping, f"{verdict}: {why}", "" if stopping else f"{verdict} {why}"))
    return {**suites, FLEET if FLEET not in suites else f"{FLEET} (all hosts)": shared}


def render(report: Mapping[str, Any]) -> str:
    """The whole file, as text."""
    root = ElementTree.Element("testsuites", {"name": clean(f"trainrig {report['phase']} {report['inventory']}")})
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for name, content in cases(report).items():
        counts = {
            "tests": len(content),
            "failures": sum(1 for one in content if one.outcome == "failure"),
            "errors": sum(1 for one in content if one.outcome == "error"),
            "skipped": sum(1 for one in content if one.outcome == "skipped"),
        }
        attributes = {"name": clean(name), "timestamp": clean(report["started"])}
        suite = ElementTree.SubElement(root, "testsuite", {**attributes, **{key: str(counts[key]) for key in counts}})
        for one in content:
            suite.append(one.element(name))
        totals = {key: totals[key] + counts[key] for key in totals}
    for key, total in totals.items():
        root.set(key, str(total))
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'
