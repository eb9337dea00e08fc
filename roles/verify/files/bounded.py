"""Run one command inside a time budget and leave no process of it behind.

torchrun starts each worker in a session of its own, so killing torchrun (or its
process group) can leave workers running. Every process started here inherits an
environment variable that names this run; whatever still carries it at the end is
stopped, wherever it sits in the process tree.

    python bounded.py --seconds 60 --report run.json -- python -m torch.distributed.run train.py

The exit status is the command's, or 124 where the budget ran out. Linux, standard library only.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

MARK = "TRAINRIG_VERIFY_RUN"
TIMED_OUT = 124  # what coreutils timeout returns
POLL_S = 0.02
LISTEN_EVERY_S = 0.5
TAIL_LINES = 60


@dataclass
class Outcome:
    """How a command ended."""

    command: list[str]
    rc: int
    timed_out: bool
    elapsed_s: float
    seconds: float
    tail: list[str] = field(default_factory=list)
    #: Addresses that processes of this run listened on: [{address, port}].
    listening: list[dict[str, object]] = field(default_factory=list)
    #: Processes that had to be stopped after the command itself had ended.
    left_running: list[str] = field(default_factory=list)


def members(mark: str) -> list[int]:
    """Return the pids of every live process that carries the mark (not this one)."""
    found = []
    needle = mark.encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # gone meanwhile, or somebody else's
            if needle in (entry / "environ").read_bytes() and not _is_zombie(entry):
                found.append(int(entry.name))
    return found


def _is_zombie(entry: Path) -> bool:
    return (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"


def name_of(pid: int) -> str:
    """Return the command line of a process, for a person."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        words = "?"
    return f"{pid} {words[:200]}"


def stop(mark: str, grace_s: float) -> list[str]:
    """Stop every process of the run: SIGTERM, then SIGKILL. Return what was still there."""
    names: dict[int, str] = {}
    for number, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        end = time.monotonic() + patience
        while True:
            pids = members(mark)
            if not pids:
                return list(names.values())
            for pid in pids:
                first_time = pid not in names
                names.setdefault(pid, name_of(pid))
                if first_time or number == signal.SIGKILL:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
            if time.monotonic() > end:
                break
            time.sleep(POLL_S)
    return list(names.values())


def ancestors() -> list[int]:
    """Return the pids above this process inside its session, and the one that started the session's first process.

    Ansible gives each task's process a session of its own, and so does sshd: what lies further up (the shell that
    ansible-playbook was typed into) may end without harm.
    """
    chain, pid, session = [], os.getppid(), os.getsid(0)
    while pid > 1:
        chain.append(pid)
        try:
            if os.getsid(pid) != session:
                break
            pid = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            break
    return chain


