"""Reads the text of Ascend's hccl_test: a table without bus bandwidth, ranks and footer."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from fractions import Fraction
from typing import Dict, Iterable, List, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.collectives import Row
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.lines import Line
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.numbers import Span, fixed, whole
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.whole import Sweep, sizes

_COLUMNS = {
    "data_size(bytes)": "size",
    "aveg_time(us)": "time",
    "avg_time(us)": "time",
    "alg_bandwidth(gb/s)": "algbw",
    "check_result": "check",
}
_ECHO = re.compile(r"the minbytes is (\d{1,18}), maxbytes is (\d{1,18}), iters is \d+, warmup_iters is \d+")
_PROGRAM = re.compile(r"(?<![\w.-])([a-z]+(?:_[a-z]+)*)_test\s+(.*)")
_NAMES = {"all_to_all": "alltoall"}
#: Those whose bandwidth counts the data of every rank.
_SPREADING = ("all_gather", "all_gather_v", "reduce_scatter", "reduce_scatter_v", "scatter", "batch_send_recv")
_REDUCING = ("all_reduce", "reduce", "reduce_scatter")
_OPTION = re.compile(r"(?:^|\s)-([dofip])\s+(\S+)")
#: hccl_test's element types by nccl-tests' names.
_DTYPES = {"fp32": "float", "fp16": "half", "bfp16": "bfloat16", "fp64": "double"}
_BYTES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2,
          "int32": 4, "uint32": 4, "int64": 8, "uint64": 8}  # fmt: skip


class Run:
    """One table."""

    def __init__(self, stream: Optional[str], columns: List[str], sweep: Optional[Sweep], command: str) -> None:
        self.stream = stream
        self.columns = columns
        self.sweep = sweep
        self.rows: List[Row] = []
        self.errors: List[str] = []
        self.missing: List[str] = []
        program = _PROGRAM.search(command)
        options = dict(_OPTION.findall(program.group(2))) if program else {}
        self.collective = _NAMES.get(program.group(1), program.group(1)) if program else None
        self.dtype = _DTYPES.get(options.get("d", ""), options.get("d"))
        self.redop = options.get("o") if self.collective in _REDUCING else None
        launched = re.search(r"\s-(?:n|np)\s+(\d{1,7})\s", command.partition("_test")[0])
        self.ranks = int(launched.group(1)) if launched else None
        self.factor = whole(options.get("f"))
        self.step = whole(options.get("i"))


def read(lines: Iterable[Line]) -> List[Run]:
    """Every table of a log."""
    runs: List[Run] = []
    open_runs: Dict[Optional[str], Run] = {}
    limits: Dict[Optional[str], Sweep] = {}
    command = ""
    for line in lines:
        text = line.text.strip()
        echo = _ECHO.search(text)
        if echo:
            limits[line.stream] = (int(echo.group(1)), int(echo.group(2)), 2, True)
        elif _PROGRAM.search(text):
            command = text
        columns = _header(text)
        if columns:
            open_runs[line.stream] = Run(line.stream, columns, limits.pop(line.stream, None), command)
            runs.append(open_runs[line.stream])
        elif line.stream in open_runs and "|" in text:
            _take(open_runs[line.stream], text)
    for run in runs:
        _finish(run)
    return runs


def _header(text: str) -> List[str]:
    names = [word.strip().rstrip(":").strip().lower() for word in text.split("|")]
    columns = [_COLUMNS.get(name, "") for name in names]
    return columns if "size" in columns and "algbw" in columns else []


def _take(run: Run, text: str) -> None:
    words = [word.strip() for word in text.split("|")]
    told = dict(zip(run.columns, words))
    time, algbw = fixed(told.get("time", "")), fixed(told.get("algbw", ""))
    check = told.get("check", "").upper()
    size = whole(told.get("size"))
    known = check in ("SUCCESS", "FAILED", "NULL")
    if len(words) != len(run.columns) or size is None or not time or not algbw or not known:
        run.missing.append(f"not a whole row: {text}")
        return
    element = _BYTES.get(run.dtype or "")
    # Whether elements were wrong is all it says, not how many.
    wrong = {"SUCCESS": 0, "FAILED": None, "NULL": None}[check]
    count = size // element if element else 0
    run.rows.append(Row(size, count, run.dtype or "", run.redop, None, "out_of_place", time, algbw, None, wrong))
    if check == "FAILED":
        run.errors.append(f"{run.collective or 'collective'} {size} B: check_result failed")


def _finish(run: Run) -> None:
    """The table has no end; that it is whole shows only in the sizes that it said it would have."""
    run.errors += _timed(run)
    if run.sweep is None:
        run.missing.append("the line with minbytes and maxbytes is not there")
        return
    least, most = run.sweep[:2]
    found = [row.size for row in run.rows]
    step = run.factor or (run.step if run.step else _step(found))
    sweep = (least, most, step or 2, not run.step)
    if found != sizes(sweep):
        run.missing.append(f"{len(found)} rows are not a sweep from {least} to {most} B")


def _timed(run: Run) -> List[str]:
    """alg_bandwidth is the size by the time; for those that spread data, the size of all ranks together."""
    factors: Optional[Span] = None
    for row in run.rows:
        moved = row.algbw.span.times(row.time.span).scaled(Fraction(1000))
        if not row.size:
            continue
        told = moved.scaled(Fraction(1, row.size))
        factors = told if factors is None else Span(max(told.low, factors.low), min(told.high, factors.high))
        if factors.low > factors.high or not _allowed(run, factors):
            return [f"{row.size} B: alg_bandwidth {row.algbw.text} is not its size by {row.time.text} us"]
    return []


def _allowed(run: Run, factors: Span) -> bool:
    if run.collective is not None and run.collective not in _SPREADING:
        return factors.low <= 1 <= factors.high
    if run.ranks:
        return any(factors.low <= one <= factors.high for one in (1, run.ranks))
    least = -(-factors.low.numerator // factors.low.denominator)
    return max(least, 1) <= factors.high


def _step(found: List[int]) -> Optional[int]:
    """The factor between the first two sizes."""
    if len(found) < 2 or not found[0] or found[1] % found[0]:
        return None
    return found[1] // found[0]
