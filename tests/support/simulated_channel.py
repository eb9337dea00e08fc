"""A stand-in for a paramiko channel: a shell on this machine, its streams read without blocking."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios


class SimulatedChannel:
    """`sh` (or another command) behind the few methods of a channel that a look over SSH uses."""

    def __init__(self, *command: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command or ("sh",), stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)

    def sendall(self, data: bytes) -> None:
        self._process.stdin.write(data)

    def recv_ready(self) -> bool:
        return self._ready(self._process.stdout)

    def recv(self, size: int) -> bytes:
        return os.read(self._process.stdout.fileno(), size)

    def recv_stderr_ready(self) -> bool:
        return self._ready(self._process.stderr)

    def recv_stderr(self, size: int) -> bytes:
        return os.read(self._process.stderr.fileno(), size)

    def exit_status_ready(self) -> bool:
        return self._process.poll() is not None

    def recv_exit_status(self) -> int:
        return self._process.wait()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            stream.close()

    @staticmethod
    def _ready(stream) -> bool:
        # Not select: at its end a pipe is ready for ever, a channel is not.
        return struct.unpack("i", fcntl.ioctl(stream.fileno(), termios.FIONREAD, b"\0" * 4))[0] > 0