def listeners(pids: list[int]) -> set[tuple[str, int]]:
    """Return (address, port) of every TCP socket on which one of the processes listens."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    target = os.readlink(entry)
                    if target.startswith("socket:["):
                        inodes.add(target[8:-1])
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in inodes:  # 0A = LISTEN
                    address, _, port = words[1].partition(":")
                    found.add((readable_address(address), int(port, 16)))
    return found


def readable_address(text: str) -> str:
    """Turn the kernel's hexadecimal address (32-bit words in host order) into the usual notation."""
    import socket

    raw = bytes.fromhex(text)
    packed = b"".join(
        raw[i : i + 4][::-1] if sys.byteorder == "little" else raw[i : i + 4] for i in range(0, len(raw), 4)
    )
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def last_lines(path: Path, count: int = TAIL_LINES) -> list[str]:
    """Return the end of a log, long lines cut."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - 64 * 1024))
            lines = stream.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [line[:240] for line in lines if line.strip()][-count:]


def run(
    command: list[str],
    seconds: float,
    log: Path,
    env: dict[str, str] | None = None,
    on_poll: Callable[[], None] | None = None,
    grace_s: float = 3.0,
) -> Outcome:
    """Run the command for at most `seconds`; its output goes to `log`. `on_poll` is called while it runs."""
    mark = uuid.uuid4().hex
    environment = dict(os.environ if env is None else env)
    # A run inside a run carries both marks, so that the outer one still finds everything.
    environment[MARK] = ",".join(filter(None, [environment.get(MARK), mark]))
    start = time.monotonic()
    heard: set[tuple[str, int]] = set()
    timed_out = False
    next_listen = start
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        while process.poll() is None:
            now = time.monotonic()
            if now - start > seconds:
                timed_out = True
                break
            if now >= next_listen:
                heard |= listeners(members(mark))
                next_listen = now + LISTEN_EVERY_S
            if on_poll is not None:
                on_poll()
            time.sleep(POLL_S)
    finally:
        ended_by_itself = process.poll() is not None
        stopped = stop(mark, grace_s)
        rc = process.wait()
    return Outcome(
        command=command,
        rc=TIMED_OUT if timed_out else (rc if rc >= 0 else 128 - rc),
        timed_out=timed_out,
        elapsed_s=round(time.monotonic() - start, 3),
        seconds=seconds,
        tail=last_lines(log),
        listening=[{"address": address, "port": port} for address, port in sorted(heard)],
        left_running=stopped if ended_by_itself else [],
    )


class Follower:
    """Ends this run when a process above it ends, as when ansible-playbook is killed or its connection breaks.

    Such a run has nobody left to tell its result to, and would only keep the node busy.
    """

    def __init__(self) -> None:
        self.chain = ancestors()
        self.next_look = 0.0

    def __call__(self) -> None:
        if time.monotonic() >= self.next_look:
            self.next_look = time.monotonic() + LISTEN_EVERY_S
            if ancestors() != self.chain:
                raise SystemExit(128 + signal.SIGHUP)


class Looker:
    """Asks tools about the hardware while the command runs, again and again, without waiting for them.

    What a round said is written to look.N.json: {name: {text, rc, err}}. They carry the mark of this process's own run,
    if it is inside one, not that of the command: a tool that hangs is ended here and is no process left behind.
    """

    def __init__(self, commands: dict[str, list[str]], every_s: float, place: Path, patience_s: float = 60.0) -> None:
        self.commands, self.every_s, self.place, self.patience_s = commands, every_s, place, patience_s
        self.running: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
        self.said: dict[str, dict[str, object]] = {}
        self.round, self.next_look, self.give_up = 0, time.monotonic() + every_s, 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if self.running:
            self.collect()
            if now > self.give_up:
                self.end()
        elif self.commands and now >= self.next_look:
            self.round, self.said = self.round + 1, {}
            self.next_look, self.give_up = now + self.every_s, now + self.patience_s
            for name, command in self.commands.items():
                self.start(name, command)

    def start(self, name: str, command: list[str]) -> None:
        path = self.place / f"look.{name}"
        try:
            with path.open("wb") as stream:
                process = subprocess.Popen(
                    command,
                    stdout=stream,
                    stderr=subprocess.DEVNULL,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except OSError:  # there is no such tool
            path.unlink(missing_ok=True)
        else:
            self.running[name] = (process, path)

    def collect(self) -> None:
        for name in [name for name, (process, _path) in self.running.items() if process.poll() is not None]:
            process, path = self.running.pop(name)
            self.said[name] = {"text": path.read_text(errors="replace"), "rc": process.returncode, "err": ""}
            path.unlink()
        if not self.running:
            self.write()

    def end(self) -> None:
        """Stop what still looks. A tool that the kernel does not let go of is not waited for."""
        for process, path in self.running.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
            path.unlink()
        if self.running:
            self.running.clear()
            self.write()

    def write(self) -> None:
        (self.place / f"look.{self.round}.json").write_text(json.dumps(self.said))


def stop_on_signals() -> None:
    """Turn a request to end into an exception, so that `run` stops its processes on the way out."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, required=True, help="time budget")
    parser.add_argument("--report", type=Path, help="write how it ended here, as JSON")
    parser.add_argument("--log", type=Path, help="write the command's output here (default: beside the report)")
    parser.add_argument("--follow", action="store_true", help="end when a process that this one was started by ends")
    parser.add_argument("--looks", type=json.loads, default={}, help="JSON {name: command}: asked while it runs")
    parser.add_argument("--look-every", type=float, default=10.0, help="seconds between two rounds of looks")
    parser.add_argument("command", nargs="+", help="after --")
    options = parser.parse_args()
    stop_on_signals()
    log = options.log or (options.report.with_suffix(".log") if options.report else Path(os.devnull))
    if log != Path(os.devnull):
        log.unlink(missing_ok=True)
    looker = Looker(options.looks, options.look_every, log.parent)
    follower = Follower() if options.follow else None

    def hook() -> None:
        looker()
        if follower:
            follower()

    try:
        outcome = run(options.command, options.seconds, log, on_poll=hook)
    finally:
        looker.end()
    if options.report:
        options.report.write_text(json.dumps(asdict(outcome), indent=1))
    return outcome.rc


if __name__ == "__main__":
    sys.exit(main())
