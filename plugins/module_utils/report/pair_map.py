"""The pairs of hosts that were measured, as a matrix: which is slow shows as a dark row, column or cell."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import natural

STAGE = "pairs"
#: Hosts that a matrix can show and a person can read; of more, those with the slowest pairs.
SHOWN = 32
#: Lower bounds of the shares of the median that share a colour, the best first.
STEPS = (0.95, 0.85, 0.7, 0.5, 0.0)


def pairs(measurements: List[Mapping[str, Any]]) -> Dict[Tuple[str, str], Dict[str, Any]]:
    """``(a, b) -> {busbw_gb_s, status}``; the median where a pair was measured more than once, None where it failed.

    Several collectives and sizes are not comparable: the largest size of the one that was measured most counts.
    """
    # A pair that was held to one RDMA device is slower by design.
    rows = [one for one in measurements if one.get("stage") == STAGE and one.get("rail") is None]
    rows = [one for one in rows if len(set(one.get("hosts") or [])) == 2]
    known = [one for one in rows if one.get("busbw_gb_s") is not None]
    kinds = Counter((one.get("collective"), one.get("size_bytes")) for one in known)
    kind = max(kinds, key=lambda item: (kinds[item], item[1] or 0), default=None)
    found: Dict[Tuple[str, str], Dict[str, Any]] = {}
    for one in rows:
        value = one.get("busbw_gb_s")
        if value is not None and (one.get("collective"), one.get("size_bytes")) != kind:
            continue
        first, second = sorted(set(map(str, one["hosts"])), key=natural)
        cell = found.setdefault((first, second), {"values": [], "status": "pass"})
        cell["values"] += [float(value)] if value is not None else []
        cell["status"] = one["status"] if one.get("status") in ("fail", "warn") else cell["status"]
    return {
        pair: {"busbw_gb_s": median(cell["values"]) if cell["values"] else None, "status": cell["status"]}
        for pair, cell in found.items()
    }


def heat_map(measurements: List[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
    """``{hosts, cells, median_gb_s, left_out, unmeasured}``; None where no pair was measured."""
    cells = pairs(measurements)
    if not cells:
        return None
    values = [cell["busbw_gb_s"] for cell in cells.values() if cell["busbw_gb_s"] is not None]
    middle = median(values) if values else None
    for cell in cells.values():
        value = cell["busbw_gb_s"]
        cell["share"] = None if value is None or not middle else value / middle
    hosts = sorted({host for pair in cells for host in pair}, key=natural)
    shown = hosts
    if len(hosts) > SHOWN:
        worst = sorted(cells.items(), key=lambda item: (item[1]["status"] != "fail", item[1]["share"] or 0.0))
        chosen = list(dict.fromkeys(host for pair, _cell in worst for host in pair))[:SHOWN]
        shown = sorted(chosen, key=natural)
    return {
        "hosts": shown,
        "cells": {pair: cell for pair, cell in cells.items() if set(pair) <= set(shown)},
        "median_gb_s": middle,
        "left_out": len(hosts) - len(shown),
        "measured": len(cells),
    }


def slowest(measurements: List[Mapping[str, Any]], limit: int = 10) -> List[Dict[str, Any]]:
    """The pairs in words, the slowest first."""
    found = heat_map(measurements)
    rows = [{"hosts": list(pair), **cell} for pair, cell in (found["cells"] if found else {}).items()]
    rows.sort(key=lambda row: (row["share"] is not None, row["share"] or 0.0))
    return [row for row in rows if row["share"] is None or row["share"] < STEPS[0] or row["status"] == "fail"][:limit]
