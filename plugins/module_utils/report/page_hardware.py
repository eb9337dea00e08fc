"""What the page shows of the hardware: ordered against delivered, health under load, pairs, peers, topology."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.report import drawings, pair_map, topology
from ansible_collections.trainrig.gpu.plugins.module_utils.report.acceptance import MISSING, text
from ansible_collections.trainrig.gpu.plugins.module_utils.report.summary import part, places
from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import count, listed, number, size

HEALTH = "health"
#: Sets of hosts that look alike and get a drawing each.
_TOPOLOGIES = 6
#: The word and the colour of a row's state.
_STATES = {
    "met": ("as ordered", "pass"),
    "short": ("less", "fail"),
    "differs": ("not what was ordered", "fail"),
    "unknown": ("unknown", "warn"),
    "not_declared": ("", ""),
}


def order_rows(report: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Hosts with the same answer share a table: ``{hosts, rows: [{what, expected, delivered, state, tone, detail}]}``.

    What is missing anywhere stands before what is as ordered.
    """
    found: Dict[str, Dict[str, Any]] = {}
    for name, entry in report["hosts"].items():
        rows = [_order_row(row) for row in entry.get("acceptance") or []]
        if rows:
            found.setdefault(repr(rows), {"hosts": [], "rows": rows})["hosts"].append(name)
    tables = [{**one, "missing": sum(1 for row in one["rows"] if row["tone"] == "fail")} for one in found.values()]
    return sorted(tables, key=lambda one: -int(one["missing"]))


def _order_row(row: Mapping[str, Any]) -> Dict[str, str]:
    state, tone = _STATES[row["status"]]
    if row["by"] == "model":
        state, tone = ("as the model has it", "pass") if row["status"] == "met" else (state, "warn" if tone else "")
        state = "less than the model has" if row["status"] in MISSING else state
    expected = "" if row["expected"] is None else text(row["expected"], row["unit"])
    delivered = text(row["delivered"], row["unit"])
    return {
        "what": row["what"],
        "expected": expected,
        "delivered": delivered,
        "state": state,
        "tone": tone,
        "detail": row["detail"],
    }


