"""An answer as lines for a terminal: what was chosen and why, or what clashes and what would work instead."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import textwrap
from typing import Any, Dict, List, Mapping, Sequence, Tuple

_NARROWEST = 60


def answer_lines(answer: Mapping[str, Any], width: int = 120) -> List[str]:
    """The whole answer, the verdict first."""
    width = max(width, _NARROWEST)
    if answer["ok"]:
        lines = ["This set works.", "", *_rows(_parts(answer["resolution"]), width), "", "Why:"]
        for one in answer["because"]:
            lines += _wrapped(f"{one['choice']}: {one['reason']}", width)
    else:
        lines = ["This set does not work.", ""]
        for one in answer["conflicts"]:
            lines += _wrapped(f"{one['rule']}: {one['facts'][0]}; but {one['facts'][1]}", width)
            lines += _wrapped(f"see {'; '.join(one['sources'])}", width, "      ")
        lines += ["", "What would work:" if answer["alternatives"] else "No other values of these keys would work."]
        for one in answer["alternatives"]:
            changes = ", ".join(f"{key}: {value}" for key, value in one["changes"].items())
            lines += _wrapped(f"{changes}  ({_short(one['resolution'])})", width)
    if answer["warnings"]:
        lines += ["", "Mind:"]
        for one in answer["warnings"]:
            lines += _wrapped(f"{one['rule']}: {one['text']}", width)
    return lines


def _parts(made: Mapping[str, Any]) -> List[Tuple[str, str]]:
    driver = made["driver"]
    rows = [
        ("accelerator", made["accelerator"]),
        ("driver", f"{driver['version']}, {driver['module']} kernel module" if driver else None),
        ("fabric manager", (made["fabric_manager"] or {}).get("version")),
        ("nvidia-imex", (made["imex"] or {}).get("version")),
        ("CUDA", made["cuda"]),
        ("PyTorch", f"{made['pytorch']['version']} {made['pytorch']['variant']}"),
        ("NCCL", made["nccl"]),
        ("cuDNN", made["cudnn"]),
        ("TensorFlow", made["tensorflow"]),
        ("Python", made["python"]),
        *((f"packages: {what.replace('_', ' ')}", ", ".join(names)) for what, names in made["packages"].items()),
    ]
    return [(title, str(value)) for title, value in rows if value]


def _short(made: Mapping[str, Any]) -> str:
    driver = f"driver {made['driver']['version']}, " if made["driver"] else ""
    tensorflow = f", TensorFlow {made['tensorflow']}" if made["tensorflow"] else ""
    build = f"PyTorch {made['pytorch']['version']} {made['pytorch']['variant']}"
    nccl = f", NCCL {made['nccl']}" if made["nccl"] else ""
    return f"{driver}{build}{nccl}{tensorflow}, Python {made['python']}"


def _rows(rows: Sequence[Tuple[str, str]], width: int) -> List[str]:
    first = max(len(title) for title, _value in rows)
    lines = []
    for title, value in rows:
        pieces = textwrap.wrap(value, width - first - 4, break_on_hyphens=False, break_long_words=False)
        lines += [f"  {name.ljust(first)}  {piece}" for name, piece in zip([title, *[""] * len(pieces)], pieces)]
    return lines


def _wrapped(text: str, width: int, margin: str = "  ") -> List[str]:
    options: Dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
    if margin == "  ":
        return textwrap.wrap(text, width, initial_indent="  - ", subsequent_indent="    ", **options)
    return textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=margin, **options)
