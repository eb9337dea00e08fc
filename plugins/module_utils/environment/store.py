"""Decides which environments of a store stay: the one in use, the way back, and those that processes still need."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import time
from typing import List, NamedTuple, Optional, Sequence

#: Only directories of this name are ours to remove: UTC stamp of the build, and something unique.
_NAME = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[0-9a-f]{8}")


class Environment(NamedTuple):
    """One directory of the store."""

    name: str
    intact: bool  # its build was finished and nothing was altered since
    used: bool  # a process still needs it


def new_name(now: float, unique: str) -> str:
    """A directory name that sorts by time and was never there before (scripts inside carry its absolute path)."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    return f"{stamp}.{int(now * 1000) % 1000:03}Z-{unique[:8]}"


def is_ours(name: str) -> bool:
    """Was this directory named by `new_name`?"""
    return _NAME.fullmatch(name) is not None


def removable(
    environments: Sequence[Environment], current: Optional[str], previous: Optional[str], keep: int
) -> List[str]:
    """The names to remove: unfinished and damaged ones, and intact ones beyond the `keep` latest; never one in use."""
    candidates = sorted((item for item in environments if item.name != current), key=lambda item: item.name)
    # The one that was in use last is the way back, however old it is.
    intact = [item.name for item in reversed(candidates) if item.intact]
    intact.sort(key=lambda name: name != previous)
    kept = set(intact[: max(0, keep)])
    return [item.name for item in candidates if item.name not in kept and not item.used]
