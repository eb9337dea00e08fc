"""Small helpers for sentences."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Iterable


def listed(items: Iterable[object], limit: int = 6) -> str:
    """``a, b and c``; the rest is counted."""
    words = [str(item) for item in items]
    if len(words) > limit:
        return f"{', '.join(words[:limit])} and {len(words) - limit} more"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "nothing"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
