"""Reads the text of nccl-tests and rccl-tests: the runs in a log, each with its ranks, its table and its footer."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.collectives import Row, is_dtype, program
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.lines import Line
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.numbers import Printed, fixed, general, whole

#: Other names of the columns, in versions of 2017.
_ALIASES = {"bytes": "size", "n": "count", "op": "redop", "#wrong": "wrong", "res": "error", "cputime": "time"}
_FIGURES = ("time", "algbw", "busbw", "wrong", "error")
_PLACEMENTS = ("out_of_place", "in_place")

_VERSION = re.compile(r"nccl-tests version (\S+) nccl-headers=(\d{1,9}) nccl-library=(\d{1,9})\b")
_LIBRARY = re.compile(r"(?:NCCL|RCCL) version\s*:?\s*(\d+(?:\.\d+)+)")
_STARTING = re.compile(r"Collective test starting: (\S+)")
_CONCLUDED = re.compile(r"Collective test concluded: (\S+)")
_PARAMETERS = re.compile(
    r"nThread (\d+) nGpus (\d+) minBytes (\d{1,18}) maxBytes (\d{1,18}) step: (\d{1,18})\((factor|bytes)\)(.*)"
)
_VALIDATION = re.compile(r"validation: (\d+)")
_REDUCED = re.compile(r"Reducing maxBytes to (\d{1,18}) due to memory limitation")
_DEVICE = re.compile(
    r"Rank\s+(\d{1,7})\s+(?:Group\s+\d+\s+)?Pid\s+(\d{1,9})\s+on\s+(\S+)\s+device\s+(\d+)\s+\[([^\]]*)\]\s*(.*)"
)
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d{1,18})\s+(OK|FAILED)\s*\Z")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\S+)(?:\s+(OK|FAILED))?\s*\Z")
_ROOT = re.compile(r"-?\d{1,7}\Z", re.ASCII)


class Device(NamedTuple):
    rank: int
    host: str
    pid: int
    name: str


class Run:
    """One program's output, in the order in which it is printed."""

    def __init__(self, stream: Optional[str] = None) -> None:
        self.stream = stream
        self.started: Optional[str] = None
        self.concluded: Optional[str] = None
        self.named: Optional[str] = None  # by a command line before it
        self.sweep: Optional[Tuple[int, int, int, bool]] = None  # least, most, step, step is a factor
        self.validation: Optional[bool] = None
        self.devices: List[Device] = []
        self.columns: List[str] = []
        self.cpu_time = False
        self.rows: List[Row] = []
        self.broken: List[str] = []  # lines that should be rows and are none
        self.elided = False
        self.bounds: Optional[Tuple[int, bool]] = None  # rows that were wrong, and whether it says OK
        self.average: Optional[Printed] = None
        self.average_failed = False
        self.ranks: Optional[int] = None  # where something else than the devices says it
        self.stage = -1

    def begins_again(self, stage: int) -> bool:
        """Whether a line of this stage can only belong to a new run."""
        return stage < self.stage or (stage == self.stage and stage not in _SEVERAL)


_VERSION_STAGE, _STARTING_STAGE, _PARAMETERS_STAGE, _USING_STAGE, _DEVICES_STAGE, _HEADER_STAGE = range(6)
_ROWS_STAGE, _BOUNDS_STAGE, _AVERAGE_STAGE, _CONCLUDED_STAGE = range(6, 10)
#: Of these a run has several.
_SEVERAL = (_DEVICES_STAGE, _ROWS_STAGE)


class Text(NamedTuple):
    """What the lines of a log say."""

    runs: List[Run]
    versions: List[str]  # of NCCL, as the program prints them


def read(lines: Iterable[Line]) -> Text:
    """Read every run of every process."""
    open_runs: Dict[Optional[str], Run] = {}
    runs: List[Run] = []
    versions: List[str] = []
    named: Optional[str] = None
    for line in lines:
        text = line.text.strip().lstrip("#").strip()
        library = _VERSION.search(text)
        if library:
            versions.append(numbered(int(library.group(3))))
        elif _LIBRARY.match(text):
            versions.append(_LIBRARY.match(text).group(1))  # type: ignore[union-attr]
            continue
        stage = _stage(text)
        run = open_runs.get(line.stream)
        if stage is None:
            if run is not None and run.columns and text == "..." and run.bounds is None:
                run.elided = True
            elif program(text):
                named = program(text)
            elif run is not None and run.columns and run.bounds is None and _like_a_row(text):
                run.broken.append(text)
            continue
        if run is None or run.begins_again(stage):
            run = Run(line.stream)
            run.named = named
            open_runs[line.stream] = run
            runs.append(run)
        run.stage = max(run.stage, stage)
        _take(run, stage, text)
    return Text(runs, versions)


def _stage(text: str) -> Optional[int]:
    if _VERSION.search(text):
        return _VERSION_STAGE
    if _STARTING.match(text):
        return _STARTING_STAGE
    if _PARAMETERS.match(text):
        return _PARAMETERS_STAGE
    if text == "Using devices":
        return _USING_STAGE
    if _DEVICE.match(text) or _REDUCED.match(text):
        return _DEVICES_STAGE
    if _columns(text):
        return _HEADER_STAGE
    if _like_a_row(text):
        return _ROWS_STAGE
    if _BOUNDS.match(text):
        return _BOUNDS_STAGE
    if _AVERAGE.match(text):
        return _AVERAGE_STAGE
    return _CONCLUDED_STAGE if _CONCLUDED.match(text) else None


