"""Puts each node's bandwidth beside that of its peers: only the report sees a whole pool."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Callable, Dict, Hashable, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.report.pools import by_pool
from ansible_collections.trainrig.gpu.plugins.module_utils.report.summary import part, usable_gpus

Host = Mapping[str, Any]
#: judge.peers.judge with its data: (measurements, hardware by host, pool) -> (findings, annotations).
Peers = Callable[[List[Dict[str, Any]], Mapping[str, Hashable], str], Tuple[List[Any], List[Any]]]
_SPEED = "busbw_gb_s"


def placed(hosts: Mapping[str, Host], peers: Peers) -> Dict[str, Host]:
    """The hosts with `median_gb_s` and `percentile` at what they measured alone, and a finding where one stands out."""
    found: Dict[str, Host] = dict(hosts)
    for pool, names in by_pool(hosts).items():
        kinds = {name: hardware(hosts[name].get("observation") or {}) for name in names}
        known = {name: kind for name, kind in kinds.items() if kind is not None}
        rows = [_own(name, one) for name in known for one in hosts[name].get("measurements") or [] if _alone(one)]
        findings, notes = peers(rows, known, pool)
        places = {(note.host, *_key(note._asdict())): note for note in notes if note.metric == _SPEED}
        for name in known:
            measured = [
                _beside(one, places.get((name, *_key(one)))) if _alone(one) else one
                for one in hosts[name].get("measurements") or []
            ]
            own = [one for one in findings if one["host"] == name]
            if measured:
                given = hosts[name].get("findings") or []
                found[name] = {**hosts[name], "measurements": measured, "findings": [*given, *own]}
    return found


def hardware(observation: Mapping[str, Any]) -> Optional[Hashable]:
    """What makes two nodes peers: the same GPUs, or without any the same processor. None: not known."""
    gpus = usable_gpus(observation)
    if gpus:
        kinds = sorted(str(gpu.get("model") or gpu.get("pci_id") or gpu.get("name")) for gpu in gpus)
        return ("gpus", *kinds)
    cpu = part(observation, "machine", "cpu") or {}
    return ("cpu", cpu["model"], cpu.get("threads")) if cpu.get("model") else None


def _alone(one: Mapping[str, Any]) -> bool:
    return one.get("nodes") == 1 and one.get(_SPEED) is not None


def _own(name: str, one: Mapping[str, Any]) -> Dict[str, Any]:
    """By the inventory's name: the node itself only knows its own."""
    return {**one, "hosts": [name]}


def _key(one: Mapping[str, Any]) -> Tuple[Any, ...]:
    return tuple(one.get(name) for name in ("stage", "collective", "size_bytes"))


def _beside(one: Mapping[str, Any], note: Any) -> Mapping[str, Any]:
    return (
        one if note is None else {**one, "median_gb_s": note.median, "percentile": note.percentile, "peers": note.peers}
    )
