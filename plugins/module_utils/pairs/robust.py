"""What is normal in a pool, and from where on something stands out: median and MAD, and a least gap."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from statistics import median
from typing import Any, Iterable, Mapping, NamedTuple, Optional


class Normal(NamedTuple):
    middle: float
    bound: float  # below it a value stands out
    uneven: bool  # the values differ so much that the bound had to move away from the least gap


def normal(best: Iterable[float], values: Iterable[float], bounds: Mapping[str, Any]) -> Optional[Normal]:
    """Return the pool's normal value. ``best`` is each member's best value, ``values`` are all of them.

    The median of the members' best is right while fewer than half of them are bad, but it lies above the middle of
    the noise. So it only sorts out what is far below; median and MAD of the rest are the answer. MAD alone would call
    the slowest of a very even pool bad, hence the least gap; of a few uneven values it says nothing, hence the most.
    """
    members = list(best)
    if not members:
        return None
    gap = float(bounds["least_gap"]["value"])
    begin = median(members) * (1 - gap)
    kept = [value for value in values if value >= begin]
    middle = median(kept)
    spread = median(abs(value - middle) for value in kept)
    most = float(bounds["most_gap"]["value"])
    wide = float(bounds["mads"]["value"]) * spread
    return Normal(middle, middle - min(most * middle, max(gap * middle, wide)), wide > gap * middle)
