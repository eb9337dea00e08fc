"""Builds the report of a run: hosts, findings, measurements, verdict and what to type now. Pure: data in, data out."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import math
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import SEVERITIES, natural
from ansible_collections.trainrig.gpu.plugins.module_utils.report import acceptance
from ansible_collections.trainrig.gpu.plugins.module_utils.report import hosts as host_entries
from ansible_collections.trainrig.gpu.plugins.module_utils.report.next_steps import next_steps
from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import age, count, listed

SCHEMA = 1
VERDICTS = ("pass", "warn", "fail", "refuse", "incomplete")
#: Verdicts that make the run exit non-zero.
STOPPING = ("fail", "refuse", "incomplete")

Judge = Callable[[List[Dict[str, Any]], List[Dict[str, Any]], Dict[str, str]], str]


def _distinct(items: Iterable[Any]) -> List[Any]:
    """Each item once, in the order of first appearance: what holds for a fleet is on record at every host of it."""
    seen: Dict[str, Any] = {}
    for item in items:
        seen.setdefault(json.dumps(item, sort_keys=True, default=str), item)
    return list(seen.values())


def _severity(finding: Mapping[str, Any]) -> int:
    name = finding.get("severity")
    return SEVERITIES.index(str(name)) if name in SEVERITIES else len(SEVERITIES)


def _ordered(findings: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    def key(one: Mapping[str, Any]) -> Any:
        return (_severity(one), natural(str(one.get("host") or "")), str(one.get("rule")), str(one.get("summary")))

    return sorted(findings, key=key)


def _findings(
    hosts: Mapping[str, Mapping[str, Any]], entries: Mapping[str, Mapping[str, Any]], phase: str
) -> List[Dict[str, Any]]:
    found: List[Dict[str, Any]] = []
    for name, host in hosts.items():
        found += host.get("findings") or []
        found += [{**one, "carried": True} for one in (host.get("carried") or {}).get("findings") or []]
        found += host_entries.run_findings(name, host, phase)
        found += acceptance.findings(name, entries[name]["acceptance"], phase)
    return _ordered(_distinct(found))


def _placed(name: str, measurement: Dict[str, Any]) -> Dict[str, Any]:
    """What one node measured alone carries its name in the inventory: the node itself only knows its own."""
    alone = measurement.get("nodes") in (1, None)
    return {**measurement, "host": name} if alone and not measurement.get("host") else measurement


def _measurements(hosts: Mapping[str, Mapping[str, Any]]) -> List[Dict[str, Any]]:
    found: List[Dict[str, Any]] = []
    for name, host in hosts.items():
        found += [_placed(name, one) for one in host.get("measurements") or []]
        old = (host.get("carried") or {}).get("measurements") or []
        found += [{**_placed(name, one), "carried": True} for one in old]
    return _distinct(found)


def _left_out(hosts: Mapping[str, Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """What this run did not look at, each thing once with the hosts it was left out on."""
    found: Dict[Any, Dict[str, Any]] = {}
    for name, host in hosts.items():
        for one in host.get("left_out") or []:
            key = (str(one.get("what")), str(one.get("why")))
            found.setdefault(key, {"what": key[0], "why": key[1], "hosts": []})["hosts"].append(name)
    return list(found.values())


def _known(value: Any) -> Any:
    """The same value where not-a-number and infinity are unknown: JSON has no words for them."""
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def reasons(
    findings: List[Dict[str, Any]], measurements: List[Dict[str, Any]], entries: Mapping[str, Mapping[str, Any]]
) -> List[str]:
    """Why the verdict is what it is, in a person's words, the gravest first."""
    found = []
    for severity in SEVERITIES[:-1]:
        some = [one for one in findings if one.get("severity") == severity and one.get("rule") != "run.unreachable"]
        if some:
            found.append(count(len(some), f"finding of severity {severity}", f"findings of severity {severity}"))
    failed = [one for one in measurements if one.get("status") == "fail"]
    if failed:
        found.append(count(len(failed), "measurement") + " failed")
    for state, text in (("unreachable", "not reached"), ("deferred", "not finished")):
        names = [name for name, one in entries.items() if one["state"] == state]
        if names:
            found.append(f"{text}: {listed(names)}")
    ages = [one["carried"]["age_s"] for one in entries.values() if one["carried"]]
    if ages:
        known = [value for value in ages if value is not None]
        when = f"{age(max(known))} ago" if known else "earlier"
        found.append(f"verified {when}, unchanged since")
    if not entries:
        found.append("the inventory has no hosts")
    return found


def build(
    hosts: Mapping[str, Mapping[str, Any]],
    judge: Judge,
    inventory: str,
    phase: str,
    finished: str,
    started: Optional[str] = None,
    lock_digest: Optional[str] = None,
    sources: Sequence[str] = (),
    data: Optional[Mapping[str, Any]] = None,
) -> Dict[str, Any]:
    """The content of report.json.

    ``hosts`` maps each host of the inventory to what the run knows about it (see `module_utils.report.hosts`),
    ``judge`` gives the verdict over findings, measurements and the hosts' states, ``sources`` are the inventories as
    they are given to ``-i``, ``data`` what the models of data/gpus.yml have (``gpus``) and how much less than ordered
    is still enough (``tolerances``).
    """
    names = sorted(hosts, key=natural)
    ordered = {name: hosts[name] for name in names}
    entries = {name: host_entries.entry(ordered[name], phase, data or {}) for name in names}
    findings = _findings(ordered, entries, phase)
    measurements = _measurements(ordered)
    states = {name: entries[name]["state"] for name in names}
    verdict = judge(findings, measurements, states) if names else "incomplete"
    report: Dict[str, Any] = {
        "schema": SCHEMA,
        "started": started or finished,
        "finished": finished,
        "inventory": inventory,
        "phase": phase,
        "lock_digest": lock_digest,
        "verdict": verdict,
        "reasons": reasons(findings, measurements, entries),
        "hosts": entries,
        "findings": findings,
        "measurements": measurements,
        "left_out": _left_out(ordered),
        "next": next_steps(ordered, states, findings, measurements, verdict, phase, sources),
    }
    known: Dict[str, Any] = _known(report)
    return known
