"""Fuzz of the reader of nccl-tests' logs: a log that must not pass never passes, however it is damaged.

    tests/fuzz/logs.py --count 20000 [--seed N]

Sick and healthy logs come from tests/support/simulated_logs.py, which shares nothing with the reader. Sick ones are
cut, shuffled, interleaved and sprinkled with other digits. Two things are held:

- the gate that verification uses (verdict and the ranks and hosts that were asked for) never says yes;
- nor does the verdict alone, as long as the log still has the job's table of devices. (A table of results without
  its head is a pass of an unknown number of ranks, which the gate does not take.)

A damaged log that is nothing but whole healthy runs (the sick part was cut off) may pass; which logs these are is known
from the generator. Healthy logs, undamaged, must pass. The seed is printed; a log that breaks this is kept.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT)]

from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.failures import failures  # noqa: E402
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.log import path_findings  # noqa: E402
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.result import as_asked, parse  # noqa: E402

from tests.support import simulated_logs as logs  # noqa: E402

#: One log takes milliseconds; this much is a hang, even on a busy machine.
SLOW_S = 20.0
#: One in so many logs is healthy and stays as it is.
HEALTHY = 8
MOST_DAMAGES = 3
#: Lines whose text is damaged in one log at most.
DAMAGED_LINES = MOST_DAMAGES
TAG = re.compile(r"(?:\[[^\]]*1,0\]<stdout>: ?|0: )+")
#: The generator's noise, and lines that nothing depends on.
IDLE = (
    " NCCL INFO ",
    " NCCL WARN ",
    "known hosts",
    "CCL version",
    "-tests version",
    "Using devices",
    "in-place",
    "(elements)",
)
PID = re.compile(r"Pid +\d+")
DECLARED = {"nodes": 2, "rdma": True, "interface": "eth0", "devices": ["mlx5_0"], "p2p": True, "nvls": True}


def meaningful(line: str) -> bool:
    """Whether a line is one that a whole log cannot do without."""
    text = line.strip().strip("# ")
    return bool(text) and not any(words in text for words in IDLE)


def devices(lines: list[str]) -> list[str]:
    return sorted(line.strip() for line in lines if " Pid " in line and " device " in line)


def bare(lines: list[str]) -> list[str]:
    """The program's own lines without what a launcher puts before them.

    Without process ids: the head of a run that died and the table of the next one make one that nobody can tell from
    a healthy run.
    """
    found = [PID.sub("Pid", TAG.sub("", line)).strip() for line in lines]
    return [line for line in found if meaningful(line)]


def whole_and_well(lines: list[str], log: logs.Log, healthy_lines: list[str]) -> bool:
    """Whether nothing but whole healthy runs is left.

    Where what was wrong is lines of its own, a few lines may be damaged: neither a damaged healthy line nor what is
    left of a sick one proves anything.
    """
    left = bare(lines)
    blocks = [bare(run) for run in log.runs]
    if not log.by_lines:
        return consists(left, blocks, 0)
    known = set(bare(log.lines)) | set(bare(healthy_lines))
    strange = [line for line in left if line not in known]
    kept = [line for line in left if line in known]
    return consists(left, blocks, DAMAGED_LINES) or (len(strange) <= DAMAGED_LINES and consists(kept, blocks, 0))


def consists(left: list[str], blocks: list[list[str]], room: int) -> bool:
    """Whether lines are whole blocks one after the other, but for ``room`` other lines in each."""
    while left:
        fitting = next((block for block in blocks if differing(left[: len(block)], block) <= room), None)
        if fitting is None:
            return False
        left = left[len(fitting) :]
    return True


def differing(some: list[str], others: list[str]) -> int:
    return sum(one != other for one, other in zip(some, others)) + abs(len(some) - len(others)) * 1000


def damaged(lines: list[str], chance: random.Random, seed: str) -> list[str]:
    """One of the ways in which logs are damaged."""
    kind = chance.randrange(13)
    found = list(lines)
    at = chance.randrange(len(found) + 1)
    begin, end = sorted((at, chance.randrange(len(found) + 1)))
    if kind == 0:
        return found[:at]
    if kind == 1:
        return found[at:]
    if kind == 2:
        return found[:begin] + found[end:]
    if kind == 3:
        return [line for line in found if chance.random() > chance.choice((0.02, 0.1, 0.4))]
    if kind == 4:
        return found[:end] + found[begin:end] + found[end:]
    if kind == 5:
        return found[begin:end] + found[:begin] + found[end:]
    if kind == 6:
        part = found[begin:end]
        chance.shuffle(part)
        return found[:begin] + part + found[end:]
    if kind == 7:
        return interleaved(found, logs.healthy(f"other/{seed}").lines, chance)
    if kind == 8:
        return logs.tagged(found, chance.choice(("mpirun", "prte", "srun")))
    if kind == 9:
        return logs.healthy(f"before/{seed}").lines + found
    if not found:
        return found
    number = chance.randrange(len(found))
    if kind == 10:
        found[number] = "".join(
            chance.choice("0123456789") if letter.isdigit() and chance.random() < 0.2 else letter
            for letter in found[number]
        )
    elif kind == 11:
        line = found[number]
        cut = chance.randrange(len(line) + 1)
        found[number : number + 1] = chance.choice(([line[:cut]], [line[:cut], line[cut:]], [line + "\r"], [line * 2]))
    else:
        words = found[number].split(" ")
        words[chance.randrange(len(words))] = chance.choice(
            ("", "0", "OK", "nan", "-1", "N/A", "\x1b[31m", "\ufffd", "\u00b2", "9" * 40)
        )
        found[number] = " ".join(words)
    return found


def interleaved(one: list[str], other: list[str], chance: random.Random) -> list[str]:
    """Both in their order, mixed."""
    first, second, found = list(one), list(other), []
    while first or second:
        source = first if first and (not second or chance.random() < 0.5) else second
        found += [source.pop(0) for _ in range(min(len(source), chance.choice((1, 1, 3))))]
    return found


def looked_at(text: str) -> dict[str, Any]:
    """Everything that reads a log, none of which may raise."""
    result = parse(text)
    failures(text.split("\n"), "node-a")
    path_findings(result["evidence"], DECLARED)
    return result


def broken(seed: str) -> tuple[str, str] | None:
    """(what is wrong, the log) where a rule of this fuzz is broken."""
    chance = random.Random(seed)
    healthy_lines: list[str] = []
    if chance.randrange(HEALTHY) == 0:
        log = logs.document(seed) if chance.random() < 0.3 else logs.healthy(seed)
        result = looked_at(log.text)
        if result["verdict"] != "pass" or as_asked(result, log.ranks, len(log.hosts)):
            return f"a healthy log is {result['verdict']}: {result['errors']} {result['missing']}", log.text
        return None
    if chance.random() < 0.1:
        log, kind = logs.document(seed, wrong=True), "json"
        lines = [log.text[: chance.randrange(len(log.text))] if chance.random() < 0.7 else log.text]
    else:
        log, kind = logs.sick(seed)
        lines = log.lines
        for turn in range(chance.choice((0, 1, 1, 1, 2, MOST_DAMAGES))):
            lines = damaged(lines, chance, f"{seed}/{turn}")
    text = "\n".join(lines)
    result = looked_at(text)
    if result["verdict"] != "pass":
        return None
    for turn in range(MOST_DAMAGES):
        for other in (logs.healthy(f"before/{seed}/{turn}"), logs.healthy(f"other/{seed}/{turn}")):
            log.runs += other.runs
            healthy_lines += other.lines
    if whole_and_well(lines, log, healthy_lines):
        return None
    if not as_asked(result, log.ranks, log.hosts):
        return f"{kind} passes the gate", text
    if devices(lines) and devices(lines) == devices(log.lines):
        return f"{kind} has the verdict pass", text
    return None


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--count", type=int, default=20000)
    options.add_argument("--seed", type=int, default=None)
    given = options.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {given.count} logs, {len(logs.SICK)} kinds of sick ones", flush=True)
    for number in range(given.count):
        begun = time.monotonic()
        try:
            wrong = broken(f"{seed}/{number}")
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}", ""
        if wrong is None and time.monotonic() - begun > SLOW_S:
            wrong = f"took {time.monotonic() - begun:.0f} s", ""
        if wrong:
            directory = Path(tempfile.mkdtemp(prefix="trainrig-fuzz-"))
            (directory / "log").write_text(wrong[1], encoding="utf-8", errors="replace")
            print(f"log {number} of seed {seed}: {wrong[0]}; kept in {directory}")
            return 1
    print(f"{given.count} logs: none that must not pass passed, every healthy one did, nothing raised or hung")
    return 0


if __name__ == "__main__":
    sys.exit(main())
