"""What report.html shows, as plain values in reading order: the template only lays them out."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.report.page_hardware import HEALTH
from ansible_collections.trainrig.gpu.plugins.module_utils.report.pair_map import STAGE as PAIRS
from ansible_collections.trainrig.gpu.plugins.module_utils.report.summary import places
from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import age, clean, count, listed, number, size

#: What a verdict means, in one sentence.
MEANINGS = {
    "pass": "Ready to train: everything that was checked is as it should be.",
    "warn": "Ready to train, with something to look at.",
    "fail": "Not ready: something is broken.",
    "refuse": "Nothing was changed: starting would do harm or could not succeed.",
    "incomplete": "Not proven: a part could not be finished or reached.",
}
#: Up to this many sets of hosts get a figure each; more are curves in one figure per collective.
_FIGURES_PER_SET = 4
#: Curves a figure can show and a person can tell apart.
_CURVES = 7

Measurement = Mapping[str, Any]


def _is_bandwidth(one: Measurement) -> bool:
    return one.get("stage") not in ("ddp", PAIRS) and bool(one.get("size_bytes")) and bool(one.get("busbw_gb_s"))


def _title(one: Measurement, what: str) -> str:
    nodes, ranks = one.get("nodes"), one.get("ranks")
    words = [what]
    if ranks:
        words.append(count(int(ranks), "rank"))
    if nodes:
        words.append(f"on {count(int(nodes), 'node')}")
    if one.get("backend"):
        words.append(f"over {one['backend']}")
    return " ".join(words)


def _curve(label: str, points: List[Measurement]) -> Dict[str, Any]:
    return {"label": clean(label), "points": points}


def _slowest(curve: Mapping[str, Any]) -> Tuple[bool, float]:
    """Sorts failed curves first, then by the bandwidth at the largest size."""
    last = max(curve["points"], key=lambda one: one["size_bytes"])
    return (not any(one.get("status") == "fail" for one in curve["points"]), last["busbw_gb_s"])


def figures(measurements: List[Measurement]) -> List[Dict[str, Any]]:
    """The curves by figure: ``{title, hosts, lines, left_out}``.

    Few sets of hosts: a figure per set, a curve per collective. Many: a figure per collective, a curve per set, the
    failed and slowest ones when they are too many to tell apart.
    """
    groups: Dict[Tuple[Any, ...], List[Measurement]] = {}
    for one in measurements:
        if _is_bandwidth(one):
            key = tuple(one.get(name) for name in ("stage", "backend", "nodes", "ranks", "dtype"))
            groups.setdefault(key, []).append(one)
    found = []
    for members in groups.values():
        sets: Dict[Tuple[str, ...], List[Measurement]] = {}
        for one in members:
            sets.setdefault(tuple(places(one)), []).append(one)
        split = sets if len(sets) <= _FIGURES_PER_SET else _by(members, "collective")
        for key, part in split.items():
            by_set = split is sets
            lines = (
                [_curve(str(name), points) for name, points in _by(part, "collective").items()]
                if by_set
                else [_curve(", ".join(name), points) for name, points in _by_hosts(part).items()]
            )
            if not by_set:
                lines.sort(key=_slowest)
            first = part[0]
            found.append(
                {
                    "title": _title(first, "Collectives," if by_set else f"{key},"),
                    "hosts": listed(list(key)) if by_set and isinstance(key, tuple) else None,
                    "lines": lines[:_CURVES],
                    "left_out": max(len(lines) - _CURVES, 0),
                    "has_failed": any(one.get("status") == "fail" for one in part),
                    "has_threshold": any(one.get("threshold_gb_s") for one in part),
                    "has_ceiling": any(one.get("ceiling_gb_s") for one in part),
                }
            )
    return found


def _by(members: List[Measurement], key: str) -> Dict[Any, List[Measurement]]:
    found: Dict[Any, List[Measurement]] = {}
    for one in members:
        found.setdefault(one.get(key), []).append(one)
    return found


def _by_hosts(members: List[Measurement]) -> Dict[Tuple[str, ...], List[Measurement]]:
    found: Dict[Tuple[str, ...], List[Measurement]] = {}
    for one in members:
        found.setdefault(tuple(places(one)), []).append(one)
    return found


def bandwidth_rows(measurements: List[Measurement]) -> List[Dict[str, str]]:
    """The numbers behind the curves, as text."""
    return [
        {
            "collective": str(one.get("collective") or one.get("stage")),
            "backend": str(one.get("backend") or "?"),
            "where": listed(places(one)) or "?",
            "ranks": number(one.get("ranks")),
            "size": size(one.get("size_bytes")),
            "time": number(one.get("time_us")),
            "busbw": number(one.get("busbw_gb_s")),
            "threshold": number(one.get("threshold_gb_s")) if one.get("threshold_gb_s") is not None else "",
            "ceiling": number(one.get("ceiling_gb_s")) if one.get("ceiling_gb_s") is not None else "",
            "source": str(one.get("source") or ""),
            "status": str(one.get("status")),
            "reason": str(one.get("reason") or ""),
        }
        for one in measurements
        if one.get("stage") not in ("ddp", HEALTH)
    ]


def ddp_rows(measurements: List[Measurement]) -> List[Dict[str, Any]]:
    """One table of facts per smoke job."""
    found = []
    for one in measurements:
        if one.get("stage") != "ddp":
            continue
        efficiency = one.get("scaling_efficiency")
        facts = [
            ("samples/s", number(one.get("samples_per_s"))),
            ("scaling", "?" if efficiency is None else f"{efficiency * 100:.0f} %"),
            ("loss", f"{number(one.get('loss_first'))} to {number(one.get('loss_last'))}"),
            ("equals one process", number(one.get("gradients_equal"))),
        ]
        if (one.get("nodes") or 1) == 1:  # over several nodes none is killed
            facts.append(("resumed after a kill", number(one.get("resumed"))))
        ranks = one.get("ranks")
        found.append(
            {
                "title": f"{count(int(ranks), 'rank') if ranks else 'ranks unknown'} over {one.get('backend') or '?'}",
                "hosts": listed(places(one)),
                "facts": facts,
                "status": str(one.get("status")),
                "reason": str(one.get("reason") or ""),
            }
        )
    return found


def _gpus(observation: Mapping[str, Any]) -> str:
    groups = observation.get("gpus")
    others = [
        f"{one['count']} x {one['name'] or 'unknown model'} ({one['vendor']})"
        for one in observation.get("accelerators") or []
    ]
    if not groups:
        return "; ".join(others) or ("unknown" if groups is None else "none")
    names = [
        f"{one['count']} x {one['model'] or one['name'] or 'unknown model'}"
        + (f", {size(one['memory_mib'] * 1024 * 1024)}" if one["memory_mib"] else "")
        for one in groups
    ]
    return "; ".join(names) + (f" ({observation['gpus_lost']} lost)" if observation.get("gpus_lost") else "")


def _system(observation: Mapping[str, Any]) -> str:
    system = observation["os"]
    name = " ".join(str(system[key]) for key in ("id", "version_id") if system.get(key)) or "unknown"
    return f"{name}, {system['kernel']}" if system.get("kernel") else name


def _driver(observation: Mapping[str, Any]) -> str:
    driver = observation["driver"]
    if driver.get("module") and driver.get("library") and driver["module"] != driver["library"]:
        return f"module {driver['module']}, libraries {driver['library']}"
    version = driver.get("module") or driver.get("library")
    return str(version) if version else "none"


def _torch(observation: Mapping[str, Any]) -> str:
    python = observation["python"]
    if not python.get("torch"):
        return f"none (Python {python['version']})" if python.get("version") else "none"
    parts = [f"{python['torch']} (Python {python.get('version') or '?'})"]
    if python.get("nccl"):
        parts.append(f"NCCL {python['nccl']}")
    return ", ".join(parts)


def _plan(entry: Mapping[str, Any]) -> List[Dict[str, str]]:
    failed = {one["layer"] for one in entry["failures"]}
    rows = []
    for row in (entry["plan"] or {}).get("layers") or []:
        state = str(row["state"])
        if row["layer"] in failed:
            state = "failed"
        elif row["layer"] in entry["applied"]:
            state = "applied"
        rows.append({"layer": str(row["layer"]), "state": state, "reasons": "; ".join(row["reasons"] or [])})
    return rows


def host_rows(report: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """The per-host table."""
    asking, _informing = cards(report["findings"])
    rows = []
    for name, entry in report["hosts"].items():
        observation = entry["observation"]
        known = observation is not None
        rows.append(
            {
                "name": name,
                "state": entry["state"],
                "to_see": sum(1 for one in asking if one.get("host") == name),
                "system": _system(observation) if known else "",
                "gpus": _gpus(observation) if known else "",
                "driver": _driver(observation) if known else "",
                "torch": _torch(observation) if known else "",
                "plan": _plan(entry),
                "carried": _carried(entry["carried"]),
            }
        )
    return rows


def _carried(record: Optional[Mapping[str, Any]]) -> str:
    if not record:
        return ""
    when = f"{age(record['age_s'])} ago" if record.get("age_s") is not None else "earlier"
    return f"verified {when}; nothing changed since"


def evidence(finding: Mapping[str, Any]) -> List[str]:
    """The lines of each probe in one block."""
    blocks: Dict[str, List[str]] = {}
    for one in finding.get("evidence") or []:
        blocks.setdefault(str(one.get("probe")), []).append(clean(one.get("text")))
    return [("\n" if len(lines) > 1 else " ").join([f"{probe}:", *lines]) for probe, lines in blocks.items()]


def cards(findings: List[Mapping[str, Any]]) -> Tuple[List[Mapping[str, Any]], List[Mapping[str, Any]]]:
    """The findings that ask for something, and those that only inform."""
    asking = [one for one in findings if one.get("severity") != "info"]
    return asking, [one for one in findings if one.get("severity") == "info"]


def blocks(steps: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """What to type to start a job: a title, a block to copy, a note."""
    found: List[Dict[str, Any]] = []

    def add(title: str, text: Optional[str], note: str = "") -> None:
        if text:
            found.append({"title": title, "text": text, "note": note})

    hosts = list(steps.get("hosts") or [])
    several = len(hosts) > 1
    add("Environment", steps["environment"], "on every node" if several else "")
    add("Start a job", steps["torchrun"], f"the same line on each of: {listed(hosts, 16)}" if several else "")
    if steps.get("note"):
        found[-1:] = [{**one, "note": f"{one['note']}; {steps['note']}".strip("; ")} for one in found[-1:]]
    add("Rendezvous", steps["rendezvous"], f"the first node is {hosts[0]}" if several else "")
    interfaces = steps.get("interfaces") or {}
    by_host = "\n".join(f"{host}: {name}" for host, name in interfaces.items())
    add("Interface", steps["interface"] or by_host or None, "the network that all nodes share" if several else "")
    options = " \\\n  ".join(steps["container_mounts"] or [])
    add("In a container", options or None, "options for docker run or podman run")
    return found
