"""A person who adopts nodes: keys, settings of ssh, inventories, and a terminal at which prompts are answered."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
FAB = shutil.which("fab", path=str(Path(sys.executable).parent)) or shutil.which("fab")


class Run(NamedTuple):
    rc: int
    text: str

    def row(self, host: str) -> str:
        """The host's line of the table at the end."""
        table = self.text[self.text.index("HOST ") :].splitlines()
        return next(line for line in table if line.startswith((host + " ", host + ":")))


def typed(command: list[str], directory: Path, answers: dict[str, str], seconds: float = 120, **more: str) -> Run:
    """Run a command at a terminal of its own; each answer is typed when its prompt comes. `more`: variables."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(directory)
        os.execve(command[0], command, {**os.environ, **more})
    told, waiting, end = b"", dict(answers), time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if select.select([terminal], [], [], 0.2)[0]:
                told += os.read(terminal, 65536)
        except OSError:  # the terminal was closed
            break
        for prompt in [one for one in waiting if one.encode() in told]:
            time.sleep(0.2)  # getpass throws away what was typed before it asks
            os.write(terminal, f"{waiting.pop(prompt)}\n".encode())
    os.close(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert not waiting, f"no prompt came: {list(waiting)}\n{told.decode()}"
    return Run(status, told.decode().replace("\r\n", "\n"))


class Desk:
    """Where a person sits: keys and settings of ssh, and inventories, away from this machine's own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.inventory = directory / "inventories" / "mine"
        self.key = directory / "ours"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key], check=True)
        # Settings as people have them; none may change what is believed or keep a connection open.
        lines = ("StrictHostKeyChecking no", "ControlMaster auto", "ControlPersist yes", "ForwardAgent yes")
        own = "".join(f"  {line}\n" for line in (f"UserKnownHostsFile {directory}/user_known_hosts", *lines))
        (directory / "config").write_text(f"Host *\n{own}")

    def command(self, *words: object) -> list[str]:
        core = [FAB, "-S", self.directory / "config", "-r", ROOT, "adopt", self.inventory]
        return [str(word) for word in (*core, "--key", self.key, "--bundles", self.directory / "bundles", *words)]

    def adopt(self, mail: str, *words: object) -> Run:
        done = subprocess.run(
            self.command(*words),
            input=mail,
            cwd=self.directory,
            capture_output=True,
            text=True,
            start_new_session=True,  # nobody to ask
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Run(done.returncode, done.stdout + done.stderr)

    def at_a_terminal(self, mail: str, answers: dict[str, str], *words: object) -> Run:
        """The same in front of a person, who answers when a prompt comes."""
        (self.directory / "mail").write_text(mail)
        return typed(self.command("--file", self.directory / "mail", *words), self.directory, answers)

    def hosts(self) -> dict:
        return yaml.safe_load((self.inventory / "hosts.yml").read_text())

    def files(self) -> dict[str, bytes]:
        there = (path for path in self.inventory.rglob("*") if path.is_file())
        return {str(path.relative_to(self.inventory)): path.read_bytes() for path in there}
