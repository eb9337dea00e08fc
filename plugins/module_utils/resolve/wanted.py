"""Which of the known versions a wish means: auto, a line (2.13), a release (2.13.0) or bounds (>=2.1,<2.5)."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Iterable, List, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import numbers, satisfies

_BOUND = re.compile(r"(>=|<=|==|!=|~=|<|>)\s*([0-9][0-9A-Za-z.]*(?:\.\*)?)")


def bounds(wish: str) -> Optional[List[Tuple[str, str]]]:
    """The bounds in a wish; None where it is no list of bounds."""
    found = [_BOUND.fullmatch(part.strip()) for part in wish.split(",")]
    return [(match.group(1), match.group(2)) for match in found if match] if all(found) else None


def meets(version: str, wish: str) -> Optional[bool]:
    """Whether a version lies within bounds; None where that cannot be told."""
    answers = [satisfies(version, operator, limit) for operator, limit in bounds(wish) or [("", "")]]
    return None if None in answers else all(answers)


def matching(known: Iterable[str], wish: str) -> List[str]:
    """The known versions that the wish means, newest first."""
    newest_first = sorted(known, key=numbers, reverse=True)
    if wish == "auto":
        return newest_first
    if bounds(wish):
        return [version for version in newest_first if meets(version, wish)]
    if wish in newest_first:
        return [wish]
    return [version for version in newest_first if version.startswith(f"{wish}.")]
