"""ssh itself, run for `fab adopt`: the same program, settings and key checks that Ansible will use afterwards.

One master connection a node; every shell goes through it. Nothing ever asks on the terminal: there is none for these
processes. A password is handed over by ssh's own askpass, and only to the place it was given for.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import IO, Any, Mapping, NamedTuple, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.known_hosts import HostKey, keys, place
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.lines import Target
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.reasons import is_reached
from ansible_collections.trainrig.gpu.plugins.plugin_utils.bundle_over_ssh import Sessions, Unreachable

_CONNECT_S = 15
#: Beside the connection itself: a jump host, a slow login, a password by keyboard-interactive.
_LOGIN_S = 60.0
#: No setting of the user's for interactive work may get in the way.
_QUIET = (
    *("ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no", "RequestTTY=no"),
    *("LogLevel=ERROR", "UpdateHostKeys=no", "VisualHostKey=no", "EscapeChar=none", "RemoteCommand=none"),
)
# ssh asks `user@host's password: ` or `(user@host) Password: `. A jump host, the passphrase of a key or a one-time code
# gets no answer.
_ASKPASS = """#!/bin/sh
case $1 in
  "$TRAINRIG_ADOPT_PLACE's password:"*) ;;
  "($TRAINRIG_ADOPT_PLACE) "*[Pp]assword:*) ;;
  *) exit 1 ;;
esac
printf '%s\\n' "$TRAINRIG_ADOPT_PASSWORD"
"""


class Refused(Exception):
    """ssh did not get in; the text is what it said."""


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


class Scan(NamedTuple):
    """What came of a look at a host key: nothing was logged in to. ``found``: the key, where it is a new one."""

    reached: bool
    found: list[HostKey]
    said: str


class Ssh:
    """The way to one node. ``folder``: a private directory, for the socket and for askpass."""

    def __init__(self, target: Target, folder: Path, number: int | str, config: Path | None) -> None:
        self.target = target
        self._folder = folder
        self._socket = folder / str(number)
        self._number = number
        self._config = ["-F", str(config)] if config else []
        self.more_keys: list[str] = []  # tried after those that ssh would try by itself
        self._known_hosts: tuple[Path, ...] = ()
        self._password: str | None = None
        self._master: subprocess.Popen[bytes] | None = None
        self._short: subprocess.Popen[bytes] | None = None
        self.settings = self._settings()

    def _settings(self) -> dict[str, str]:
        """What ssh makes of the line and its own configuration: `ssh -G`."""
        done = _run(["ssh", "-G", *self._words()])
        if done.returncode:
            raise Refused(done.stderr)
        pairs = (line.partition(" ") for line in done.stdout.splitlines())
        return {key: value for key, _space, value in reversed(list(pairs))}

    @property
    def user(self) -> str:
        return self.settings.get("user", self.target.user or "")

    @property
    def port(self) -> int:
        return int(self.settings.get("port", "22"))

    def place(self) -> str:
        """How known_hosts names the node."""
        return self.settings.get("hostkeyalias") or place(self.settings.get("hostname", self.target.host), self.port)

    def _words(self, keys: bool = True) -> list[str]:
        target = self.target
        words = [*self._config, *(["-p", str(target.port)] if target.port else [])]
        offered = [*([target.key] if target.key else []), *self.more_keys] if keys else []
        words += [word for key in offered for word in ("-i", os.path.expanduser(key))]
        words += ["-J", target.jump] if target.jump else []
        words += ["-l", target.user] if target.user else []
        words += [word for option in target.options for word in ("-o", option)]
        return [*words, "-o", f"ConnectTimeout={_CONNECT_S}", "--", target.host]

    def _command(self, options: Sequence[str], *before: str, keys: bool = True) -> list[str]:
        """Our options first: of several values ssh takes the first."""
        return ["ssh", *before, *(word for one in (*options, *_QUIET) for word in ("-o", one)), *self._words(keys)]

    def scan(self, known: Sequence[Path]) -> Scan:
        """Exchange keys and go no further: no way of logging in is tried. A new key comes back, none is believed."""
        new = self._folder / f"{self._number}.key"
        new.unlink(missing_ok=True)
        options = (
            *("BatchMode=yes", "PreferredAuthentications=none", "StrictHostKeyChecking=accept-new"),
            *(f"UserKnownHostsFile={_files([new, *known])}", "HashKnownHosts=no", "CheckHostIP=no"),
            *("ControlPath=none", "VerifyHostKeyDNS=no"),
        )
        done = self._login([*self._command(options), "true"])
        found = keys(new.read_text("utf-8", "replace")) if new.is_file() else []
        reached = done.returncode == 0 or bool(found) or is_reached(done.stderr)
        return Scan(reached, found, done.stderr)

    def connect(self, known_hosts: Path, password: str | None = None) -> None:
        """Log in once; raises Refused."""
        self._known_hosts, self._password = (known_hosts,), password
        own = ("ControlMaster=yes", f"ControlPath={self._socket}", "ControlPersist=no")
        command = self._command((*self._checked(), *own), "-N")
        self._master = _start(command, self._environment(password))
        deadline = time.monotonic() + _CONNECT_S + _LOGIN_S
        while not self._socket.exists():
            if self._master.poll() is not None:
                raise Refused(_end(self._master))
            if time.monotonic() > deadline:
                self.close()
                raise Refused(f"no login within {_CONNECT_S + _LOGIN_S:.0f} s: Timeout")
            time.sleep(0.02)

    def shells(self, command: str = "sh", first: str = "") -> Sessions:
        """Shells on the node. ``first``: a line that the command wants before it becomes one."""

        def open_shell() -> Any:
            if self._master is None or self._master.poll() is not None:
                raise Unreachable("the connection was lost")
            options = (*self._checked(), "ControlMaster=no", f"ControlPath={self._socket}")
            channel = Channel(_start([*self._command(options), command], self._environment(self._password)))
            if first:
                channel.sendall(f"{first}\n".encode())
            return channel

        return Sessions(open_shell)

    def try_again(self, key: str | None) -> str | None:
        """A login as Ansible will do it, without a password and on a connection of its own; what ssh said if not.

        ``key``: with this one alone.
        """
        only = ("IdentitiesOnly=yes", f'IdentityFile="{key}"') if key else ()
        options = ("BatchMode=yes", "PasswordAuthentication=no", "ControlPath=none", *only, *self._checked())
        done = self._login([*self._command(options, keys=key is None), "true"])
        return None if done.returncode == 0 else done.stderr or "ssh said nothing"

    def _login(self, command: Sequence[str]) -> Done:
        """A login that ends by itself; `close` ends it sooner."""
        self._short = _start(command, {"SSH_ASKPASS_REQUIRE": "never"})
        try:
            out, err = self._short.communicate(timeout=_CONNECT_S + _LOGIN_S)
        except subprocess.TimeoutExpired:
            _end(self._short)
            return Done(124, "", "no answer: Timeout")
        return Done(self._short.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def close(self) -> None:
        """End what still runs; the one who waits for it sees that it ended."""
        if self._short is not None and self._short.poll() is None:
            _end(self._short)
        if self._master is not None:
            self._master.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._master.wait(5)
            _end(self._master)
            self._master = None

    def _checked(self) -> tuple[str, ...]:
        asking = ("BatchMode=yes",) if self._password is None else ("BatchMode=no", "NumberOfPasswordPrompts=1")
        known = f"UserKnownHostsFile={_files(self._known_hosts)}"
        return ("StrictHostKeyChecking=yes", known, "CheckHostIP=no", *asking)

    def _environment(self, password: str | None) -> dict[str, str]:
        if password is None:
            return {"SSH_ASKPASS_REQUIRE": "never"}
        helper = self._folder / "askpass"
        if not helper.exists():
            helper.write_text(_ASKPASS)
            helper.chmod(0o700)
        name = self.settings.get("hostkeyalias") or self.settings.get("hostname", self.target.host)
        return {
            # Releases before 8.4 know no SSH_ASKPASS_REQUIRE, they look at DISPLAY.
            "SSH_ASKPASS": str(helper),
            "SSH_ASKPASS_REQUIRE": "force",
            "DISPLAY": os.environ.get("DISPLAY", ":"),
            # What ssh shows of them.
            "TRAINRIG_ADOPT_PLACE": f"{self.user:.30}@{name:.128}",
            "TRAINRIG_ADOPT_PASSWORD": password,
        }


class Channel:
    """A shell behind ssh, with the few methods of a paramiko channel that Sessions use."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if not (process.stdin and process.stdout and process.stderr):
            raise ValueError("a shell is spoken to through pipes")
        self._process, self._in, self._out, self._err = process, process.stdin, process.stdout, process.stderr

    def sendall(self, data: bytes) -> None:
        self._in.write(data)

    def recv_ready(self) -> bool:
        return _waiting(self._out) > 0

    def recv(self, size: int) -> bytes:
        return os.read(self._out.fileno(), size)

    def recv_stderr_ready(self) -> bool:
        return _waiting(self._err) > 0

    def recv_stderr(self, size: int) -> bytes:
        return os.read(self._err.fileno(), size)

    def exit_status_ready(self) -> bool:
        # Its last words may still be on the way when it has ended.
        return self._process.poll() is not None and not self.recv_ready() and not self.recv_stderr_ready()

    def recv_exit_status(self) -> int:
        status = self._process.wait()
        return -1 if status == 255 else status  # ssh's own failure, not the shell's

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._in, self._out, self._err):
            with contextlib.suppress(OSError):
                stream.close()


