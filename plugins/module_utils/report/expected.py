"""Checks `trainrig_expected`, what a renter ordered, before anything is held against it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, nearest

NAME = "trainrig_expected"
#: Key -> what it is; a mapping stands for the keys below it.
KEYS: Dict[str, Any] = {
    "gpus": {
        "model": "a key of data/gpus.yml",
        "count": "GPUs of a node",
        "memory_gib": "nominal memory of one GPU",
        "pcie_gen": "PCIe generation of a GPU's slot",
        "pcie_width": "PCIe lanes of a GPU",
        "nvlinks": "active NVLinks of one GPU",
    },
    "nics": {"count": "RDMA ports of a node", "rate_gbit_s": "rate of one port"},
    "cpus": "hardware threads of a node",
    "memory_gib": "memory of a node",
    "disk_gib": "all disks of a node together",
}
_WHOLE = ("count", "pcie_gen", "pcie_width", "nvlinks", "cpus")


def problems(written: Any, models: Iterable[str], where: str = "") -> List[Problem]:
    """All that is wrong with it; nothing where it is not declared. ``models`` are the keys of data/gpus.yml."""
    if written is None:
        return []
    return _mapping(written, KEYS, NAME, list(models), where)


def _mapping(written: Any, keys: Mapping[str, Any], name: str, models: List[str], where: str) -> List[Problem]:
    known = ", ".join(keys)
    if not isinstance(written, Mapping):
        fix = f"write keys with values; known are {known}"
        return [_problem(where, name, written, "must be keys with values", fix)]
    found: List[Problem] = []
    for key, value in written.items():
        place = f"{name}.{key}"
        if key not in keys:
            begins = (one for one in keys if one.startswith(f"{key}_"))
            word = nearest(key, keys) or next(begins, None)
            fix = f"did you mean {word}" if word else f"known are {known}"
            found.append(_problem(where, place, "", "no such key", fix))
        elif isinstance(keys[key], Mapping):
            found += _mapping(value, keys[key], place, models, where)
        elif key == "model":
            found += _model(value, models, place, where)
        else:
            found += _amount(key, value, place, str(keys[key]), where)
    return found


def _model(value: Any, models: List[str], place: str, where: str) -> List[Problem]:
    if value in models:
        return []
    meant = [one for one in models if isinstance(value, str) and value and one.lower().startswith(value.lower())]
    word: Optional[str] = " or ".join(meant) or nearest(value, models)
    fix = f"did you mean {word}" if word else "name a key of data/gpus.yml, or leave it out"
    return [_problem(where, place, value, "no such GPU in data/gpus.yml", fix)]


def _amount(key: str, value: Any, place: str, what: str, where: str) -> List[Problem]:
    whole = key in _WHOLE
    kinds = (int,) if whole else (int, float)
    # nan is not above 0, and an infinite amount can never be delivered.
    if isinstance(value, kinds) and not isinstance(value, bool) and 0 < value < float("inf"):
        return []
    kind = "a whole number" if whole else "a number"
    return [_problem(where, place, value, f"must be {kind} above 0 ({what})", "write such a number, or leave it out")]


def _problem(where: str, key: str, value: Any, text: str, fix: str) -> Problem:
    shown = "" if value == "" else str(value)
    return {"rule": "expected.value", "where": where, "key": key, "value": shown, "text": text, "fix": fix}
