"""A site's own record of what its nodes reached, and later results against it.

The record is a document of rows in the shape of verify_thresholds, one for each measurement and set of hosts:

    schema: 1
    rows:
      - {kind: baseline, models: [..], gpus_per_node: 8, nodes: 1, link: nvlink, from_bytes: 8589934592,
         busbw_gb_s: 478.1, collective: all_reduce, backend: nccl, hosts: [node-1], recorded: .., lock_digest: ..}
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from statistics import median
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding, natural
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import POOL, finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.job import Job

SCHEMA = 1
KIND = "baseline"
#: Name of the file, beside the inventory.
FILE = "verify_baseline.yml"
_KEYS: Mapping[str, Tuple[type, ...]] = {
    "kind": (str,),
    "models": (list,),
    "gpus_per_node": (int,),
    "nodes": (int,),
    "link": (str, type(None)),
    "from_bytes": (int,),
    "busbw_gb_s": (int, float),
    "collective": (str,),
    "backend": (str,),
    "hosts": (list,),
    "recorded": (str,),
    "lock_digest": (str, type(None)),
}
#: What makes two rows the same record; the size is not part of it, the newer one stands.
_IDENTITY = ("models", "gpus_per_node", "nodes", "link", "collective", "backend", "hosts")

Measurement = Mapping[str, Any]
Row = Dict[str, Any]


class BaselineError(ValueError):
    """A record that cannot be used."""


class Annotation(NamedTuple):
    """One measurement beside what was recorded."""

    hosts: Tuple[str, ...]
    collective: str
    size_bytes: int
    busbw_gb_s: float
    baseline_gb_s: float
    recorded: str
    exact: bool  # of the same hosts; else the median over others of equal hardware
    status: str  # pass | warn | fail


def record(
    measurements: Iterable[Measurement], jobs: Mapping[str, Job], when: str, lock_digest: Optional[str]
) -> Dict[str, Any]:
    """Return the record of a run: the largest size of each collective that passed. ``when`` is a date and time."""
    rows = []
    for one in _largest(measurements):
        if one.get("status") == "pass":
            rows.append({**_place(one, jobs), **_value(one), "recorded": when, "lock_digest": lock_digest})
    return {"schema": SCHEMA, "rows": sorted(rows, key=_order)}


def merge(old: Optional[Mapping[str, Any]], new: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the old record with the new rows in place of those of the same hosts and job; the others stay."""
    rows = {_identity(row): dict(row) for row in [*(old or {}).get("rows", []), *new["rows"]]}
    return {"schema": SCHEMA, "rows": sorted(rows.values(), key=_order)}


def check(document: Any, path: str = FILE) -> None:
    """Say what is wrong with a record before it decides anything."""
    fix = "To fix it: take the file back to what was recorded, or remove it and record anew (-e baseline=record)."
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA or not _is_list(document.get("rows")):
        raise BaselineError(f"{path}: not a record of schema {SCHEMA} with a list of rows. {fix}")
    for number, row in enumerate(document["rows"], start=1):
        where = f"{path}, row {number}"
        if not isinstance(row, Mapping):
            raise BaselineError(f"{where}: {row!r} is no row. {fix}")
        for key, kinds in _KEYS.items():
            if key not in row:
                raise BaselineError(f"{where}: {key} is missing. {fix}")
            value = row[key]
            right = _is_list(value) if kinds == (list,) else isinstance(value, kinds) and not isinstance(value, bool)
            if not right:
                raise BaselineError(f"{where}: {key} cannot be {value!r}. {fix}")
        unknown = sorted(set(map(str, row)) - set(_KEYS))
        if unknown:
            raise BaselineError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}. {fix}")
        if row["kind"] != KIND or row["busbw_gb_s"] <= 0 or not row["hosts"]:
            raise BaselineError(f"{where}: needs kind: {KIND}, hosts and a busbw_gb_s above 0. {fix}")


def judge(
    measurements: Iterable[Measurement],
    document: Mapping[str, Any],
    jobs: Mapping[str, Job],
    data: Mapping[str, Any],
    pool: str = POOL,
) -> Tuple[List[Finding], List[Annotation]]:
    """Return findings and annotations of a run against a record that was checked. ``data`` is data/thresholds.

    Without a row of the same hosts the median of others with equal hardware stands in: a node that was replaced has
    to be as good as the others were. gloo only warns: its speed is the processor's of the moment.
    """
    rows: Dict[Tuple[Any, ...], Row] = {_identity(row): dict(row) for row in document["rows"]}
    findings, annotations = [], []
    for one in _largest(measurements):
        place = _place(one, jobs)
        expected = _expected(place, rows, int(one["size_bytes"]), int(data["peers"]["least_hosts"]["value"]))
        if expected is None:
            findings.append(finding("verify.baseline_missing", _host(one), f"no row for {_words(one)}", pool=pool))
            continue
        status, limit = _status(float(one["busbw_gb_s"]), expected, str(one["backend"]), data)
        annotations.append(
            Annotation(
                tuple(place["hosts"]),
                str(one["collective"]),
                int(one["size_bytes"]),
                float(one["busbw_gb_s"]),
                float(expected["busbw_gb_s"]),
                str(expected["recorded"]),
                expected["hosts"] == place["hosts"],
                status,
            )
        )
        if status != "pass":
            findings.append(_finding(one, expected, limit, status, pool))
    return findings, annotations


