"""Kills a run at a moment, the ways it happens: Ctrl-C, SIGKILL of what the user started, everything at once.

`Draw` says what is killed next where several runs are killed at the same time, each kind in each place at least once.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.support.checkout import Checkout


def moments(count: int, duration: float, seed: int) -> list[float]:
    """One moment in each of ``count`` equal parts of the run, drawn uniformly within it, in random order."""
    draw = random.Random(seed)
    part = duration / count
    times = [part * (index + draw.random()) for index in range(count)]
    draw.shuffle(times)
    return times


class Kill(NamedTuple):
    """`share`: how much of the run, or of `place` where one is named, has gone by."""

    number: int
    kind: str
    place: str
    share: float


class Draw:
    """Moments uniform over the run, kinds in turn; the last ones go where a kind has not hit yet.

    Threads take turns: `take` the next one, then tell whether it was a `hit` (and where) or a `miss`.
    """

    def __init__(self, count: int, seed: int, kinds: Sequence[str], places: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._count, self._kinds = count, kinds
        self._shares, self._draw = moments(count, 1.0, seed), random.Random(seed + 1)
        self._open = [(kind, place) for place in places for kind in kinds]
        self._under_way: list[Kill] = []
        self._again: list[Kill] = []
        self._attempts = 0
        self.hits: list[tuple[Kill, str]] = []

    @property
    def open(self) -> list[tuple[str, str]]:
        """What no kill has hit yet: (kind, place)."""
        return list(self._open)

    def take(self) -> Kill | None:
        with self._lock:
            self._attempts += 1
            number = len(self.hits) + len(self._under_way)
            aimed = [(kill.kind, kill.place) for kill in self._under_way if kill.place]
            wanted = [one for one in self._open if one not in aimed]
            if self._attempts > 4 * self._count or (number >= self._count and not wanted):
                return None
            if wanted and number + len(wanted) >= self._count:
                kill = Kill(number, *wanted[0], self._draw.random())
            elif self._again:
                kill = self._again.pop()
            else:
                kill = Kill(number, self._kinds[number % len(self._kinds)], "", self._shares[number])
            self._under_way.append(kill)
            return kill

    def hit(self, kill: Kill, place: str) -> None:
        with self._lock:
            self._under_way.remove(kill)
            self.hits.append((kill, place))
            self._open = [one for one in self._open if one != (kill.kind, place)]

    def miss(self, kill: Kill) -> None:
        with self._lock:
            self._under_way.remove(kill)
            self._again += [] if kill.place else [kill._replace(share=self._draw.random())]


def descendants(pid: int) -> Iterator[int]:
    """Every process below this one, those in sessions of their own too."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stream:
                parent = int(stream.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    todo = list(children.get(pid, []))
    while todo:
        current = todo.pop()
        yield current
        todo += children.get(current, [])


def start(checkout: Checkout, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        checkout.command("make", "site", f"ARGS={' '.join([checkout.options, *arguments])}"),
        cwd=checkout.path,
        env=checkout.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[bytes], way: str) -> None:
    if way == "ctrl-c":
        os.killpg(process.pid, signal.SIGINT)
    elif way == "sigkill":  # what the user started dies; what it left on the node may still be running
        os.killpg(process.pid, signal.SIGKILL)
    else:  # everything stops, as in a power cut
        for pid in [*descendants(process.pid), process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    process.wait(timeout=120)


WAYS = ("ctrl-c", "sigkill", "everything")


def killed_run(checkout: Checkout, after_s: float, way: str, *arguments: str) -> bool:
    """Start a run and kill it; False when it had ended before."""
    process = start(checkout, *arguments)
    try:
        process.wait(timeout=after_s)
        return False
    except subprocess.TimeoutExpired:
        kill(process, way)
        return True


def measured_run(checkout: Checkout, *arguments: str) -> float:
    """Seconds of one whole run."""
    started = time.monotonic()
    assert start(checkout, *arguments).wait(timeout=1200) == 0
    return time.monotonic() - started
