"""The callback in real runs: on a terminal, without one, and without the terminal library."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Nothing to do
      ansible.builtin.assert: {that: true}
    - name: Left out
      ansible.builtin.command: "true"
      when: false
    - name: A message
      ansible.builtin.debug: {msg: "first line\\nsecond line"}
    - name: Several messages
      ansible.builtin.debug: {msg: "message {{ item }}"}
      loop: [one, two]
    - name: A long task
      ansible.builtin.command: sleep 2
      changed_when: false
      check_mode: false
      when: inventory_hostname == 'b'
    - name: A change
      ansible.builtin.copy: {content: "new text", dest: "{{ playbook_dir }}/{{ inventory_hostname }}", mode: "0600"}
    - name: A failure
      ansible.builtin.fail: {msg: "the cause\\nthe next step"}
      when: inventory_hostname == 'b'
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Report
      trainrig.gpu.report: {directory: reports}
"""
RECAP = r"^{} +: ok=\d+ +changed={} +unreachable=0 +failed={} +skipped=\d+ +rescued=0 +ignored=0"


def arguments(directory, *options):
    (directory / "play.yml").write_text(PLAYBOOK, encoding="utf-8")
    hosts = "all: {hosts: {a: , b: }, vars: {ansible_connection: local}}"
    (directory / "hosts.yml").write_text(hosts, encoding="utf-8")
    return [sys.executable, "-m", "ansible", "playbook", "-i", "hosts.yml", "play.yml", *options]


def environment(**more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "TRAINRIG_"))}
    settings = {"TRAINRIG_PROGRESS_STILL_RUNNING_EVERY": "0.5", "TRAINRIG_PROGRESS_SLOW_TASK": "1.5"}
    # Facts and modules run with the interpreter of this test, so that no other one has to be there.
    settings["ANSIBLE_PYTHON_INTERPRETER"] = sys.executable
    return {**kept, **settings, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "COLUMNS": "100", **more}


def on_terminal(directory, command, env):
    """Run under a pseudo-terminal; returns (exit status, what the terminal got, the same as a person sees it)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(directory)
        os.execvpe(command[0], command, env)
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    _pid, status = os.waitpid(pid, 0)
    raw = b"".join(parts).decode()
    return os.waitstatus_to_exitcode(status), raw, seen(raw)


def seen(raw):
    """Each line as it stands at the end: redrawn parts erased, colours removed."""
    lines = [line.rpartition("\r\x1b[2K")[2] for line in raw.replace("\r\n", "\n").split("\n")]
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(lines))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    directory = tmp_path_factory.mktemp("plain")
    return directory, subprocess.run(
        arguments(directory), cwd=directory, env=environment(), capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    directory = tmp_path_factory.mktemp("terminal")
    return on_terminal(directory, arguments(directory), environment(TERM="xterm-256color"))


def check_what_a_person_must_see(text):
    assert "first line\nsecond line" in text
    assert "ok: [a] => message one" in text
    assert "ok: [a] => message two" in text
    assert "changed: [a]" in text
    assert "fatal: [b]: FAILED!" in text
    assert "the cause\n" in text
    assert re.search(r"^\[A long task\] took \d+\.\d s$", text, re.MULTILINE)
    assert re.search(RECAP.format("a", 1, 0), text, re.MULTILINE)
    assert re.search(RECAP.format("b", 1, 1), text, re.MULTILINE)
    assert re.search(RECAP.format("localhost", 0, 1), text, re.MULTILINE)
    for noise in ("Nothing to do", "Left out", "skipping:"):
        assert noise not in text


def last_lines(text):
    return [line for line in text.splitlines() if line.strip()][-2:]


def test_without_a_terminal(plain):
    directory, run = plain
    assert run.returncode == 2
    check_what_a_person_must_see(run.stdout)
    assert "\x1b" not in run.stdout
    assert "\r" not in run.stdout
    assert re.search(r"^\.\.\. A long task: still running after \d+\.\d s, waiting for b$", run.stdout, re.MULTILINE)
    assert "[WARNING]" not in run.stderr
    verdict, path = last_lines(run.stdout)
    assert verdict == "verdict: incomplete (not reached: a, b)"
    assert path.startswith("report: reports/")
    assert (directory / path.removeprefix("report: ")).is_file()


def test_on_a_terminal(terminal):
    status, raw, text = terminal
    assert status == 2
    check_what_a_person_must_see(text)
    drawn = re.findall(r"\r\x1b\[2K([^\r\n]+)", raw)
    assert any("A long task" in line and "\x1b[1mb" in line for line in drawn), "the running task and who is waited for"
    assert "still running" not in text
    assert "\r" not in text, "no redrawn line is left behind"
    assert last_lines(text)[0] == "verdict: incomplete (not reached: a, b)"
    assert "\x1b[?25l" not in raw, "the cursor is never hidden, so that an interrupt cannot leave it so"


def test_where_the_report_cannot_be_written_the_verdict_is_said(tmp_path):
    (tmp_path / "reports").touch()  # stops root too
    command = arguments(tmp_path, "--start-at-task", "Report")
    run = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert run.returncode == 2
    verdict, trouble = last_lines(run.stdout)
    assert verdict.startswith("verdict: incomplete")
    assert trouble == (
        "report: not written, report_directory: reports: cannot write reports: File exists. "
        "To fix it: name a place you may write to with -e report_directory=DIR."
    )


def test_without_the_terminal_library_in_check_mode_with_diff(tmp_path):
    (tmp_path / "rich.py").write_text("raise ImportError('left out')", encoding="utf-8")
    env = environment(TERM="xterm", PYTHONPATH=str(tmp_path))
    status, raw, text = on_terminal(tmp_path, arguments(tmp_path, "--check", "--diff", "-v"), env)
    assert status == 2
    assert "+new text" in text
    assert "Nothing to do" in text, "-v lists what found nothing to do"
    assert any("A long task" in line for line in re.findall(r"\r\x1b\[2K([^\r\n]+)", raw))
    assert re.search(RECAP.format("a", 1, 0), text, re.MULTILINE)
    assert last_lines(text)[-1] == "verdict: incomplete (not reached: a, b)", "there is no path in check mode"
    assert not (tmp_path / "reports").exists()