def find(where: str, files: Sequence[Path]) -> list[HostKey]:
    """The keys that a place has in these known_hosts files, hashed names included."""
    found: list[HostKey] = []
    for path in files:
        if path.is_file():
            done = _run(["ssh-keygen", "-F", where, "-f", str(path)])
            found += [key._replace(place=where, machine="") for key in keys(done.stdout)]
    return list(dict.fromkeys(found))


def user_files(settings: Mapping[str, str]) -> list[Path]:
    """The known_hosts files of ssh's own configuration."""
    names = [*settings.get("userknownhostsfile", "").split(), *settings.get("globalknownhostsfile", "").split()]
    return [Path(name).expanduser() for name in names if name not in ("none", "/dev/null")]


def _files(paths: Sequence[Path]) -> str:
    return " ".join(f'"{path}"' for path in paths)


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        bufsize=0,
        env={**os.environ, "LC_ALL": "C", **environment},
        start_new_session=True,  # no terminal on which ssh could ask
    )


def _run(command: Sequence[str]) -> Done:
    """A program that asks nobody and no other machine."""
    try:
        process = _start(command, {})
    except FileNotFoundError:
        return Done(127, "", f"there is no {command[0]} here: install OpenSSH's client")
    out, err = process.communicate()
    return Done(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> str:
    """End a program with all that it started (the ssh to a jump host holds its pipes); what it had said."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        said = process.communicate(timeout=5)[1]
    except (subprocess.TimeoutExpired, ValueError):  # another thread reads it, and gets what it said
        return ""
    return (said or b"").decode("utf-8", "replace")


def _waiting(stream: IO[bytes]) -> int:
    # Not select: at its end a pipe is ready for ever.
    return int(struct.unpack("i", fcntl.ioctl(stream.fileno(), termios.FIONREAD, b"\0" * 4))[0])
