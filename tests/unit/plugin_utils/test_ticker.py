"""The line that shows a task is running, drawn into a stream that only looks like a terminal."""

import io
import threading

import pytest
from ansible_collections.trainrig.gpu.plugins.plugin_utils import ticker
from ansible_collections.trainrig.gpu.plugins.plugin_utils.ticker import Running, Ticker, seconds


class SimulatedTerminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def running(elapsed, **options):
    one = Running(name="Install", waiting=["n1", "n2", "n3", "n4", "n5"], **options)
    one.started -= elapsed
    return one


@pytest.fixture
def drawn(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    return SimulatedTerminal()


@pytest.mark.parametrize("rich", [True, False])
def test_a_line_says_how_long_and_for_whom(drawn, monkeypatch, rich):
    monkeypatch.setattr(ticker, "HAVE_RICH", rich and ticker.HAVE_RICH)
    line = Ticker(threading.RLock(), print, 30, drawn)
    line._show(running(61))
    for part in ("1 min 01 s", "n1, n2, n3 and 2 more", "Install"):
        assert part in drawn.getvalue()
    line.clear()
    assert drawn.getvalue().endswith("\r\x1b[2K")


def test_a_long_name_is_cut_to_the_width(drawn):
    one = running(5)
    one.name = "x" * 500
    Ticker(threading.RLock(), print, 30, drawn)._show(one)
    assert drawn.getvalue().count("x") < 60


def test_a_short_task_draws_nothing(drawn):
    Ticker(threading.RLock(), print, 30, drawn)._show(running(0.1))
    assert drawn.getvalue() == ""


def test_clearing_what_was_not_drawn_writes_nothing(drawn):
    Ticker(threading.RLock(), print, 30, drawn).clear()
    assert drawn.getvalue() == ""


def test_without_a_terminal_a_line_comes_now_and_then():
    said = []
    line = Ticker(threading.RLock(), said.append, 30, io.StringIO())
    for elapsed in (29, 31, 45, 59, 62, 70):
        line._show(running(elapsed))
    assert said == [
        "... Install: still running after 31.0 s, waiting for n1, n2, n3 and 2 more",
        "... Install: still running after 1 min 02 s, waiting for n1, n2, n3 and 2 more",
    ]
    line.begin(running(0))
    line._show(running(31))
    assert len(said) == 3, "the next task counts from its own start"


def test_the_thread_stops_and_leaves_no_line(drawn):
    line = Ticker(threading.RLock(), print, 30, drawn)
    line.start()
    line.begin(running(5))
    while not line._drawn:
        pass
    line.stop()
    line.stop()
    assert not line._thread.is_alive()
    assert drawn.getvalue().endswith("\r\x1b[2K")


def test_a_question_is_not_drawn_over(drawn):
    line = Ticker(threading.RLock(), print, 30, drawn)
    ticks = threading.Event()
    drawn.flush = ticks.set  # each tick ends with it
    line.begin(running(5, silent=True))
    line.start()
    assert ticks.wait(10)
    line.stop()
    assert drawn.getvalue() == ""


def test_a_closed_pipe_does_not_end_the_run(drawn):
    line = Ticker(threading.RLock(), print, 30, drawn)
    line.begin(running(5))
    drawn.close()
    line._drawn = True
    line.start()
    line.stop()
    assert not line._thread.is_alive()


@pytest.mark.parametrize(
    ("value", "text"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (245, "4 min 05 s"), (7620, "2 h 07 min")]
)
def test_seconds(value, text):
    assert seconds(value) == text