def _largest(measurements: Iterable[Measurement]) -> List[Measurement]:
    """Each collective of each set of hosts at its largest size; small ones are latency, and averages say nothing."""
    found: Dict[Tuple[Any, ...], Measurement] = {}
    for one in measurements:
        if one.get("collective") is None or (one.get("ranks") or 0) < 2 or not (one.get("busbw_gb_s") or 0) > 0:
            continue
        key = (tuple(one.get("hosts") or ()), one["collective"], one.get("backend"), one["ranks"], one.get("nodes"))
        if key not in found or one["size_bytes"] > found[key]["size_bytes"]:
            found[key] = one
    return list(found.values())


def _place(one: Measurement, jobs: Mapping[str, Job]) -> Row:
    """What was measured on what."""
    hosts = sorted({str(host) for host in one.get("hosts") or []}, key=natural)
    there = [jobs[host] for host in hosts if host in jobs]
    nodes = int(one.get("nodes") or 1)
    links = {job.link for job in there}
    return {
        "kind": KIND,
        "models": sorted({job.model for job in there if job.model is not None}),
        "gpus_per_node": int(one["ranks"]) // nodes,
        "nodes": nodes,
        "link": links.pop() if len(links) == 1 else None,
        "collective": str(one["collective"]),
        "backend": str(one["backend"]),
        "hosts": hosts,
    }


def _value(one: Measurement) -> Row:
    return {"from_bytes": int(one["size_bytes"]), "busbw_gb_s": round(float(one["busbw_gb_s"]), 3)}


def _identity(row: Mapping[str, Any]) -> Tuple[Any, ...]:
    return tuple(tuple(row[key]) if _is_list(row[key]) else row[key] for key in _IDENTITY)


def _order(row: Mapping[str, Any]) -> Tuple[Any, ...]:
    return (row["nodes"], [natural(host) for host in row["hosts"]], row["collective"], row["backend"])


def _expected(place: Row, rows: Mapping[Tuple[Any, ...], Row], size: int, least: int) -> Optional[Row]:
    """The row of the same hosts; else one made of the others' median. A larger size than measured is no measure."""
    own = rows.get(_identity(place))
    if own is not None:
        return own if own["from_bytes"] <= size else None
    alike = [
        row
        for row in rows.values()
        if all(row[key] == place[key] for key in _IDENTITY if key != "hosts") and row["from_bytes"] <= size
    ]
    if len(alike) < least:
        return None
    newest = max(alike, key=lambda row: str(row["recorded"]))
    return {**newest, "busbw_gb_s": median(float(row["busbw_gb_s"]) for row in alike), "hosts": []}


def _status(value: float, expected: Row, backend: str, data: Mapping[str, Any]) -> Tuple[str, float]:
    """The verdict and the bound it fell below."""
    recorded = float(expected["busbw_gb_s"])
    if backend == "gloo":
        limit = recorded * (1 - float(data["pairs"]["most_gap"]["value"]))
        return ("warn" if value < limit else "pass"), limit
    failing = recorded * (1 - float(data["pairs"]["least_gap"]["value"]))
    if value < failing:
        return "fail", failing
    warning = recorded * (1 - float(data["baseline"]["least_drop"]["value"]))
    return ("warn" if value < warning else "pass"), warning


def _finding(one: Measurement, expected: Row, limit: float, status: str, pool: str) -> Finding:
    of = "the same hosts" if expected["hosts"] else "the median of other hosts with equal hardware"
    summary = (
        f"{_words(one)}: busbw {one['busbw_gb_s']:.4g} GB/s, recorded were {expected['busbw_gb_s']:.4g}, "
        f"bound {limit:.4g}"
    )
    proof: Sequence[Tuple[str, object]] = [
        (str(one.get("stage")), f"{_words(one)}: busbw {one['busbw_gb_s']:.4g} GB/s"),
        (FILE, f"{of}, {expected['recorded']}, lock digest {expected['lock_digest'] or 'none'}"),
    ]
    return finding("verify.below_baseline", _host(one), summary, proof, severity=status, pool=pool)


def _words(one: Measurement) -> str:
    return f"{one['collective']} at {one['size_bytes']} bytes, {one['ranks']} ranks on {one.get('nodes') or 1} nodes"


def _host(one: Measurement) -> Optional[str]:
    hosts = list(one.get("hosts") or [])
    return str(hosts[0]) if len(hosts) == 1 else None


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))
