"""What a verification does in the time that it is given, and what it leaves out for that."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Mapping

AUTO = "auto"


class BudgetError(ValueError):
    """A budget that there is not."""


def choose(name: str, asked: Mapping[str, Any], data: Mapping[str, Any]) -> Dict[str, Any]:
    """Return {stages, collectives, max_bytes, pairs_bytes, seconds, left_out}.

    ``asked``: stages, collectives, max_bytes, pairs_bytes, seconds (by stage), backend, as the role's options say.
    ``data``: data/budgets. Somebody's own list or size is kept where it is smaller.
    """
    backend = str(asked["backend"])
    if not name:
        row: Mapping[str, Any] = {"stages": asked["stages"], "stage_seconds": {}, **data["usual"]}
    elif name in data["budgets"]:
        row = data["budgets"][name]
    else:
        known = ", ".join(data["budgets"])
        raise BudgetError(f"budget: {name}: there is no such budget. To fix it: take one of {known}, or give none.")
    stages = [one for one in asked["stages"] if one in row["stages"]]
    collectives = [one for one in asked["collectives"] if one in row.get("collectives", asked["collectives"])]
    sizes = {key: _size(str(asked[key]), str(row[key][backend])) for key in ("max_bytes", "pairs_bytes")}
    why = f"the budget of {name}"
    left_out = [_left(f"stage {one}", why) for one in asked["stages"] if one not in stages]
    left_out += [_left(f"collective {one}", why) for one in asked["collectives"] if one not in collectives]
    wanted = _size(str(asked["max_bytes"]), str(data["usual"]["max_bytes"][backend]))
    if bytes_of(sizes["max_bytes"]) < bytes_of(wanted):
        left_out.append(_left(f"messages larger than {sizes['max_bytes']} (of {wanted})", why))
    return {
        "stages": stages,
        "collectives": collectives or list(asked["collectives"]),
        **sizes,
        "seconds": {**asked["seconds"], **row["stage_seconds"]},
        "left_out": left_out,
    }


def _left(what: str, why: str) -> Dict[str, str]:
    return {"what": what, "why": why}


def _size(asked: str, row: str) -> str:
    """The row's size where it is left to us; of two the smaller one."""
    return row if asked == AUTO or bytes_of(asked) > bytes_of(row) else asked


def bytes_of(text: str) -> int:
    """4096, 64K, 16M, 8G; powers of 1024."""
    units = {"K": 10, "M": 20, "G": 30}
    word = text.strip().upper()
    number = word[:-1] if word[-1:] in units else word
    if not number.isdigit():
        raise BudgetError(f"{text}: is no size. To fix it: write 4096, 64K, 16M or 8G.")
    return int(number) << units.get(word[-1:], 0)