def health_rows(measurements: List[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """What the load changed: a row a host with something to say, and one for all hosts without."""
    hosts: Dict[str, List[Mapping[str, Any]]] = {}
    for one in measurements:
        if one.get("stage") == HEALTH:
            hosts.setdefault(listed(places(one)) or "?", []).append(one)
    rows = [_health_row(host, checks) for host, checks in hosts.items()]
    quiet = [row for row in rows if not row["found"] and not row["unknown"]]
    rows = [row for row in rows if row not in quiet]
    rows.sort(key=lambda row: not row["found"])
    same = {row["checks"] for row in quiet}
    if len(quiet) > 1 and len(same) == 1:
        seen = list(dict.fromkeys(line for row in quiet for line in row["seen"]))
        quiet = [{**quiet[0], "host": listed([row["host"] for row in quiet], 12), "seen": seen}]
    return rows + quiet


def _health_row(host: str, checks: List[Mapping[str, Any]]) -> Dict[str, Any]:
    bad = [one for one in checks if one.get("status") in ("fail", "warn")]
    # A check may have passed for what could be seen, and still not know everything.
    unknown = [one for one in checks if one.get("known") is False and one not in bad]
    good = [one for one in checks if one not in bad and one not in unknown]
    return {
        "host": host,
        "passed": len(good),
        "checks": len(checks),
        "found": [{key: str(one.get(key) or "") for key in ("check", "status", "reason")} for one in bad],
        "unknown": _by_reason(unknown),
        "seen": [f"{one['check']}: {one.get('reason')}" for one in good],
    }


def _by_reason(checks: List[Mapping[str, Any]]) -> List[Dict[str, str]]:
    """Several checks that fail for the same reason say it once."""
    found: Dict[str, List[str]] = {}
    for one in checks:
        found.setdefault(str(one.get("reason") or ""), []).append(str(one["check"]))
    return [
        {"check": listed(names, 12), "reason": reason.replace("not known: ", "")} for reason, names in found.items()
    ]


def peer_rows(measurements: List[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """The largest size of each collective and set of hosts beside its peers, its floor and what the links carry."""
    largest: Dict[Tuple[Any, ...], Mapping[str, Any]] = {}
    for one in measurements:
        if one.get("busbw_gb_s") is None or one.get("stage") == pair_map.STAGE or not one.get("size_bytes"):
            continue
        key = (one.get("stage"), one.get("collective"), one.get("backend"), one.get("ranks"), tuple(places(one)))
        if key not in largest or one["size_bytes"] > largest[key]["size_bytes"]:
            largest[key] = one
    figures = ("median_gb_s", "threshold_gb_s", "ceiling_gb_s")
    known = [one for one in largest.values() if any(one.get(name) for name in figures)]
    rows = [_peer_row(one) for one in known]
    return sorted(
        rows,
        key=lambda row: (
            row["tone"] != "fail",
            row["tone"] != "warn",
            row["share"] if row["share"] is not None else 2.0,
        ),
    )


def _name(one: Mapping[str, Any]) -> str:
    return str(one.get("collective") or one.get("stage"))


def _peer_row(one: Mapping[str, Any]) -> Dict[str, Any]:
    value, ceiling = float(one["busbw_gb_s"]), one.get("ceiling_gb_s")
    middle, percentile = one.get("median_gb_s"), one.get("percentile")
    marks = {
        name: float(one[key])
        for name, key in (("floor", "threshold_gb_s"), ("median", "median_gb_s"), ("ceiling", "ceiling_gb_s"))
        if one.get(key)
    }
    return {
        "where": listed(places(one)) or "?",
        "what": f"{_name(one)}, {one.get('ranks') or '?'} ranks, {size(one['size_bytes'])}",
        "busbw": number(value),
        "median": number(middle) if middle else "unknown",
        "percentile": "unknown" if percentile is None else f"{percentile:.0f}",
        "floor": number(one["threshold_gb_s"]) if one.get("threshold_gb_s") else "none",
        "ceiling": f"{number(ceiling)} ({value / ceiling * 100:.0f} %)" if ceiling else "unknown",
        "share": value / middle if middle else None,
        "tone": str(one.get("status")),
        "bar": drawings.bar(value, marks, str(one.get("status"))),
    }


def pairs(measurements: List[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
    """The matrix of pairs as a drawing, and the slow ones in words."""
    found = pair_map.heat_map(measurements)
    if found is None:
        return None
    slow = [
        {
            "hosts": " and ".join(row["hosts"]),
            "busbw": "no result" if row["busbw_gb_s"] is None else f"{number(row['busbw_gb_s'])} GB/s",
            "share": "" if row["share"] is None else f"{row['share'] * 100:.0f} % of the median",
            "status": row["status"],
        }
        for row in pair_map.slowest(measurements)
    ]
    return {
        "svg": drawings.matrix(found, "pairs"),
        "measured": count(found["measured"], "pair"),
        "median": number(found["median_gb_s"]),
        "left_out": found["left_out"],
        "slow": slow,
    }


def topologies(report: Mapping[str, Any]) -> Dict[str, Any]:
    """Drawings of what hangs where, once for all hosts that look alike, and the hosts of which nothing tells."""
    pictures = {name: part(entry, "observation", "topology") for name, entry in report["hosts"].items()}
    alike = topology.alike(pictures)
    drawn = [
        {"hosts": listed(names, 12), "svg": drawings.host(one, f"topology{index}")}
        for index, (one, names) in enumerate(alike[:_TOPOLOGIES])
    ]
    with_gpus = [
        name for name, one in pictures.items() if one is None and part(report, "hosts", name, "observation", "gpus")
    ]
    return {"drawn": drawn, "left_out": len(alike) - len(drawn), "unknown": listed(with_gpus, 12) if with_gpus else ""}
