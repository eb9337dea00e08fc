"""bounded.py: a budget that holds, and no process left behind, wherever it went."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.unit.roles.verify.scripts import FILES, script

bounded = script("bounded")
SLEEPS = "import time; time.sleep(300)"


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def in_another_session(pid_file):
    """Code that starts a sleeper in a session of its own, as torchrun does with its workers."""
    return (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {SLEEPS!r}], start_new_session=True)\n"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid))\n"
    )


def test_a_good_end(tmp_path):
    outcome = bounded.run([sys.executable, "-c", "print('hello')"], 60, tmp_path / "log")
    assert (outcome.rc, outcome.timed_out, outcome.tail, outcome.left_running) == (0, False, ["hello"], [])


@pytest.mark.parametrize(("code", "status"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_a_bad_end(tmp_path, code, status):
    assert bounded.run([sys.executable, "-c", code], 60, tmp_path / "log").rc == status


def test_the_budget_ends_workers_in_other_sessions_too(tmp_path):
    code = in_another_session(tmp_path / "pid") + SLEEPS
    outcome = bounded.run([sys.executable, "-c", code], 1.5, tmp_path / "log")
    assert outcome.timed_out and outcome.rc == 124
    assert not alive(int((tmp_path / "pid").read_text()))


def test_a_worker_that_ignores_the_polite_request(tmp_path):
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEPS
    outcome = bounded.run([sys.executable, "-c", code], 1.0, tmp_path / "log", grace_s=0.3)
    assert outcome.timed_out


def test_what_outlives_its_launcher_is_stopped_and_told(tmp_path):
    outcome = bounded.run([sys.executable, "-c", in_another_session(tmp_path / "pid")], 60, tmp_path / "log")
    assert outcome.rc == 0 and not outcome.timed_out
    assert [text.split()[0] for text in outcome.left_running] == [(tmp_path / "pid").read_text()]
    assert not alive(int((tmp_path / "pid").read_text()))


def test_an_outer_run_finds_what_an_inner_run_started(tmp_path):
    """ddp_check.py uses `run` itself, and is run by bounded.py."""
    worker = in_another_session(tmp_path / "pid") + SLEEPS
    inner = (
        f"import sys, pathlib; sys.path.insert(0, {str(FILES)!r}); import bounded\n"
        f"bounded.run([sys.executable, '-c', {worker!r}], 300, pathlib.Path('/dev/null'))\n"
    )
    outcome = bounded.run([sys.executable, "-c", inner], 2.0, tmp_path / "log")
    assert outcome.timed_out
    assert not alive(int((tmp_path / "pid").read_text()))


def test_listening_sockets_are_seen(tmp_path):
    code = (
        "import socket, time\n"
        "one = socket.create_server(('127.0.0.1', 0)); two = socket.create_server(('::', 0), family=socket.AF_INET6)\n"
        "time.sleep(1.5)\n"
    )
    outcome = bounded.run([sys.executable, "-c", code], 60, tmp_path / "log")
    assert {one["address"] for one in outcome.listening} == {"127.0.0.1", "::"}, outcome.tail


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0100007F", "127.0.0.1"),
        ("00000000", "0.0.0.0"),
        ("0" * 32, "::"),
        ("00000000000000000000000001000000", "::1"),
        ("0000000000000000FFFF00000100007F", "::ffff:127.0.0.1"),
    ],
)
@pytest.mark.skipif(sys.byteorder != "little", reason="written as a little-endian kernel prints it")
def test_the_kernel_s_addresses(text, address):
    assert bounded.readable_address(text) == address


def started(tmp_path, *options):
    command = [
        sys.executable,
        str(FILES / "bounded.py"),
        "--seconds=300",
        f"--report={tmp_path / 'run.json'}",
        *options,
        "--",
    ]
    return [*command, sys.executable, "-c", in_another_session(tmp_path / "pid") + SLEEPS]


def wait_for(condition):
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.05)
    return False


def written(path):
    return path.exists() and path.read_text().isdigit()


def test_a_request_to_end_stops_everything(tmp_path):
    process = subprocess.Popen(started(tmp_path))
    assert wait_for(lambda: written(tmp_path / "pid"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert not alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("session", [False, True])
def test_when_its_starter_is_killed_it_ends_too(tmp_path, session):
    """Nobody can read the result any more: ansible-playbook was killed, the connection is gone."""
    starter = f"import subprocess; subprocess.run({started(tmp_path, '--follow')!r})"
    process = subprocess.Popen([sys.executable, "-c", starter], start_new_session=session)
    assert wait_for(lambda: written(tmp_path / "pid"))
    process.kill()
    process.wait()
    assert wait_for(lambda: not alive(int((tmp_path / "pid").read_text())))


def test_the_report(tmp_path):
    command = [sys.executable, str(FILES / "bounded.py"), "--seconds=60", f"--report={tmp_path / 'r.json'}", "--"]
    assert subprocess.run([*command, sys.executable, "-c", "raise SystemExit(3)"], check=False).returncode == 3
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["rc"] == 3 and report["command"][0] == sys.executable
    assert set(report) >= {"timed_out", "seconds", "tail", "listening", "left_running"}
    assert os.access(tmp_path / "r.log", os.R_OK)


def look_while(tmp_path, looks, seconds, *, every=0.2):
    """Run something that takes `seconds` and look at it meanwhile; what was written, round by round."""
    command = [
        *(sys.executable, str(FILES / "bounded.py"), "--seconds=60", f"--report={tmp_path / 'r.json'}"),
        *(f"--looks={json.dumps(looks)}", f"--look-every={every}", "--"),
        *(sys.executable, "-c", f"import time; time.sleep({seconds})"),
    ]
    assert subprocess.run(command, check=False).returncode == 0
    assert json.loads((tmp_path / "r.json").read_text())["left_running"] == []
    found = sorted(tmp_path.glob("look.*.json"), key=lambda path: int(path.suffixes[0][1:]))
    assert sorted(path.name for path in tmp_path.glob("look.*")) == sorted(path.name for path in found)
    return [json.loads(path.read_text()) for path in found]


def test_tools_are_asked_while_it_runs(tmp_path):
    healthy = {"one": [sys.executable, "-c", "print('hot')"], "bad": [sys.executable, "-c", "raise SystemExit(9)"]}
    rounds = look_while(tmp_path, {**healthy, "none": ["/nowhere/tool"]}, 3)
    assert len(rounds) > 1
    assert rounds[0] == {"one": {"text": "hot\n", "rc": 0, "err": ""}, "bad": {"text": "", "rc": 9, "err": ""}}


def test_a_tool_that_hangs_is_ended_with_the_run_and_costs_nothing(tmp_path):
    code = f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); {SLEEPS}"
    (said,) = look_while(tmp_path, {"stuck": [sys.executable, "-c", code]}, 3)
    assert said == {} and not alive(int((tmp_path / "pid").read_text()))


def test_nobody_is_asked_without_looks(tmp_path):
    assert look_while(tmp_path, {}, 1) == []
