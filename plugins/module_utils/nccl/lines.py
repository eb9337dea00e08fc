"""Takes what launchers and NCCL put around and between a program's lines away from it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import List, NamedTuple, Optional, Tuple

#: Longest line of which anything is read.
_LONGEST = 4000

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
_TAGS = (
    # OpenMPI --tag-output: [1,0]<stdout>: and [prterun-node-a-77@1,0]<stderr>:
    re.compile(r"\s*\[(?:[^\]\s]*@)?(?P<tag>\d+,\d+)\]<std(?:out|err)>: ?"),
    # torchrun: [default0]: and [rank0]:
    re.compile(r"\s*\[(?P<tag>(?:default|rank)\d+)\]: ?"),
    # MPICH -prepend-rank: [0] at the very beginning; srun -l: 0:
    re.compile(r"\[(?P<tag>\d+)\] (?=[#\s\w])"),
    re.compile(r"\s{0,6}(?P<tag>\d{1,6}): (?=.|$)"),
)
_TIME = re.compile(r"\s*\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]? (?=\S|\s)")
#: NCCL's own lines: HOST:PID:TID [GPU] ... NCCL LEVEL text. Before NCCL 2.12 there was no thread id in some builds.
MESSAGE = re.compile(
    r"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] )?(?P<host>[A-Za-z0-9][\w.-]*):(?P<pid>\d{1,9}):(?P<thread>\d{1,9}) "
    r"\[(?P<gpu>-?\d{1,6})\] (?P<where>[^\n]*?)NCCL (?P<level>INFO|WARN|TRACE|ERROR|ABORT|VERSION) (?P<text>.*)"
)
#: The beginning of a row is printed before the collective runs, the rest after it; NCCL speaks in between.
_OPEN_ROW = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*(?:\s+[a-z]+)?(?:\s+-1)?(?=\s*[A-Za-z0-9][\w.-]*:\d+:\d+ \[)")


class Line(NamedTuple):
    """One line of the program."""

    number: int  # of the log, from 1
    stream: Optional[str]  # the process it came from, where the launcher says so
    text: str


class Message(NamedTuple):
    """One line of NCCL's own log."""

    number: int
    stream: Optional[str]
    host: Optional[str]
    pid: Optional[int]
    gpu: Optional[int]
    level: str
    text: str
    raw: str


def split(text: str) -> Tuple[List[Line], List[Message]]:
    """The program's lines, and NCCL's."""
    lines: List[Line] = []
    messages: List[Message] = []
    open_rows = {}
    for number, raw in enumerate(text.split("\n"), start=1):
        bare = _ESCAPES.sub("", raw[:_LONGEST].rstrip("\r")).replace("\r", " ")
        stream, rest = untagged(bare)
        begun = _OPEN_ROW.match(rest)
        match = MESSAGE.search(rest, begun.end() if begun else 0)
        if match:
            messages.append(_message(number, stream, match))
            rest = rest[: match.start()]
            if begun:
                open_rows[stream] = rest
            elif rest.strip():
                lines.append(Line(number, stream, rest))
            continue
        if rest.startswith(("NCCL WARN ", "NCCL INFO ")):
            level, said = rest[5:9], rest[10:]
            messages.append(Message(number, stream, None, None, None, level, said, rest))
            continue
        if stream in open_rows and rest.strip():
            rest = open_rows.pop(stream) + " " + rest
        lines.append(Line(number, stream, rest))
    lines += [Line(0, stream, rest) for stream, rest in open_rows.items()]
    return lines, messages


def untagged(line: str) -> Tuple[Optional[str], str]:
    """(process, line) of a line to which a launcher put the process that wrote it."""
    line = _TIME.sub("", line, count=1)
    for pattern in _TAGS:
        match = pattern.match(line)
        if match:
            return match.group("tag"), line[match.end() :]
    return None, line


def _message(number: int, stream: Optional[str], match: re.Match[str]) -> Message:
    return Message(
        number,
        stream,
        match.group("host"),
        int(match.group("pid")),
        int(match.group("gpu")),
        match.group("level"),
        match.group("text").strip(),
        match.group(0).strip(),
    )
