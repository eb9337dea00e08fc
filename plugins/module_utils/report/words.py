"""Numbers and times as people read them, and text made safe for a terminal or an XML file."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import shlex
from typing import Any, List, Optional, Sequence, Tuple

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)", re.DOTALL)
#: What neither a terminal should act on nor XML 1.0 can hold. New line and tab stay.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def clean(value: Any) -> str:
    """Text without escape sequences and control characters; new lines and tabs stay."""
    text = "" if value is None else str(value)
    return _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n"))


def one_line(value: Any) -> str:
    return " ".join(clean(value).split())


def pieces(text: Any) -> List[Tuple[bool, str]]:
    """Prose and the code in it, which stands between backticks: (is it code, text)."""
    parts = clean(text).strip().split("`")
    if len(parts) % 2 == 0:  # a backtick that nothing closes is a backtick
        return [(False, "`".join(parts))]
    return [(bool(index % 2), part) for index, part in enumerate(parts) if part]


def whole_command(text: Any) -> Optional[str]:
    """The command, where a text is nothing else: `sudo systemctl reboot`."""
    parts = pieces(text)
    return parts[0][1] if len(parts) == 1 and parts[0][0] else None


def inventory_options(sources: Sequence[str]) -> str:
    """The inventories as options of ansible-playbook."""
    return " ".join(f"-i {shlex.quote(source)}" for source in sources)


def size(count: Optional[float]) -> str:
    """Bytes: 8 KiB, 1.5 GiB."""
    if count is None:
        return "?"
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.4g} {units[0]}"


def number(value: Optional[float]) -> str:
    """Three significant digits without an exponent; whole numbers from a thousand on."""
    if value is None:
        return "?"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def age(seconds: Optional[float]) -> str:
    """How long ago: 40 s, 12 min, 5 h, 3 days."""
    if seconds is None:
        return "?"
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


def count(amount: int, noun: str, plural: Optional[str] = None) -> str:
    return f"{amount} {noun if amount == 1 else plural or noun + 's'}"


def listed(names: List[str], limit: int = 4) -> str:
    """a, b, c, d and 12 more."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
