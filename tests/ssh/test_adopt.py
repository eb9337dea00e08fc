"""`fab adopt` against real SSH daemons: from a mail to an inventory, twice the same, and what must be refused."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.support.own_node import OwnNode, can_unshare
from tests.support.own_sshd import SSHD, _free_port

ROOT = Path(__file__).resolve().parents[2]
FAB = shutil.which("fab", path=str(Path(sys.executable).parent)) or shutil.which("fab")

pytestmark = [
    pytest.mark.skipif(SSHD is None, reason="no OpenSSH daemon on this machine (package openssh-server)"),
    pytest.mark.skipif(FAB is None, reason="Fabric is not installed"),
    pytest.mark.skipif(not can_unshare(), reason="nodes of their own need root and unshare"),
]


class Run(NamedTuple):
    rc: int
    text: str

    def row(self, host: str) -> str:
        """The host's line of the table at the end."""
        table = self.text[self.text.index("HOST ") :].splitlines()
        return next(line for line in table if line.startswith((host + " ", host + ":")))


class Desk:
    """Where a person sits: keys and settings of ssh, and inventories, away from this machine's own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.inventory = directory / "inventories" / "mine"
        self.key = directory / "ours"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key], check=True)
        (directory / "config").write_text(f"Host *\n  UserKnownHostsFile {directory}/user_known_hosts\n")

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

    def hosts(self) -> dict:
        return yaml.safe_load((self.inventory / "hosts.yml").read_text())

    def files(self) -> dict[str, bytes]:
        there = (path for path in self.inventory.rglob("*") if path.is_file())
        return {str(path.relative_to(self.inventory)): path.read_bytes() for path in there}


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "desk").mkdir()
    return Desk(tmp_path / "desk")


@pytest.fixture
def node(tmp_path):
    started = []

    def start(name: str, *settings: str, folder: str = "", **options: str) -> OwnNode:
        started.append(OwnNode(tmp_path / (folder or name), name, *settings, **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def dead() -> str:
    return f"ssh -p {_free_port()} root@127.0.0.1"


def test_from_a_mail_to_an_inventory_and_twice_the_same(desk, node):
    one, two = node("gpu-a"), node("GPU-B.example.com", folder="b")
    mail = f"> Hello,\n>\n> 1. `{one.line()}`\n> 2. {two.line()}.\n> Password: hunter2\n\n{dead()}\nRegards\n"
    run = desk.adopt(mail, "--accept-new-host-keys")
    assert run.rc == 1, "one of the three is dead"
    for host in ("gpu-a", "gpu-b"):
        assert " adopted " in run.row(host) and "debian" in run.row(host)
    assert "failed" in run.row("root@127.0.0.1") and "nothing listens on that port" in run.text
    assert run.text.rstrip().endswith(f"Next: make plan INVENTORY={desk.inventory}")
    inventory = desk.hosts()
    assert list(inventory["all"]["hosts"]) == ["gpu-a", "gpu-b"]
    assert inventory["all"]["hosts"]["gpu-a"]["ansible_port"] == one.port
    assert list(inventory["pytorch"]["hosts"]) == list(inventory["verify"]["hosts"]) == ["gpu-a", "gpu-b"]
    assert (desk.directory / "bundles" / "mine" / "gpu-a" / "os_release").read_bytes() == Path(
        "/etc/os-release"
    ).read_bytes()
    assert one.authorized_keys.read_text().count((desk.key.with_suffix(".pub")).read_text()) == 1
    before = desk.files()
    assert {"hosts.yml", "known_hosts", "stack.lock.yml", "group_vars/all.yml"} <= set(before)
    again = desk.adopt(mail)
    assert " unchanged " in again.row("gpu-a") and " unchanged " in again.row("gpu-b")
    assert desk.files() == before, "byte for byte"
    assert len(one.authorized_keys.read_text().splitlines()) == 2
    told = run.text + again.text + repr(before)
    assert "hunter2" not in told and "PRIVATE KEY" not in told


def test_ansible_reaches_the_nodes_by_what_was_written(desk, node):
    one = node("gpu-a")
    assert desk.adopt(one.line(), "--accept-new-host-keys").rc == 0
    command = [Path(sys.executable).parent / "ansible", "all", "-i", desk.inventory, "-m", "ping"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert '"ping": "pong"' in done.stdout, done.stdout + done.stderr


def test_nobody_to_ask_is_a_refusal_with_the_command(desk, node):
    one = node("gpu-a")
    run = desk.adopt(f"{one.line()}\nssh://root:hunter2@127.0.0.1:{one.port}\n")
    assert run.rc == 2
    print_of = subprocess.run(
        ["ssh-keygen", "-lf", one.directory / "host_key.pub"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert print_of in run.text and "--accept-new-host-keys" in run.text and "hunter2" not in run.text
    assert not desk.inventory.exists()
    assert desk.key.with_suffix(".pub").read_text() not in one.authorized_keys.read_text()
