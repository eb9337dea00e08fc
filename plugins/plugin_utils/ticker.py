"""Shows that a long task is still running: a line that is redrawn on a terminal, a plain line now and then elsewhere.

One thread, started by the callback and stopped by it. Everything it writes is written under the lock that Ansible's
own Display holds while it writes and forks, so that lines never mix and no worker inherits a half-held lock.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TextIO

try:
    from rich.console import Console
    from rich.spinner import Spinner
    from rich.text import Text
except ImportError:  # progress is then a plain line; nothing else changes
    HAVE_RICH = False
else:
    HAVE_RICH = True

#: A task shorter than this never shows a line on a terminal: no flicker.
FIRST_DRAW_S = 0.5
REDRAW_S = 0.1
#: Without a terminal the thread only flushes what was written and looks at the clock.
PLAIN_TICK_S = 1.0
HOSTS_NAMED = 3


def seconds(elapsed: float) -> str:
    """12.3 s, 4 min 05 s, 2 h 07 min: as precise as a person needs."""
    if elapsed < 60:
        return f"{elapsed:.1f} s"
    minutes, rest = divmod(int(elapsed), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


@dataclass
class Running:
    """The task that runs now and the hosts that have not answered yet."""

    name: str
    started: float = field(default_factory=time.monotonic)
    waiting: list[str] = field(default_factory=list)
    silent: bool = False  # an interactive task owns the terminal

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def hosts(self) -> str:
        named = ", ".join(self.waiting[:HOSTS_NAMED])
        more = len(self.waiting) - HOSTS_NAMED
        return f"{named} and {more} more" if more > 0 else named


def is_terminal(stream: TextIO) -> bool:
    """True where a line can be redrawn."""
    try:
        return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    except ValueError:  # closed
        return False


class Ticker:
    """Draws `current` until told otherwise; `clear` before anything else is printed."""

    def __init__(self, lock: Any, say: Callable[[str], None], every_s: float, stream: TextIO | None = None) -> None:
        self._lock = lock
        self._say = say
        self._every_s = every_s
        self._stream = stream or sys.stdout
        self._terminal = is_terminal(self._stream)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._drawn = False
        self._next_line_s = every_s
        self._pid = os.getpid()
        self.current: Running | None = None
        self._spinner = self._console = None
        if HAVE_RICH and self._terminal:
            unicode_ok = "utf" in (getattr(self._stream, "encoding", "") or "").lower()
            self._console = Console(file=self._stream, highlight=False)
            self._spinner = Spinner("dots" if unicode_ok else "line")

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="trainrig-progress", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread and leave no line behind; safe to call twice and from atexit."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2)
        self.clear()

    def begin(self, running: Running | None) -> None:
        with self._lock:
            self.clear()
            self.current = running
            self._next_line_s = self._every_s

    def clear(self) -> None:
        """Erase the drawn line. Only in the process that drew it: workers inherit this object when they fork."""
        if os.getpid() != self._pid or not self._drawn:
            return
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
        self._drawn = False

    def _run(self) -> None:
        tick = REDRAW_S if self._terminal else PLAIN_TICK_S
        while not self._stop.wait(min(tick, self._every_s)):
            # A closed pipe or terminal must not end the run with a traceback from this thread.
            with self._lock, contextlib.suppress(OSError, ValueError):
                running = self.current
                if running is not None and not running.silent and running.waiting:
                    self._show(running)
                self._stream.flush()

    def _show(self, running: Running) -> None:
        elapsed = running.elapsed()
        if self._terminal:
            if elapsed >= FIRST_DRAW_S:
                self._stream.write("\r\x1b[2K" + self._line(running, elapsed))
                self._drawn = True
        elif elapsed >= self._next_line_s:
            self._next_line_s = elapsed + self._every_s
            self._say(f"... {running.name}: still running after {seconds(elapsed)}, waiting for {running.hosts()}")

    def _line(self, running: Running, elapsed: float) -> str:
        width = max(shutil.get_terminal_size((80, 24)).columns - 1, 10)
        # Elapsed time and hosts come first: a long task name is what may be cut.
        plain = f"{seconds(elapsed)}  {running.hosts()}  {running.name}"
        if self._console is None or self._spinner is None:
            return plain[:width]
        line = Text.assemble(
            self._spinner.render(time.monotonic()),
            " ",
            (seconds(elapsed), "cyan"),
            "  ",
            (running.hosts(), "bold"),
            "  ",
            running.name,
        )
        line.truncate(width, overflow="ellipsis")
        with self._console.capture() as captured:
            self._console.print(line, end="", soft_wrap=True)
        return captured.get()
