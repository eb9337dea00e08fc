"""What nccl-tests mean by their columns: algbw and busbw, bytes of an element, which collective it is."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from fractions import Fraction
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.numbers import Printed, Span

#: Programs whose busbw is algbw x 2(n-1)/n, x (n-1)/n, and x 1 (doc/PERFORMANCE.md of nccl-tests).
_TWICE = ("all_reduce",)
_PART = ("all_gather", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter")
_ONCE = ("broadcast", "reduce", "sendrecv", "hypercube")
#: Those whose size column is count elements of every rank together.
PER_RANK = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")
#: Those whose size column is count elements.
WHOLE = ("all_reduce", "broadcast", "reduce", "sendrecv")
KNOWN = _TWICE + _PART + _ONCE
#: Nobody has more ranks, and no more can be told apart by six digits.
_MOST_RANKS = 1 << 20

_BYTES = {
    **dict.fromkeys(("int8", "uint8", "char", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "int", "float"), 4),
    **dict.fromkeys(("int64", "uint64", "double"), 8),
}
_DTYPE = re.compile(r"[a-z][a-z0-9_]{1,11}\Z")
_PROGRAM = re.compile(r"(?<![A-Za-z0-9_.-])([a-z]+(?:_[a-z]+)*)_perf(?:_mpi)?(?![A-Za-z0-9_.])")


class Row(NamedTuple):
    """One measurement: a line of the table has two, out of place and in place."""

    size: int
    elements: int
    dtype: str
    redop: Optional[str]
    root: Optional[int]
    placement: str
    time: Printed
    algbw: Printed
    busbw: Optional[Printed]
    wrong: Optional[int]  # None: not checked, or this version prints an error instead
    error: Optional[str] = None  # the largest relative error, in versions before `#wrong`
    cpu_time: bool = False  # the time column is not what the bandwidths are computed from

    def where(self) -> str:
        return f"{self.size} B {self.placement.replace('_', ' ')}"


def bytes_of(dtype: str) -> Optional[int]:
    return _BYTES.get(dtype)


def is_dtype(word: str) -> bool:
    return word in _BYTES or bool(_DTYPE.match(word) and word not in ("none", "sum", "prod"))


def program(line: str) -> Optional[str]:
    """The collective whose program a line names; None where it names none that is known."""
    names = [name for name in _PROGRAM.findall(line) if name in KNOWN]
    return names[-1] if names else None


def factor(collective: Optional[str], ranks: int) -> Optional[Fraction]:
    """busbw / algbw; None for a collective that is not known."""
    if collective in _TWICE:
        return Fraction(2 * (ranks - 1), ranks)
    if collective in _PART:
        return Fraction(ranks - 1, ranks)
    return Fraction(1) if collective in _ONCE else None


def inferred(rows: Sequence[Row]) -> Optional[str]:
    """The collective by the shape of its table, where no line names it.

    Without validation all_gather and alltoall look the same, and have the same arithmetic: it is taken for
    all_gather.
    """
    row = rows[0]
    element = bytes_of(row.dtype)
    ratios = {one.size // (one.elements * element) for one in rows if element and one.elements}
    spread = max(ratios) if ratios else 1
    sums = row.redop not in (None, "none")
    rooted = row.root is not None and row.root >= 0
    # sendrecv and alltoall do not check in place.
    unchecked = all(
        one.wrong is None and one.error is None if one.placement == "in_place" else one.wrong is not None
        for one in rows
    ) and any(one.placement == "in_place" for one in rows)
    if rooted:
        if sums:
            return "reduce"
        return "broadcast" if spread == 1 else None
    if spread > 1:
        return "alltoall" if unchecked else "reduce_scatter" if sums else "all_gather"
    if sums:
        return "sendrecv" if unchecked else "all_reduce"
    return None


def arithmetic(collective: Optional[str], rows: Sequence[Row], ranks: Optional[int]) -> Tuple[List[str], Optional[int]]:
    """What does not belong together in the rows, and the number of ranks that they speak of (None: no one number)."""
    problems = [_counted(collective, row, ranks) for row in rows]
    told = ranks or _ranks_by_count(collective, rows)
    if factor(collective, 2) is None:
        return [text for text in problems if text], told
    if told and _moved_only(collective, rows):
        share = Fraction(told - 1, told)
        problems += [_timed(row, share) for row in rows]
        return [text for text in problems if text], told
    problems += [_timed(row, Fraction(1)) for row in rows]
    if told is None:
        told, fits = _ranks_by_factor(collective, rows)
        if not fits:
            problems.append(f"{collective}: no number of ranks gives these busbw from these algbw")
    else:
        problems += [_factored(collective, row, told) for row in rows]
    return [text for text in problems if text], told


def _moved_only(collective: Optional[str], rows: Sequence[Row]) -> bool:
    """Before June 2020 both bandwidths of these two were of what really moves, (n-1)/n of the size."""
    return collective in ("all_gather", "reduce_scatter") and all(
        row.root is None and row.busbw is not None and row.busbw.text == row.algbw.text for row in rows
    )


def _counted(collective: Optional[str], row: Row, ranks: Optional[int]) -> Optional[str]:
    """The size column belongs to count and type."""
    element = bytes_of(row.dtype)
    if element is None:
        return None
    size = row.elements * element
    if collective in PER_RANK:
        fits = row.size == size * ranks if ranks else (row.size % size == 0 if size else row.size == 0)
    else:
        fits = collective not in WHOLE or row.size == size
    return None if fits else f"{row.where()}: that is not the size of {row.elements} {row.dtype}"


def _timed(row: Row, scale: Fraction) -> Optional[str]:
    """algbw is size by time."""
    if row.cpu_time:
        return None
    moved = row.algbw.span.times(row.time.span).scaled(Fraction(1000))  # GB/s x us = 1000 bytes
    size = row.size * scale
    if moved.meets(Span(size, size)):
        return None
    return f"{row.where()}: algbw {row.algbw.text} is not its size by {row.time.text} us"


def _factored(collective: Optional[str], row: Row, ranks: int) -> Optional[str]:
    times = factor(collective, ranks)
    if row.busbw is None or times is None or row.algbw.span.scaled(times).meets(row.busbw.span):
        return None
    return (
        f"{collective} {row.where()}: busbw {row.busbw.text} is not algbw {row.algbw.text} x {float(times):.6g} "
        f"({ranks} ranks)"
    )


def _ranks_by_count(collective: Optional[str], rows: Sequence[Row]) -> Optional[int]:
    if collective not in PER_RANK:
        return None
    found = set()
    for row in rows:
        size = row.elements * (bytes_of(row.dtype) or 0)
        if size:
            found.add(row.size // size)
    return found.pop() or None if len(found) == 1 else None


def _ranks_by_factor(collective: Optional[str], rows: Sequence[Row]) -> Tuple[Optional[int], bool]:
    """(the only number of ranks that fits, whether any does)."""
    if collective in _ONCE:
        return None, all(row.busbw is not None and row.algbw.span.meets(row.busbw.span) for row in rows)
    top = 2 if collective in _TWICE else 1
    least, most = 1, _MOST_RANKS
    for row in rows:
        if row.busbw is None or row.algbw.span.high == 0:
            continue
        low = row.busbw.span.low / row.algbw.span.high
        high = row.busbw.span.high / row.algbw.span.low if row.algbw.span.low else Fraction(top)
        # top * (n - 1) / n is in low..high: n is at least top / (top - low) and at most top / (top - high)
        if low >= top:
            return None, False
        bound = Fraction(top) / (top - low)
        least = max(least, -(-bound.numerator // bound.denominator))
        if high < top:
            bound = Fraction(top) / (top - high)
            most = min(most, bound.numerator // bound.denominator)
    if least > most:
        return None, False
    return (least if least == most else None), True
