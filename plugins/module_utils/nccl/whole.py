"""Whether a run's table is all there: declared sweep, footer, and the mean that the program itself printed."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.collectives import Row, bytes_of
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.numbers import Printed, mean

#: (least bytes, most bytes, step, the step is a factor)
Sweep = Tuple[int, int, int, bool]
#: No sweep has more sizes.
_MOST_SIZES = 100_000
#: Ranks get a multiple of this many bytes, so that a size can be smaller than the declared one.
_ALIGNMENT = 16


def sizes(sweep: Sweep) -> Optional[List[int]]:
    """Every size of a sweep; None where it never ends."""
    least, most, step, is_factor = sweep
    if (is_factor and (step < 2 or least < 1)) or (not is_factor and step < 1):
        return [least] if least == most else None
    found, size = [], least
    while size <= most:
        found.append(size)
        if len(found) > _MOST_SIZES:
            return None
        size = size * step if is_factor else size + step
    return found


def swept(sweep: Sweep, rows: Sequence[Row], ranks: Optional[int]) -> Optional[str]:
    """How the rows differ from the sweep that the program says it makes; None where they are it."""
    wanted = sizes(sweep)
    if not wanted:
        return f"a sweep from {sweep[0]} to {sweep[1]} B by {sweep[2]} has no sizes"
    groups: Dict[Tuple[object, ...], List[Row]] = {}
    for row in rows:
        groups.setdefault((row.dtype, row.redop, row.root, row.placement), []).append(row)
    for group in groups.values():
        # With -N a program makes its sweep several times.
        if len(group) % len(wanted):
            return f"{len(group)} rows {group[0].placement.replace('_', ' ')} for {len(wanted)} sizes"
        for number, row in enumerate(group):
            size = wanted[number % len(wanted)]
            room = (_ALIGNMENT + (bytes_of(row.dtype) or _ALIGNMENT)) * ranks if ranks else size
            if not size - room <= row.size <= size:
                return f"a row of {row.size} B where {size} B was to come"
    return None


def averaged(average: Printed, rows: Sequence[Row]) -> Optional[str]:
    """Whether the rows are those of which the program printed the mean: a lost or changed row moves it."""
    means = mean(row.busbw.span for row in rows if row.busbw is not None)
    if means is None or means.meets(average.span):
        return None
    return f"the mean bus bandwidth is {average.text}, and {float((means.low + means.high) / 2):.6g} of these rows"


def ranked(ranks: Sequence[int]) -> Optional[str]:
    """Whether a table of devices has every rank from 0 on once."""
    seen = sorted(ranks)
    for before, rank in zip(seen, seen[1:]):
        if before == rank:
            return f"rank {rank} is in the table of devices {seen.count(rank)} times"
    if seen[-1] + 1 == len(seen):
        return None
    first = next((number for number, rank in enumerate(seen) if number != rank), len(seen))
    return f"{seen[-1] + 1 - len(seen)} of {seen[-1] + 1} ranks are not in the table of devices, the first is {first}"
