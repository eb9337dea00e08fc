"""Holds what a run measured against what the site recorded before: only the report sees whole groups of hosts."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.judge import baseline
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.job import Job, describe
from ansible_collections.trainrig.gpu.plugins.module_utils.report.pools import by_pool

Host = Mapping[str, Any]


class Data(NamedTuple):
    """data/gpus and data/thresholds."""

    gpus: Mapping[str, Any]
    thresholds: Mapping[str, Any]


def against(hosts: Mapping[str, Host], record: Mapping[str, Any], data: Data) -> Dict[str, Host]:
    """The hosts with `baseline_gb_s` at what was recorded before, and a finding where it is no longer reached.

    What several hosts measured together is judged once; its finding stands at the pool's first host that measured.
    """
    found: Dict[str, Host] = dict(hosts)
    for pool, names in by_pool(hosts).items():
        findings, notes = baseline.judge(_rows(hosts, names), record, _jobs(hosts, names, data), data.thresholds, pool)
        places = {(note.hosts, note.collective, note.size_bytes): note for note in notes}
        measuring = [name for name in names if hosts[name].get("measurements")]
        for name in measuring:
            own = [one for one in findings if _at(one, measuring) == name]
            rows = [_beside(name, one, places) for one in hosts[name]["measurements"]]
            found[name] = {
                **hosts[name],
                "measurements": rows,
                "findings": [*(hosts[name].get("findings") or []), *own],
            }
    return found


def record(hosts: Mapping[str, Host], when: str, lock_digest: Optional[str], data: Data) -> Dict[str, Any]:
    """The record of this run: of every pool what passed, each collective at its largest size."""
    rows: List[Any] = []
    for names in by_pool(hosts).values():
        made = baseline.record(_rows(hosts, names), _jobs(hosts, names, data), when, lock_digest)
        rows += made["rows"]
    return {"schema": baseline.SCHEMA, "rows": rows}


def _jobs(hosts: Mapping[str, Host], names: List[str], data: Data) -> Dict[str, Job]:
    return {
        name: describe(name, hosts[name].get("observation") or {}, data.gpus, data.thresholds)
        for name in names
        if hosts[name].get("observation")
    }


def _rows(hosts: Mapping[str, Host], names: List[str]) -> List[Dict[str, Any]]:
    """All that was measured, with the inventory's names; a node that measured alone only knows its own."""
    return [
        {**one, "hosts": _hosts(name, one)} for name in names for one in hosts[name].get("measurements") or [] if one
    ]


def _hosts(name: str, one: Mapping[str, Any]) -> List[str]:
    return [name] if (one.get("nodes") or 1) == 1 else [str(host) for host in one.get("hosts") or [name]]


def _at(finding: Mapping[str, Any], names: List[str]) -> str:
    host = finding.get("host")
    return str(host) if host in names else names[0]


def _beside(name: str, one: Mapping[str, Any], places: Mapping[Tuple[Any, ...], Any]) -> Mapping[str, Any]:
    key = (tuple(sorted(_hosts(name, one))), one.get("collective"), one.get("size_bytes"))
    note = next((places[place] for place in places if (tuple(sorted(place[0])), *place[1:]) == key), None)
    return one if note is None else {**one, "baseline_gb_s": note.baseline_gb_s}
