"""`fab adopt` against real SSH daemons: from a mail to an inventory, twice the same, and what must be refused."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.desk import FAB, ROOT, Desk
from tests.support.own_node import OwnNode, can_unshare
from tests.support.own_sshd import SSHD, _free_port

pytestmark = [
    pytest.mark.skipif(SSHD is None, reason="no OpenSSH daemon on this machine (package openssh-server)"),
    pytest.mark.skipif(FAB is None, reason="Fabric is not installed"),
    pytest.mark.skipif(not can_unshare(), reason="nodes of their own need root and unshare"),
]


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "desk").mkdir()
    return Desk(tmp_path / "desk")


@pytest.fixture
def node(tmp_path):
    started = []

    def start(name: str, *settings: str, folder: str = "", **options: str) -> OwnNode:
        one = OwnNode(tmp_path / (folder or name), name, *settings, **options)
        started.append(one)
        link = {"ifname": "eth1", "operstate": "UP", "addr_info": [{"scope": "global", "prefixlen": 24}]}
        link["addr_info"][0]["local"] = f"10.9.0.{len(started)}"
        answer = f"case \"$*\" in *addr*) echo '{json.dumps([link])}';; *) echo '[]';; esac"
        one.tool("ip", "simulated_ip: an address of its own", answer)
        for slow in ("mark", "cache"):
            one.tool(
                f"apt-{slow}", f"simulated_apt_{slow}: says nothing; the real one takes most of a look's time", ":"
            )
        return one

    yield start
    for one in started:
        one.stop()


class Forwarder(threading.Thread):
    """Another address of a node, until it is closed."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._to, self._server = port, socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.start()

    def run(self) -> None:
        while True:
            try:
                here, _ = self._server.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", self._to))
            for pair in ((here, there), (there, here)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    @staticmethod
    def _copy(one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass


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
    assert [host["trainrig_private_address"] for host in inventory["all"]["hosts"].values()] == ["10.9.0.1", "10.9.0.2"]
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


def ping(desk: Desk) -> bool:
    command = [Path(sys.executable).parent / "ansible", "all", "-i", desk.inventory, "-m", "ping"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert '"ping": "pong"' in done.stdout, done.stdout + done.stderr
    return done.returncode == 0


def test_ansible_reaches_the_nodes_by_what_was_written(desk, node):
    one = node("gpu-a")
    assert desk.adopt(one.line(), "--accept-new-host-keys").rc == 0
    assert ping(desk)


def fingerprint(node: OwnNode) -> str:
    command = ["ssh-keygen", "-lf", node.directory / "host_key.pub"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[1]


def other_key(place: str, node: OwnNode) -> str:
    """A line of known_hosts that is not the node's."""
    return f"{place} {' '.join((node.directory / 'user_key.pub').read_text().split()[:2])}\n"


def test_nobody_to_ask_is_a_refusal_with_the_command(desk, node):
    one = node("gpu-a")
    run = desk.adopt(f"{one.line()}\nssh://root:hunter2@127.0.0.1:{one.port}\n")
    assert run.rc == 2
    assert fingerprint(one) in run.text and "hunter2" not in run.text
    assert not desk.inventory.exists()
    assert desk.key.with_suffix(".pub").read_text() not in one.authorized_keys.read_text()
    command = next(line for line in run.text.splitlines() if line.startswith("  fab "))
    assert command.endswith(" --accept-new-host-keys")
    words = [FAB, "-r", str(ROOT), *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=desk.directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(desk.hosts()["all"]["hosts"]) == ["gpu-a"]


@pytest.mark.parametrize(("answer", "rc"), [("yes", 0), ("no", 2), ("", 2)])
def test_a_person_is_asked_once(desk, node, answer, rc):
    one, two = node("gpu-a"), node("gpu-b")
    run = desk.at_a_terminal(f"{one.line()}\n{two.line()}\n", {"[yes/no]": answer})
    assert run.rc == rc, run.text
    assert fingerprint(one) in run.text and fingerprint(two) in run.text and run.text.count("[yes/no]") == 1
    assert desk.inventory.exists() == (rc == 0)


def test_a_changed_host_key_is_an_error_for_that_host(desk, node):
    one, two = node("gpu-a"), node("gpu-b")
    lines = f"{one.line()}\n{two.line()}\n"
    assert desk.adopt(lines, "--accept-new-host-keys").rc == 0
    known = desk.inventory / "known_hosts"
    kept = next(line for line in known.read_text().splitlines(keepends=True) if str(two.port) in line)
    known.write_text(other_key(f"[127.0.0.1]:{one.port}", one) + kept)
    before = desk.files()
    run = desk.adopt(lines, "--accept-new-host-keys")
    assert run.rc == 1 and " unchanged " in run.row("gpu-b")
    assert "its host key is not the one in" in run.text
    assert f"ssh-keygen -R '[127.0.0.1]:{one.port}' -f {known}" in run.row("root@127.0.0.1")
    assert desk.files() == before, "nothing is overwritten"


def test_a_key_that_the_user_knows_is_taken_over_and_one_that_differs_is_refused(desk, node):
    one, two = node("gpu-a"), node("gpu-b")
    host_key = " ".join((one.directory / "host_key.pub").read_text().split()[:2])
    own = desk.directory / "user_known_hosts"
    own.write_text(f"[127.0.0.1]:{one.port} {host_key}\n" + other_key(f"[127.0.0.1]:{two.port}", two))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", own], check=True, capture_output=True)  # names hashed
    run = desk.adopt(f"{one.line()}\n{two.line()}\n")
    assert run.rc == 1 and " adopted " in run.row("gpu-a") and f"not the one in {own}" in run.text
    assert f"[127.0.0.1]:{one.port} {host_key} {one.machine_id}\n" == (desk.inventory / "known_hosts").read_text()


def test_the_same_node_is_known_under_another_address(desk, node):
    one = node("gpu-a")
    another = Forwarder(one.port)
    there = one.line().replace(str(one.port), str(another.port))
    run = desk.adopt(f"{there}\n{one.line()}\n", "--accept-new-host-keys")
    assert run.rc == 0 and "same node as gpu-a" in run.row("root@127.0.0.1")
    assert desk.hosts()["all"]["hosts"]["gpu-a"]["ansible_port"] == another.port
    text = (desk.inventory / "hosts.yml").read_text().replace("gpu-a:", "my-name: # mine")
    (desk.inventory / "hosts.yml").write_text(text)
    another.close()
    run = desk.adopt(one.line())
    assert run.rc == 0 and " updated " in run.row("my-name") and "is my-name, which was" in run.text
    assert (desk.inventory / "hosts.yml").read_text() == text.replace(str(another.port), str(one.port))
    assert len((desk.inventory / "known_hosts").read_text().splitlines()) == 1, "the old address is forgotten"


def test_copies_of_one_image_are_two_nodes(desk, node):
    one = node("gpu")
    copy = f"cp {one.directory}/host_key {one.directory.parent}/copy/host_key"
    two = node("gpu", folder="copy", before=copy, machine_id=one.machine_id)
    assert desk.adopt(one.line(), "--accept-new-host-keys").rc == 0
    run = desk.adopt(two.line())
    assert run.rc == 0 and " adopted " in run.row("gpu-2"), "the first still answers at its address"
    assert list(desk.hosts()["all"]["hosts"]) == ["gpu", "gpu-2"]
    run = desk.adopt(f"{one.line()}\n{two.line()}\n")
    assert "gpu-2 and gpu have the same machine-id" in run.text and "the same host key" in run.text


def test_through_a_jump_host(desk, node):
    hop, one = node("hop"), node("gpu-a")
    line = one.line("-J", "hop")
    config = desk.directory / "config"
    to_hop = f"Host hop\n  HostName 127.0.0.1\n  Port {hop.port}\n  User root\n  StrictHostKeyChecking yes\n"
    config.write_text(f"{to_hop}  IdentityFile {hop.directory}/user_key\n{config.read_text()}")
    run = desk.adopt(line, "--accept-new-host-keys")
    assert run.rc == 1 and "the jump host hop did not let us through: its host key is not known here" in run.text
    key = " ".join((hop.directory / "host_key.pub").read_text().split()[:2])
    (desk.directory / "user_known_hosts").write_text(f"[127.0.0.1]:{hop.port} {key}\n")
    assert desk.adopt(line, "--accept-new-host-keys").rc == 0
    assert desk.hosts()["all"]["hosts"]["gpu-a"]["ansible_ssh_common_args"].endswith(" -J hop")
    assert ping(desk)


def hidden(*paths: str) -> str:
    """What a node does at its start so that it does not have these programs."""
    return f"for one in {' '.join(paths)}; do [ ! -e $one ] || mount --bind /dev/null $one; done"


def test_python_and_sudo_are_installed_where_they_are_missing(desk, node):
    """simulated_apt_get gives back the Python that the node hides, and a sudo."""
    pythons = " ".join(sorted({str(path.resolve()) for path in Path("/usr/bin").glob("python3*[0-9]")}))
    one = node("gpu-a", before=hidden(pythons, "/usr/bin/sudo"))
    (one.bin / "sudo").rename(one.bin / "simulated_sudo")
    one.tool(
        "apt-get",
        "simulated_apt_get: what is there, hidden, is installed",
        f'case " $* " in\n*" install "*) echo "$*" >> /srv/installed; for one in {pythons}; do umount $one; done\n'
        "cp /srv/bin/simulated_sudo /srv/bin/sudo;;\nesac",
    )
    run = desk.adopt(one.line(), "--accept-new-host-keys")
    assert run.rc == 0, run.text
    assert "installed python3, sudo" in run.text
    assert (one.home / "installed").read_text().endswith("install --no-install-recommends python3 sudo\n")
    desk.adopt(one.line())
    assert len((one.home / "installed").read_text().splitlines()) == 1


def test_an_installation_that_fails_is_the_nodes_problem(desk, node):
    one, two = node("gpu-a", before=hidden("/usr/bin/sudo")), node("gpu-b")
    (one.bin / "sudo").unlink()
    (one.bin / "apt-get").symlink_to("/bin/false")
    one.tool("sleep", "simulated_sleep: no waiting between the tries", ":")
    run = desk.adopt(f"{one.line()}\n{two.line()}\n", "--accept-new-host-keys")
    assert run.rc == 1 and "apt-get could not install sudo" in run.text and " adopted " in run.row("gpu-b")
    assert list(desk.hosts()["all"]["hosts"]) == ["gpu-b"]


PASSWORD = "hunter2-of-rig"


@pytest.fixture
def by_password(node, tmp_path):
    """A node with a user who has a password, no key and a simulated_sudo that asks for it."""
    folder = tmp_path / "by-password"
    folder.mkdir()
    hashed = subprocess.run(
        ["openssl", "passwd", "-6", PASSWORD], capture_output=True, text=True, check=True
    ).stdout.strip()
    for name, line in (("passwd", f"rig:x:4242:4242::{'/srv'}:/bin/sh"), ("shadow", f"rig:{hashed}:19000::::::")):
        (folder / name).write_text(Path(f"/etc/{name}").read_text() + line + "\n")
        (folder / name).chmod(0o644 if name == "passwd" else 0o600)
    binds = [f"mount --bind {folder}/{name} /etc/{name}" for name in ("passwd", "shadow")]
    one = node(
        "gpu-p",
        "PasswordAuthentication yes",
        folder="by-password",
        before="; ".join([*binds, f"chown -R 4242 {folder}/home"]),
    )
    one.authorized_keys.unlink()
    one.tool(
        "sudo",
        "simulated_sudo: asks for a password",
        'echo "sudo: unable to resolve host" >&2; echo "sudo: a password is required" >&2; exit 1',
    )
    os.chown(one.bin / "sudo", 4242, -1)
    return one


def test_a_password_is_asked_once_and_nowhere_written(desk, node, by_password):
    two = node("gpu-b")
    mail = f"ssh -p {by_password.port} rig@127.0.0.1\n{two.line()}\n"
    run = desk.at_a_terminal(mail, {"Password of the nodes:": PASSWORD}, "--password", "--accept-new-host-keys")
    assert run.rc == 0, run.text
    assert "ARGS=--ask-become-pass" in run.row("gpu-p") and run.text.rstrip().endswith("ARGS=--ask-become-pass")
    assert by_password.authorized_keys.stat().st_mode & 0o777 == 0o600
    assert PASSWORD not in run.text
    written = [path for path in desk.directory.rglob("*") if path.is_file()]
    assert written and not [path for path in written if PASSWORD.encode() in path.read_bytes()]
    again = desk.adopt(mail)
    assert again.rc == 0 and " unchanged " in again.row("gpu-p"), "our key is enough now"


def test_a_wrong_password_is_refused_and_a_password_needs_a_terminal(desk, by_password):
    mail = f"ssh -p {by_password.port} rig@127.0.0.1\n"
    run = desk.at_a_terminal(mail, {"Password of the nodes:": "wrong-one"}, "--password", "--accept-new-host-keys")
    assert run.rc == 1 and "the password and every key were refused" in run.text and "wrong-one" not in run.text
    run = desk.adopt(mail, "--password", "--accept-new-host-keys")
    assert run.rc == 2 and "--password asks on the terminal" in run.text


def test_another_key_file_and_another_network(desk, node):
    one = node("gpu-a")
    mail = one.line().replace(str(one.directory / "user_key"), "/nowhere/key")
    run = desk.adopt(mail, "--accept-new-host-keys")
    assert run.rc == 1 and "there is no key file /nowhere/key here" in run.text and "every key was refused" in run.text
    run = desk.adopt(one.line(), "--private-network", "127.0.0.0/8", "--pool", "left")
    assert run.rc == 0 and "gpu-a: no address in 127.0.0.0/8" in run.text
    assert desk.hosts()["all"]["hosts"]["gpu-a"]["trainrig_pool"] == "left"
    lock = f"Next: ansible-playbook playbooks/lock.yml -i {desk.inventory} && make plan"
    assert lock in run.text and lock in desk.adopt(one.line()).text, "the lock that was copied knows no such pool"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "no address found"),
        (("--hosts", "a:b:c"), "no address found"),
        (("--file", "/nowhere"), "--file /nowhere: No such file"),
        (("--hosts", "a", "--private-network", "10.0.0.0/99"), "10.0.0.0/99"),
    ],
)
def test_bad_command_lines(desk, words, text):
    run = desk.adopt("Hello\n", *words)
    assert run.rc == 2 and text in run.text


def test_a_key_that_is_not_there(desk):
    desk.key = Path("/nowhere")
    run = desk.adopt("", "--hosts", "a")
    assert run.rc == 2 and "--key /nowhere: there is no /nowhere.pub; make it: ssh-keygen -y" in run.text


def test_a_key_that_the_daemon_does_not_read_is_found_out(desk, node):
    one = node("gpu-a", keys_file="elsewhere")
    run = desk.adopt(one.line(), "--accept-new-host-keys")
    assert run.rc == 1 and "a login with it fails: every key was refused" in run.text
    assert "AuthorizedKeysFile" in run.row("root@127.0.0.1") and not (desk.inventory / "hosts.yml").exists()


@pytest.mark.parametrize(
    ("name", "text"), [("prod", "an example to copy"), ("-x", "no name for an inventory"), ("..", "no name")]
)
def test_bad_names(desk, name, text):
    command = [FAB, "-r", ROOT, "adopt", f"--name={name}", "--hosts", "a"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=desk.directory, check=False)
    assert done.returncode == 2 and text in done.stderr
