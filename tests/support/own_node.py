"""A node of its own on this machine: a real OpenSSH daemon in its own mount, process and name spaces (needs root).

It has a name, a machine-id, a home directory (for every login the same) and a PATH of its own, so that several of them
are several nodes. What is put into its `bin` comes before the system's tools; stand-ins there are named simulated_...
in their text.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import getpass
import os
import shlex
import subprocess
import uuid
from pathlib import Path

from tests.support import own_sshd
from tests.support.own_sshd import SSHD, OwnSshd

#: Where a node sees its home directory; a user of its own may go there whatever the directory above it allows.
HOME = "/srv"
_START = """#!/bin/sh
# own_node: sshd where only it sees what it changes
exec unshare --mount --pid --uts --fork --kill-child sh -ec '
mount -t proc proc /proc
printf "%s\\n" {machine_id} > {directory}/machine-id
mount --bind {directory}/machine-id {target}
mount --bind {directory}/home {home}
hostname {name}
{before}
exec {sshd} "$@"' sh "$@"
"""


def can_unshare() -> bool:
    """True where this machine lets us make the spaces of a node."""
    if os.geteuid() != 0:
        return False
    tried = subprocess.run(["unshare", "--mount", "--pid", "--uts", "--fork", "true"], capture_output=True, check=False)
    return tried.returncode == 0 and Path("/etc/machine-id").exists()


class OwnNode(OwnSshd):
    """Reached at 127.0.0.1 and its port, by its user's key, which `directory/user_key` is."""

    def __init__(
        self,
        directory: Path,
        name: str,
        *settings: str,
        before: str = "true",
        machine_id: str = "",
        keys_file: str = ".ssh/authorized_keys",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.machine_id = machine_id or uuid.uuid4().hex
        self.home, self.bin = directory / "home", directory / "home" / "bin"
        for folder in (self.home, self.home / ".ssh", self.bin):
            folder.mkdir(mode=0o755, exist_ok=True)
        if not (self.bin / "sudo").exists():
            self.tool("sudo", "simulated_sudo: root asks nobody", 'shift; exec "$@"')
        start = directory / "start"
        start.write_text(
            _START.format(
                machine_id=self.machine_id,
                directory=shlex.quote(str(directory)),
                target=Path("/etc/machine-id").resolve(),
                home=HOME,
                name=name,
                before=before,
                sshd=SSHD,
            )
        )
        start.chmod(0o755)
        usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        own = (
            "Match all",
            f"AuthorizedKeysFile {HOME}/{keys_file}",
            f"SetEnv HOME={HOME} PATH={HOME}/bin:{usual}",
            *settings,
        )
        before_this, own_sshd.SSHD = own_sshd.SSHD, str(start)
        try:
            super().__init__(directory, *own)
        finally:
            own_sshd.SSHD = before_this
        (self.home / keys_file).write_text((directory / "user_key.pub").read_text())

    @property
    def authorized_keys(self) -> Path:
        return self.home / ".ssh" / "authorized_keys"

    @property
    def login(self) -> str:
        return f"{getpass.getuser()}@127.0.0.1"

    def line(self, *options: str) -> str:
        """The ssh line that a provider's mail would hold."""
        return shlex.join(["ssh", "-p", str(self.port), "-i", str(self.directory / "user_key"), *options, self.login])

    def stop(self) -> None:
        # unshare leaves a polite end to its child, which as the first process of its space may ignore it.
        self._process.kill()
        super().stop()

    def tool(self, name: str, what: str, body: str) -> None:
        """Put a stand-in into the node's PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n# {what}\n{body}\n")
        path.chmod(0o755)
