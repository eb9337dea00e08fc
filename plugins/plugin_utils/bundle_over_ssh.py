"""Makes bundles of nodes by plain commands over SSH, for nodes where Ansible cannot run (no Python on them).

The same probes, assembled by the same code as on the node itself: only the four ways to reach a node differ.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import queue
import re
import secrets
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.probes import Options, table
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.source import (
    ADMIN_PATH,
    BYTES_LIMIT,
    TIMED_OUT,
    LiveSource,
    Output,
    write_bundle,
)

#: Runs a script by `sh` on a node, within so many seconds.
Execute = Callable[[str, float], Output]
#: Nodes that are asked at the same time.
NODES = 16
#: What a question takes beside the command itself: the way there and back, and the start of a shell.
_SLACK_S = 15.0
_FILE_S = 15.0
#: How long a question waits for one of the sessions that the daemon allows.
_WAIT_S = 120.0
_MISSING, _NOT_A_FILE = 44, 45
# The shell has read the whole function before its first command runs, so that no command can read on in it.
_FRAME = """main() (
LC_ALL=C LANG=C LANGUAGE=C SYSTEMD_COLORS=0 SYSTEMD_PAGER= TERM=dumb PATH=$PATH:{path}
export LC_ALL LANG LANGUAGE SYSTEMD_COLORS SYSTEMD_PAGER TERM PATH
cd /
{body}
)
main </dev/null
"""
# A command that hangs must die on the node, not only for us. busybox and old releases know no -k.
_COMMAND = """command -v {name} >/dev/null 2>&1 || exit 127
if timeout -k 1 9 true 2>/dev/null; then timeout -k 1 {seconds} {command}
elif timeout 9 true 2>/dev/null; then timeout {seconds} {command}
else {command}
fi"""


class Unreachable(Exception):
    """A node that could not be asked; the text is for people."""


class Got(NamedTuple):
    """What came of one node."""

    host: str
    directory: Path | None
    outputs: dict[str, Output]
    asked: int
    seconds: float
    error: str | None = None


class SshSource(LiveSource):
    """A node behind an `Execute`. `~` in a path is the home of the user who is logged in there."""

    def __init__(self, execute: Execute, timeout_s: float | None = None) -> None:
        super().__init__(timeout_s)
        self._execute = execute

    def run(self, argv: tuple[str, ...], timeout_s: float) -> Output | None:
        seconds = max(1, int(timeout_s))
        body = _COMMAND.format(name=shlex.quote(argv[0]), seconds=seconds, command=shlex.join(argv))
        output = self._execute(framed(body), seconds + _SLACK_S)
        # 124 says GNU timeout; the shell says 137 or 143 where busybox ended the command.
        if output.rc in (TIMED_OUT, 137, 143):
            return output._replace(rc=TIMED_OUT, err=f"{output.err}no answer within {seconds} s\n")
        return output

    def names(self, directory: str) -> list[str] | None:
        output = self._execute(framed(f"ls -1A {shlex.quote(directory)} 2>/dev/null"), _FILE_S)
        return sorted(output.text.splitlines()) if output.rc == 0 else None

    def paths(self, pattern: str) -> list[str]:
        body = f'for f in {_unquoted(pattern)}; do if [ -e "$f" ]; then printf \'%s\\n\' "$f"; fi; done'
        return sorted(self._execute(framed(body), _FILE_S).text.splitlines())

    def text(self, path: str) -> str | None:
        there = _unquoted(path)
        body = f"[ -e {there} ] || exit {_MISSING}\n[ -f {there} ] || exit {_NOT_A_FILE}\ncat {there}"
        output = self._execute(framed(body), _FILE_S)
        if output.rc == _MISSING:
            return None
        if output.rc:
            why = output.err.strip().rpartition(": ")[2]
            raise OSError(output.rc, "not a regular file" if output.rc == _NOT_A_FILE else why or "cannot be read")
        return output.text


def framed(body: str) -> str:
    """A script for `sh` that gives the same environment to every question."""
    return _FRAME.format(path=ADMIN_PATH, body=body)


def _unquoted(path: str) -> str:
    """A path or pattern for the shell: quoted but for its pattern signs, `~/` as the home directory."""
    home, rest = ('"$HOME"/', path[2:]) if path.startswith("~/") else ("", path)
    return home + "".join(part if part in "*?" else shlex.quote(part) for part in re.split(r"([*?])", rest) if part)


class Sessions:
    """An Execute over shells on one node, each of which answers one question after the other.

    One session a question would start the login shell, with all that its files do, a hundred times.
    """

    def __init__(self, open_shell: Callable[[], Any]) -> None:
        """``open_shell`` gives a paramiko channel in which `sh` runs, or raises."""
        self._open = open_shell
        self._idle: queue.LifoQueue[Any] = queue.LifoQueue()

    def __call__(self, script: str, timeout_s: float) -> Output:
        channel = self._take()
        end = "end-" + secrets.token_hex(8)
        # The shell itself says where an answer ends, on both streams.
        question = f"{script}printf '\\n{end} %d\\n' \"$?\"; printf '\\n{end}\\n' >&2\n"
        # Where there is no shell, its last words say why; they are read below.
        with contextlib.suppress(OSError):
            channel.sendall(question.encode())
        answer, again = _answer(channel, f"\n{end}".encode(), time.monotonic() + timeout_s)
        if again:
            self._idle.put(channel)
        else:
            # The command may still run in there: nothing else is to be asked in this shell.
            channel.close()
        if answer.rc < 0:
            raise Unreachable("the connection was lost")
        return answer

    def _take(self) -> Any:
        deadline = time.monotonic() + _WAIT_S
        wait_s = 0.0
        while True:
            try:
                return self._idle.get(wait_s > 0, wait_s or None)
            except queue.Empty:
                wait_s = 0.5
            try:
                return self._open()
            except OSError as error:
                # The daemon may allow fewer sessions than there are questions (MaxSessions): one gets free.
                if time.monotonic() > deadline:
                    raise Unreachable(f"no session: {error}") from error


def _answer(channel: Any, end: bytes, deadline: float) -> tuple[Output, bool]:
    """What the shell prints up to the end mark, and whether it can be asked again."""
    out, err = bytearray(), bytearray()
    while time.monotonic() < deadline and len(out) < BYTES_LIMIT:
        moved = False
        while channel.recv_ready() and len(out) < BYTES_LIMIT:
            out.extend(channel.recv(65536))
            moved = True
        while channel.recv_stderr_ready() and len(err) < BYTES_LIMIT:
            err.extend(channel.recv_stderr(65536))
            moved = True
        at, err_at = (buffer.rfind(end, max(0, len(buffer) - len(end) - 8)) for buffer in (out, err))
        if at >= 0 and err_at >= 0 and out.endswith(b"\n"):
            return Output(_decoded(out[:at]), int(out[at + len(end) :]), _decoded(err[:err_at])), True
        if not moved and channel.exit_status_ready():
            return Output(_decoded(out), channel.recv_exit_status() or 1, _decoded(err)), False
        if not moved:
            time.sleep(0.005)
    if len(out) >= BYTES_LIMIT:
        return Output(_decoded(out), 0, f"{_decoded(err)}cut after {BYTES_LIMIT} bytes\n"), False
    return Output(_decoded(out), TIMED_OUT, _decoded(err)), False


def _decoded(text: bytearray) -> str:
    return text.decode("utf-8", "replace")


def over_transport(transport: Any, shell: str = "sh") -> Sessions:
    """The Execute of a node to which a paramiko transport is open."""

    def open_shell() -> Any:
        if not transport.is_active():
            raise Unreachable("the connection was lost")
        try:
            channel = transport.open_session(timeout=_SLACK_S)
            channel.exec_command(shell)
        except Exception as error:
            # paramiko's own exceptions have no base that can be named without importing it.
            raise OSError(str(error)) from error
        return channel

    return Sessions(open_shell)


def collect(
    host: str,
    connect: Callable[[], tuple[Execute, Callable[[], None]]],
    directory: Path,
    options: Options = Options(),  # noqa: B008 - Options is immutable
    timeout_s: float | None = None,
) -> Got:
    """Ask one node everything and write its bundle. ``connect`` gives the Execute and how to end it."""
    began = time.monotonic()
    try:
        execute, disconnect = connect()
        try:
            name = execute(framed("uname -n"), _FILE_S)
            if name.rc:
                raise Unreachable(f"no POSIX shell answers: {name.err.strip() or name.text.strip() or name.rc}")
            probes = table(options._replace(hostname=name.text.strip()))
            outputs = SshSource(execute, timeout_s).read(probes.values())
        finally:
            disconnect()
        target = directory / file_name(host)
        write_bundle(target, outputs, probes)
    except (Unreachable, OSError) as error:
        return Got(host, None, {}, 0, time.monotonic() - began, str(error))
    return Got(host, target, outputs, len(probes), time.monotonic() - began)


def collect_all(hosts: Sequence[str], one: Callable[[str], Got]) -> list[Got]:
    """`one` of every host, several at a time, in the order of the hosts."""
    with ThreadPoolExecutor(max_workers=NODES) as pool:
        return list(pool.map(one, hosts))


def file_name(host: str) -> str:
    """The directory of a host's bundle: its name without the user, safe as a file name."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", host.rpartition("@")[2]).strip("_")
    return plain if plain.strip(".") else "unnamed"


