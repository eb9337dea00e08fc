"""The person in front of `fab adopt`: questions on the terminal itself, so that a mail may come by standard input."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import getpass
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.table import printable
from ansible_collections.trainrig.gpu.plugins.plugin_utils.bundle_over_ssh import NODES
from ansible_collections.trainrig.gpu.plugins.plugin_utils.ticker import Running, Ticker

Item = TypeVar("Item")
Result = TypeVar("Result")
_EVERY_S = 15.0


class NoTerminal(Exception):
    """There is nobody to ask."""


class Progress:
    """Says what is done, and draws what is still running."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._ticker = Ticker(self._lock, self.say, _EVERY_S)

    def __enter__(self) -> Progress:
        self._ticker.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ticker.stop()

    def say(self, text: str) -> None:
        with self._lock:
            self._ticker.clear()
            print(printable(text), flush=True)

    def each(
        self, what: str, items: Sequence[Item], name: Callable[[Item], str], work: Callable[[Item], Result]
    ) -> list[Result]:
        """`work` of every item, several at a time; the results in the order of the items."""
        running = Running(name=what, waiting=[name(item) for item in items])

        def one(item: Item) -> Result:
            try:
                return work(item)
            finally:
                with self._lock:
                    running.waiting.remove(name(item))

        pool = ThreadPoolExecutor(max_workers=NODES)
        try:
            with self._shown(running):
                return list(pool.map(one, items))
        finally:
            # After Ctrl-C nobody waits for an installation on a node: its connection is closed by the caller.
            pool.shutdown(wait=False, cancel_futures=True)

    @contextlib.contextmanager
    def _shown(self, running: Running) -> Iterator[None]:
        self._ticker.begin(running)
        try:
            yield
        finally:
            self._ticker.begin(None)


def confirm(question: str) -> bool:
    """Yes or no, asked on the terminal; anything but yes is no."""
    try:
        with open("/dev/tty", "r+b", buffering=0) as terminal:
            terminal.write(f"{question} [yes/no] ".encode())
            answer = b""
            while not answer.endswith(b"\n"):
                read = terminal.read(1)
                if not read:
                    break
                answer += read
    except OSError as error:
        raise NoTerminal from error
    return answer.strip().lower() in (b"y", b"yes")


def secret(question: str) -> str:
    """A password, asked on the terminal without echo; never read from standard input."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError as error:
        raise NoTerminal from error
    return getpass.getpass(question)
