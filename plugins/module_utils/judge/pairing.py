"""Plans the next round of a stage in which groups of nodes measure together, and gives a host its part in it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.judge import groups
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs import session
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.words import Conclusion, Fleet, Outcome

PAIRS, FLEET = "pairs", "fleet"
TORCHRUN, MPI = "torchrun", "mpi"


class Stage(NamedTuple):
    """What is the same for every host of the run."""

    name: str  # pairs: as the scheduler says; fleet: one round, all nodes in one group
    places: Mapping[str, Mapping[str, Any]]  # host -> {address, interface, ranks}, as trainrig.gpu.together says
    told: Mapping[str, Iterable[Mapping[str, Any]]]  # host -> what it kept of the rounds so far
    seed: int
    seconds: float  # for the whole stage
    switches: Mapping[str, str] = {}
    rails: Sequence[str] = ()
    floor_gb_s: Optional[float] = None
    bounds: Mapping[str, Any] = {}  # the key pairs of data/thresholds
    launcher: str = TORCHRUN  # what is wanted
    ranks_each: int = 0  # ranks on each node; 0: as many as the node's own stages had


def step(own: str, stage: Stage) -> Dict[str, Any]:
    """What this host does next: ``joins`` with ``asked``, or waits, or it is all over: ``finished`` with ``record``.

    Every host of the run gets the same answer but for its own part.
    """
    rounds = groups.collect(stage.told, stage.name)
    spent = sum(max((groups.seconds(one) for one in members), default=0.0) for members in rounds)
    history = [[outcome(group, stage) for group in members] for members in rounds]
    wanted = _next(stage, history)
    late = bool(wanted) and spent >= stage.seconds
    answer: Dict[str, Any] = {"finished": not wanted or late, "joins": False, "round": len(rounds), "asked": {}}
    if answer["finished"]:
        return {**answer, "record": _record(stage, rounds, history, late)}
    for number, (hosts, rail) in enumerate(wanted):
        if own in hosts:
            return {**answer, "joins": True, "asked": _asked(own, tuple(hosts), rail, f"{len(rounds)}-{number}", stage)}
    return answer


def launcher(stage: Stage) -> str:
    """MPI where it is wanted and every node is ready for it, else torchrun measures the same."""
    able = all(mpi_ready(place.get("said") or {}) for place in stage.places.values())
    return MPI if stage.launcher == MPI and able else TORCHRUN


def mpi_ready(said: Mapping[str, Any]) -> bool:
    """Whether a node can start nccl-tests by MPI, as it says itself (mpi_access.py)."""
    return bool(said.get("mpirun") and said.get("programs") and not said.get("root"))


def ranks_of(hosts: Iterable[str], stage: Stage) -> int:
    return sum(stage.ranks_each or int(stage.places[host]["ranks"]) for host in hosts)


def outcome(group: groups.Group, stage: Stage) -> Outcome:
    """What the scheduler is told of a group."""
    error = groups.trouble(group, ranks_of(group.hosts, stage))
    return Outcome(group=group.hosts, gb_s=None if error else groups.bandwidth(group), error=error, rail=group.rail)


def _next(stage: Stage, history: List[List[Outcome]]) -> List[Tuple[Sequence[str], Optional[str]]]:
    if stage.name == FLEET:
        return [] if history else [(sorted(stage.places), None)]
    return list(session.next_round(_fleet(stage), history, stage.seed))


def _fleet(stage: Stage) -> Fleet:
    return Fleet(
        hosts=tuple(sorted(stage.places)),
        switches=dict(stage.switches),
        rails=tuple(stage.rails),
        floor_gb_s=stage.floor_gb_s,
        bounds=stage.bounds,
    )


def _asked(own: str, hosts: Tuple[str, ...], rail: Optional[str], place: str, stage: Stage) -> Dict[str, Any]:
    mine, first = stage.places[own], stage.places[hosts[0]]
    each = {host: stage.ranks_each or int(stage.places[host]["ranks"]) for host in hosts}
    return {
        "group": list(hosts),
        "rail": rail,
        "id": f"trainrig-{stage.seed}-{stage.name}-{place}",
        "nodes": len(hosts),
        "nproc": each[own],
        "host": first["address"],
        "address": mine["address"],
        "interface": mine["interface"],
        "launcher": launcher(stage),
        "network": ",".join(sorted({str(stage.places[host].get("network")) for host in hosts})),
        # As mpirun wants it.
        "members": ",".join(f"{stage.places[host]['address']}:{each[host]}" for host in hosts),
    }


def _record(stage: Stage, rounds: List[List[groups.Group]], history: List[List[Outcome]], late: bool) -> Dict[str, Any]:
    """All that the stage brought, for the judge."""
    told = [[_told(group, one, stage) for group, one in zip(*both)] for both in zip(rounds, history)]
    conclusion = session.conclude(_fleet(stage), history) if stage.name == PAIRS and history else None
    return {
        "hosts": sorted(stage.places),
        "rounds": told,
        "late": late,
        "conclusion": plain(conclusion) if conclusion else None,
        "apart": apart(sorted(stage.places), history),
    }


def plain(conclusion: Conclusion) -> Dict[str, Any]:
    """The conclusion as dicts and lists, for a report."""

    def told(value: Any) -> Any:
        if hasattr(value, "_asdict"):
            return {key: told(one) for key, one in value._asdict().items()}
        return [told(one) for one in value] if isinstance(value, (list, tuple)) else value

    return {key: told(value) for key, value in conclusion._asdict().items()}


def _told(group: groups.Group, one: Outcome, stage: Stage) -> Dict[str, Any]:
    ranks = ranks_of(group.hosts, stage)
    return {
        "hosts": list(group.hosts),
        "rail": group.rail,
        "ranks": ranks,
        "gb_s": one.gb_s,
        "error": one.error,
        "stuck": groups.stuck(group, ranks),
        "unreached": groups.unreached(group),
        "timed_out": any(bool(((got or {}).get("run") or {}).get("timed_out")) for got in group.results.values()),
        "document": groups.document_of(group),
        "tails": groups.tails(group) if one.error else [],
        "runs": {host: (got or {}).get("run") for host, got in group.results.items()},
        "seconds": groups.seconds(group),
        "evidence": {host: got["evidence"] for host, got in group.results.items() if got and got.get("evidence")},
    }


def apart(hosts: Sequence[str], history: Iterable[Iterable[Outcome]]) -> List[str]:
    """Hosts without which the others can all talk to each other, as far as their last meeting says: a job over all of
    them would only hang. The one with most failures goes first, until none is left."""
    last = {tuple(sorted(one.group)): one.error for members in history for one in members if len(one.group) == 2}
    broken = [set(pair) for pair, error in last.items() if error]
    gone: List[str] = []
    while broken:
        worst = max(hosts, key=lambda host: (sum(host in pair for pair in broken), host))
        gone.append(worst)
        broken = [pair for pair in broken if worst not in pair]
    return sorted(gone)
