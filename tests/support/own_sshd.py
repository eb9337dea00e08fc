"""A real OpenSSH daemon on 127.0.0.1 with keys, port and settings of its own; nothing of the machine's is touched."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import time
from pathlib import Path

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")


class OwnSshd:
    """Started in a directory; the login is the user who runs the tests, by key only."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.directory = directory
        self.port = _free_port()
        for name in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)
        shutil.copy(directory / "user_key.pub", directory / "authorized_keys")
        (directory / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {directory}/host_key\nPidFile none\n"
            f"AuthorizedKeysFile {directory}/authorized_keys\nPasswordAuthentication no\nUsePAM no\n"
            "StrictModes no\nPermitRootLogin yes\n" + "".join(f"{setting}\n" for setting in settings)
        )
        Path("/run/sshd").mkdir(exist_ok=True)  # where the daemon jails what has not logged in yet
        self._log = (directory / "log").open("wb")
        self._process = subprocess.Popen(
            [str(SSHD), "-D", "-e", "-f", str(directory / "sshd_config")], stdout=self._log, stderr=self._log
        )
        self._wait()
        key = (directory / "host_key.pub").read_text().split()[:2]
        (directory / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {' '.join(key)}\n")
        self.client_config("node-x")

    def client_config(self, alias: str, known_hosts: str = "known_hosts") -> Path:
        """An ssh_config under which the daemon is reached by a name."""
        path = self.directory / f"config-{alias}-{known_hosts}"
        path.write_text(
            f"Host {alias}\n  HostName 127.0.0.1\n  Port {self.port}\n  User {getpass.getuser()}\n"
            f"Host *\n  IdentityFile {self.directory}/user_key\n  UserKnownHostsFile {self.directory}/{known_hosts}\n"
        )
        return path

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()

    def _wait(self) -> None:
        for _attempt in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"sshd did not start: {(self.directory / 'log').read_text()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
