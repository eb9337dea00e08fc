"""Measurements by groups of nodes: what a group's nodes brought back becomes one row; who kept the others waiting."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.judge import programs

Result = Mapping[str, Any]
#: The kernel's letter for a process that somebody stopped.
_STOPPED = ("T", "t")
_OVER = ("done", "failed")
#: Lines of a group's output that are kept.
_QUOTED = 8


class Group(NamedTuple):
    """Nodes that measured together in one round. ``results``: group_run.py's account by host, None where none came."""

    round: int
    hosts: Tuple[str, ...]
    rail: Optional[str]
    results: Mapping[str, Optional[Result]]


def collect(told: Mapping[str, Iterable[Mapping[str, Any]]], stage: str) -> List[List[Group]]:
    """The rounds so far: ``told`` is, by host, what each kept: [{stage, round, group, rail, result}]."""
    found: Dict[Tuple[int, Tuple[str, ...], Optional[str]], Dict[str, Optional[Result]]] = {}
    for host in sorted(told):
        for one in told[host]:
            if one["stage"] == stage and one["group"]:
                key = (int(one["round"]), tuple(one["group"]), one.get("rail"))
                found.setdefault(key, {})[host] = programs.read(one.get("result"))
    last = max((number for number, _hosts, _rail in found), default=-1)
    rounds: List[List[Group]] = [[] for _ in range(last + 1)]
    for (number, hosts, rail), results in sorted(
        found.items(), key=lambda item: (item[0][0], item[0][1], item[0][2] or "")
    ):
        rounds[number].append(Group(number, hosts, rail, {host: results.get(host) for host in hosts}))
    return rounds


def document_of(group: Group) -> Optional[Mapping[str, Any]]:
    """What rank 0 wrote, on whichever node it was."""
    found = [one["document"] for one in group.results.values() if one and one.get("document")]
    return found[0] if len(found) == 1 else None


def rank_zeros(group: Group) -> int:
    """How many nodes had a rank 0: two of them are two jobs that each ran alone."""
    return len([one for one in group.results.values() if one and one.get("document")])


def progress(group: Group) -> List[Dict[str, Any]]:
    """What every rank of the group was doing when it was last seen, by rank, each with its host."""
    return sorted(
        ({**fact, "host": host} for host, one in group.results.items() for fact in (one or {}).get("progress") or []),
        key=lambda fact: (int(fact["rank"]), str(fact["host"])),
    )


def stuck(group: Group, ranks: int) -> List[str]:
    """Who kept the others waiting, each in a sentence; [] where they all wait for each other."""
    facts = progress(group)
    missing = [host for host in group.hosts if not any(fact["host"] == host for fact in facts)]
    if facts and missing:
        return [f"no rank of {host} was ever started" for host in missing]
    stopped = [fact for fact in facts if fact.get("state") in _STOPPED]
    if stopped:
        return [f"{_who(fact)} is stopped (state {fact['state']}) in: {fact['doing']}" for fact in stopped]
    going = [fact for fact in facts if fact["doing"] not in _OVER]
    behind = [fact for fact in facts if fact["step"] == min(one["step"] for one in facts)] if facts else []
    if len(facts) == ranks and len(behind) < len(facts) and going:
        return [f"{_who(fact)} came no further than: {fact['doing']}" for fact in behind]
    return []


def _who(fact: Mapping[str, Any]) -> str:
    return f"rank {fact['rank']} on {fact['host']}"


def unreached(group: Group) -> List[Tuple[str, str]]:
    """Hosts that never got through to the node that keeps the group's store, and what they met there."""
    return [
        (host, str(error["text"]))
        for host, one in group.results.items()
        for error in (one or {}).get("errors") or []
        if error["kind"] == "unreachable"
    ]


def tails(group: Group) -> List[Tuple[str, str]]:
    """The last lines that were printed, by host."""
    return [
        (host, line)
        for host, one in group.results.items()
        for line in list(((one or {}).get("run") or {}).get("tail") or [])[-_QUOTED:]
    ]


def trouble(group: Group, ranks: int) -> Optional[str]:
    """Why the group has no result, in one sentence; None where it has one."""
    names = " and ".join(group.hosts) if len(group.hosts) < 3 else f"{len(group.hosts)} nodes"
    blocked = unreached(group)
    if blocked:
        host, text = blocked[0]
        return f"{host} cannot reach {group.hosts[0]} at {text}"
    if all(one is None for one in group.results.values()):
        return f"{names}: no account of the run came back"
    waiting = stuck(group, ranks)
    errors = [str(error["text"]) for one in group.results.values() for error in (one or {}).get("errors") or []]
    document = document_of(group)
    said = [str(text) for text in (document or {}).get("errors") or []]
    if errors or said:
        return f"{names}: {(said or errors)[0]}" + (f"; {waiting[0]}" if waiting else "")
    if rank_zeros(group) > 1:
        return f"{names}: {rank_zeros(group)} jobs ran, each alone"
    if document is None or not document.get("rows"):
        return f"{names}: ended without a result"
    if int(document["ranks"]) != ranks or int(document["nodes"]) != len(group.hosts):
        return (
            f"{names}: asked for {ranks} ranks on {len(group.hosts)} nodes, "
            f"ran with {document['ranks']} on {document['nodes']}"
        )
    return None


def bandwidth(group: Group) -> Optional[float]:
    """The group's bus bandwidth in GB/s, at its largest size."""
    rows: Sequence[Mapping[str, Any]] = (document_of(group) or {}).get("rows") or []
    return float(max(rows, key=lambda row: int(row["size_bytes"]))["busbw_gb_s"]) if rows else None


def seconds(group: Group) -> float:
    """How long its slowest node took."""
    return max((float((one or {}).get("elapsed_s") or 0.0) for one in group.results.values()), default=0.0)
