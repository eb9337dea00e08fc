"""`fab adopt` on whole machines: a password, another port, a dead address; then site.yml proves the rest together."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.desk import FAB, ROOT, Desk, typed

pytestmark = [pytest.mark.slow, pytest.mark.skipif(FAB is None, reason="Fabric is not installed")]

PASSWORD = "correct-horse-of-rig"
#: Not the lab's own: a user with a password for both SSH and sudo, as providers give them.
PASSWORD_USER = f"""
useradd --create-home --shell /bin/bash --groups sudo rig
echo 'rig:{PASSWORD}' | chpasswd
echo 'PasswordAuthentication yes' > /etc/ssh/sshd_config.d/00-provider.conf
systemctl restart ssh
"""


def other_port(port):
    return f"echo 'Port {port}' > /etc/ssh/sshd_config.d/00-port.conf\nsystemctl restart ssh\n"


@pytest.fixture
def desk(tmp_path, fresh):
    (tmp_path / "desk").mkdir()
    yield Desk(tmp_path / "desk")
    fresh("node-1", "node-2")  # other tests find them at their own port


@pytest.fixture
def as_root(host):
    """Make a node what the scene wants, before anybody adopts it."""

    def run(name, script):
        done = host(name, sudo=True).run("sh -euc %s", script)
        assert done.rc == 0, done.stderr

    return run


def site(desk, reports, *words):
    """site.yml on what was adopted, by a person who types the password for sudo."""
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "site.yml", "-i", str(desk.inventory)]
    command += ["-e", f"report_directory={reports}", *words]
    configuration = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    return typed(command, ROOT, {"BECOME password": PASSWORD}, seconds=900, **configuration)


def hold_no(word, *directories):
    files = [path for directory in directories for path in directory.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if word.encode() in path.read_bytes()] == []


def test_a_password_another_port_and_a_dead_address(lab, fresh, as_root, desk, tmp_path):
    one, two = fresh("node-1", "node-2")
    as_root("node-1", PASSWORD_USER)
    as_root("node-2", other_port(2222))
    dead = one.address.rpartition(".")[0] + ".251"
    mail = f"""> Hello,
>
> your machines are ready. Password: {PASSWORD}
>
>   1. `ssh rig@{one.address}`
>   2. ssh -p 2222 -i {shlex.quote(str(lab.ssh / "key"))} debian@{two.address}
>   3. root@{dead}
"""
    answers = {"Password of the nodes:": PASSWORD, "[yes/no]": "yes"}
    run = desk.at_a_terminal(mail, answers, "--password")
    assert run.rc == 1, "one of the three is dead"
    assert " adopted " in run.row("node-1") and " adopted " in run.row("node-2")
    assert one.address in run.row("node-1") and "--ask-become-pass" in run.row("node-1")
    assert " failed " in run.row(f"root@{dead}") and "no way there" in run.text
    hosts = desk.hosts()["all"]["hosts"]
    assert list(hosts) == ["node-1", "node-2"] and hosts["node-2"]["ansible_port"] == 2222
    assert [row["trainrig_private_address"] for row in hosts.values()] == [one.address, two.address]

    before = desk.files()
    again = desk.adopt(mail)
    assert again.rc == 1 and " unchanged " in again.row("node-1") and " unchanged " in again.row("node-2")
    assert desk.files() == before, "byte for byte, and no host twice"

    proven = site(desk, tmp_path / "reports", "--ask-become-pass")
    assert proven.rc == 0, proven.text
    proven_together(json.loads((tmp_path / "reports" / "latest" / "report.json").read_text()), one.address)

    once_more = desk.adopt(f"ssh -p 2222 -i {lab.ssh}/key debian@{two.address}")
    assert once_more.rc == 0 and " unchanged " in once_more.row("node-2")
    assert PASSWORD not in run.text + again.text + once_more.text + proven.text
    (desk.directory / "mail").unlink()  # the person's own
    hold_no(PASSWORD, desk.directory, tmp_path / "reports")


def proven_together(report, first):
    assert report["verdict"] == "pass" or {one["rule"] for one in report["findings"]} == {"fleet.clock"}
    assert {name: row["state"] for name, row in report["hosts"].items()} == {"node-1": "ok", "node-2": "ok"}
    assert all("pytorch" in row["applied"] for row in report["hosts"].values())
    jobs = [row for row in report["measurements"] if row["stage"] == "ddp"]
    assert sorted(row["nodes"] for row in jobs) == [1, 1, 2, 2], "each alone, and both as each of them saw it"
    for row in (row for row in jobs if row["nodes"] == 2):
        assert row["hosts"] == ["node-1", "node-2"] and row["backend"] == "gloo" and row["ranks"] == 4
        assert row["gradients_equal"] and row["loss_falls"] and row["loss_last"] < row["loss_first"]
        assert row["status"] == "pass"
    assert report["next"]["rendezvous"].startswith(f"{first}:")


def test_a_node_that_moved_to_another_port_is_the_same_node(lab, fresh, as_root, desk):
    (two,) = fresh("node-2")
    line = f"ssh -i {lab.ssh}/key debian@{two.address}"
    assert desk.adopt(line, "--accept-new-host-keys").rc == 0
    assert "ansible_port" not in desk.hosts()["all"]["hosts"]["node-2"]
    as_root("node-2", other_port(2200))
    run = desk.adopt(line.replace("ssh ", "ssh -p 2200 ", 1), "--accept-new-host-keys")
    assert run.rc == 0 and " updated " in run.row("node-2"), run.text
    hosts = desk.hosts()["all"]["hosts"]
    assert list(hosts) == ["node-2"] and hosts["node-2"]["ansible_port"] == 2200
    assert len((desk.inventory / "known_hosts").read_text().splitlines()) == 1