def same_name(hosts: Sequence[str]) -> list[str]:
    """The first hosts whose bundles would lie in the same directory."""
    for host in hosts:
        same = [other for other in hosts if file_name(other) == file_name(host)]
        if len(same) > 1:
            return same
    return []


def shown(results: Iterable[Got]) -> str:
    """The table of what was got."""
    rows: list[tuple[str, ...]] = [("HOST", "GOT", "FAILED", "NO ANSWER", "ABSENT", "SECONDS", "BUNDLE")]
    remarks = []
    for got in results:
        if got.error is not None:
            rows.append((got.host, "-", "-", "-", "-", f"{got.seconds:.1f}", "none"))
            remarks.append(f"{got.host}: {got.error}")
            continue
        late = sorted(name for name, output in got.outputs.items() if output.rc == TIMED_OUT)
        failed = sorted(name for name, output in got.outputs.items() if output.rc not in (0, TIMED_OUT))
        absent = got.asked - len(got.outputs)
        numbers = (len(got.outputs) - len(late) - len(failed), len(failed), len(late), absent)
        rows.append((got.host, *map(str, numbers), f"{got.seconds:.1f}", str(got.directory)))
        named = (("failed", failed), ("no answer", late))
        remarks.extend(f"{got.host}: {what}: {', '.join(names)}" for what, names in named if names)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, *([""] if remarks else []), *remarks])
