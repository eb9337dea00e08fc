"""Kills a run at a moment, the ways it happens: Ctrl-C, SIGKILL of what the user started, everything at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator

from tests.support.checkout import Checkout


def moments(count: int, duration: float, seed: int) -> list[float]:
    """One moment in each of ``count`` equal parts of the run, drawn uniformly within it, in random order."""
    draw = random.Random(seed)
    part = duration / count
    times = [part * (index + draw.random()) for index in range(count)]
    draw.shuffle(times)
    return times


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