def _take(run: Run, stage: int, text: str) -> None:
    if stage == _STARTING_STAGE:
        run.started = _STARTING.match(text).group(1)  # type: ignore[union-attr]
    elif stage == _PARAMETERS_STAGE:
        least, most, step, kind, rest = _PARAMETERS.match(text).groups()[2:]  # type: ignore[union-attr]
        run.sweep = (int(least), int(most), int(step), kind == "factor")
        validation = _VALIDATION.search(rest)
        run.validation = validation.group(1) != "0" if validation else None
    elif stage == _DEVICES_STAGE:
        device, reduced = _DEVICE.match(text), _REDUCED.match(text)
        if device:
            run.devices.append(Device(int(device.group(1)), device.group(3), int(device.group(2)), device.group(6)))
        elif reduced and run.sweep:
            run.sweep = (run.sweep[0], min(run.sweep[1], int(reduced.group(1))), *run.sweep[2:])
    elif stage == _HEADER_STAGE:
        run.columns = _columns(text)
        run.cpu_time = "cputime" in text.split()
    elif stage == _ROWS_STAGE:
        found = _rows(run, text)
        run.rows += found
        if not found:
            run.broken.append(text)
    elif stage == _BOUNDS_STAGE:
        bounds = _BOUNDS.match(text)
        run.bounds = (int(bounds.group(1)), bounds.group(2) == "OK")  # type: ignore[union-attr]
    elif stage == _AVERAGE_STAGE:
        average = _AVERAGE.match(text)
        run.average = general(average.group(1))  # type: ignore[union-attr]
        run.average_failed = average.group(2) == "FAILED"  # type: ignore[union-attr]
    elif stage == _CONCLUDED_STAGE:
        run.concluded = _CONCLUDED.match(text).group(1)  # type: ignore[union-attr]


def _words(text: str) -> List[str]:
    return [word for word in re.split(r"[,\s]+", text) if word]


def _columns(text: str) -> List[str]:
    """The columns that a table's header names; empty where this is no header, or one that is not whole."""
    words = [_ALIASES.get(word.lower(), word.lower()) for word in _words(text)]
    if words[:3] != ["size", "count", "type"] or "time" not in words:
        return []
    starts = [at for at, word in enumerate(words) if word == "time"]
    ends = [*starts[1:], len(words)]
    whole = all(
        words[start + 1 : start + 3] == ["algbw", "busbw"] and ({"wrong", "error"} & set(words[start:end]))
        for start, end in zip(starts, ends)
    )
    return words if whole and len(starts) <= len(_PLACEMENTS) else []


def _like_a_row(text: str) -> bool:
    words = _words(text)
    return len(words) >= 7 and None not in (whole(words[0]), whole(words[1])) and is_dtype(words[2])


def _guessed(words: List[str]) -> List[str]:
    """The columns of a row whose header was cut off."""
    figures = ["time", "algbw", "busbw", "wrong"] * 2
    middle = len(words) - 3 - len(figures)
    names = {0: [], 1: ["root" if _ROOT.match(words[3]) else "redop"], 2: ["redop", "root"]}.get(middle)
    return ["size", "count", "type", *names, *figures] if names is not None else []


def _rows(run: Run, text: str) -> List[Row]:
    """The two measurements of a line; empty where the line is no whole row."""
    words = _words(text)
    columns = run.columns or _guessed(words)
    if columns and columns[-1] == "timestamp":
        columns = [*columns[:-1], "date", "clock"]
    if not columns or len(words) != len(columns):
        return []
    first = columns.index("time")
    head = dict(zip(columns[:first], words))
    root = head.get("root")
    if root is not None and not _ROOT.match(root):
        return []
    found: List[Row] = []
    at = first
    for placement in _PLACEMENTS[: columns.count("time")]:
        figures: Dict[str, str] = {}
        while at < len(columns) and columns[at] not in figures:
            figures[columns[at]] = words[at]
            at += 1
        row = _row(head, root, placement, figures, run.cpu_time)
        if row is None:
            return []
        found.append(row)
    return found


def _row(
    head: Dict[str, str], root: Optional[str], placement: str, figures: Dict[str, str], cpu_time: bool
) -> Optional[Row]:
    time, algbw, busbw = (fixed(figures.get(name, "")) for name in _FIGURES[:3])
    if time is None or algbw is None or busbw is None:
        return None
    wrong, error = figures.get("wrong"), figures.get("error")
    count: Optional[int] = None
    if wrong not in (None, "N/A"):
        said = fixed(str(wrong))
        if said is None or said.value.denominator != 1:
            return None
        count = int(said.value)
    if error not in (None, "N/A") and fixed(str(error).rstrip("*")) is None:
        return None
    return Row(
        int(head["size"]),
        int(head["count"]),
        head["type"],
        head.get("redop"),
        int(root) if root is not None else None,
        placement,
        time,
        algbw,
        busbw,
        count,
        None if error == "N/A" else error,
        cpu_time,
    )


def numbered(code: int) -> str:
    """22907 -> 2.29.7; before 2.9 it was 2804 -> 2.8.4."""
    if code >= 10000:
        return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
