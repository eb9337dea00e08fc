"""What a lab needs of its machine, processes by their words, one command at a time."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tools.lab import __main__ as command_line
from tools.lab import machine
from tools.lab.names import LabError

ROOT = Path(__file__).resolve().parents[4]
PATHS = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/collections"}


def test_without_root_it_is_told(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "sudo make lab" in machine.missing()


def test_what_to_install_is_told(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    absent = {"mmdebstrap", "systemd-nspawn"}
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None if name in absent else f"/usr/bin/{name}")
    if not os.path.exists("/etc/debian_version"):
        assert "needs Debian" in machine.missing()
        return
    assert machine.missing().endswith("apt-get install mmdebstrap systemd-container.")
    absent.clear()
    monkeypatch.setattr(machine, "_forbidden", lambda: None)
    assert machine.missing() is None


@pytest.mark.skipif(os.geteuid() != 0 or machine.missing() is not None, reason="no lab is possible here at all")
@pytest.mark.parametrize(
    ("lowered", "words"),
    [
        (["setpriv", "--bounding-set", "-sys_admin"], "may not mount anything here"),
        (["setpriv", "--bounding-set", "-net_admin"], "may not make a network cable here"),
        (["setpriv", "--bounding-set", "-mknod"], "may not make device nodes here"),
        (["unshare", "--user", "--map-root-user"], "may not make device nodes here"),
    ],
    ids=["as in a container", "without its network", "without devices", "as root of nobody else"],
)
def test_what_even_root_may_not_do_is_told(lowered, words):
    program = "from tools.lab import machine; print(machine.missing())"
    done = subprocess.run(
        [*lowered, sys.executable, "-c", program], cwd=ROOT, env=PATHS, capture_output=True, text=True
    )
    assert words in done.stdout and "Operation not permitted" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("\n") == 1


def test_control_groups_that_are_read_only_are_told(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "_TRIALS", {})
    monkeypatch.setattr(machine, "has_service_manager", lambda: False)
    monkeypatch.setattr(machine, "mounts", lambda: [(str(tmp_path), "cgroup2")])
    assert machine._forbidden() is None
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert f"may not make control groups here ({tmp_path} is read-only)" in machine._forbidden()


def test_the_command_line_says_it_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert command_line.main(["up"]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("error: the lab needs root") and printed.err.count("\n") == 1
    assert command_line.main(["up", "--nodes", "0"]) == 1
    assert "--nodes 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command_line.main(["up", "--nodes", "two"])


def test_a_command_that_fails_is_named_with_its_last_line():
    with pytest.raises(LabError, match=r"sh -c .*: second"):
        machine.run("sh", "-c", "echo first >&2; echo second >&2; exit 3")
    with pytest.raises(LabError, match="no-such-program: not on this machine"):
        machine.run("no-such-program")
    assert machine.run("cat", text="in\n") == "in\n"


def test_processes_are_known_by_whole_arguments_and_ended():
    word = f"--trainrig-test-{os.getpid()}"
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program, word], stdout=subprocess.PIPE) as started:
        started.stdout.readline()
        assert machine.processes(word) == [started.pid]
        assert machine.processes(word[:-1]) == []
        assert machine.processes(word, program=os.path.basename(sys.executable)) == [started.pid]
        assert machine.processes(word, program="systemd-nspawn") == []
        machine.end(lambda: machine.processes(word), 0.2)
    assert started.returncode == -signal.SIGKILL
    assert machine.processes(word) == []


def test_what_is_detached_is_nobody_s_child(tmp_path):
    word = f"60.{os.getpid()}"
    machine.detach("sleep", word, output=tmp_path / "log")
    assert machine.wait(lambda: machine.processes(word, program="sleep") != [], 5)
    (pid,) = machine.processes(word, program="sleep")
    assert pid not in machine.children(os.getpid())
    machine.end(lambda: machine.processes(word), 5)


def test_a_second_command_waits_for_the_first(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "_LOCK", tmp_path / "lock")
    order = []

    def second():
        with machine.only_one():
            order.append("second")

    with machine.only_one():
        other = threading.Thread(target=second)
        other.start()
        other.join(0.2)
        order.append("first")
    other.join(5)
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_wait_ends():
    assert machine.wait(lambda: True, 0)
    assert not machine.wait(lambda: False, 0.05)
