"""One thing wrong with what a user declared: where, which key, which value, why, and what to do."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import difflib
from typing import Any, Iterable, Optional, TypedDict


class Problem(TypedDict):
    rule: str  # stable name, for programs
    where: str  # file and line, as far as they are known
    key: str
    value: str
    text: str
    fix: str


def message(problem: Problem) -> str:
    """The problem as one line for people."""
    place = f"{problem['where']}: " if problem["where"] else ""
    value = f": {problem['value']}" if problem["value"] else ""
    return f"{place}{problem['key']}{value}: {problem['text']}. To fix it: {problem['fix']}."


def nearest(word: Any, known: Iterable[str]) -> Optional[str]:
    """The known word that was most likely meant; None where nothing is close."""
    found = difflib.get_close_matches(str(word).lower(), sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def listed(words: Iterable[str]) -> str:
    """`a, b, c`, or `nothing`."""
    return ", ".join(words) or "nothing"
