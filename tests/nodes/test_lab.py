"""The lab's nodes are what the tests on them count on; and a lab leaves its machine as it was."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.support.host_state import assert_as_before, host_state
from tools.lab import machine
from tools.lab.names import LabError, NodeSpec

ROOT = Path(__file__).resolve().parents[2]
NODES = ["node-1", "node-2", "node-3"]
#: What a boot writes on a node by itself.
_BOOT = (
    *("/etc/.pwd.lock", "/etc/.updated", "/var/.updated"),
    *("/var/lib/systemd/", "/var/log/", "/var/tmp/systemd-private-"),
)


@pytest.mark.parametrize("name", NODES)
def test_a_node_is_a_whole_machine(lab, host, name):
    node = host(name)
    assert node.process.get(pid=1).comm == "systemd"
    assert node.check_output("systemctl is-system-running --wait") == "running"
    assert node.service("ssh").is_running and node.service("systemd-networkd").is_running
    version = lab.node(name).spec.base.removeprefix("debian")
    assert (node.system_info.distribution, node.system_info.release.split(".")[0]) == ("debian", version)
    assert node.check_output("hostname") == name
    assert node.check_output("id -u") == "1000"
    assert node.check_output("sudo -n id -u") == "0"
    assert node.check_output("/usr/bin/python3 -c 'import apt; print(1)'") == "1"


def test_nodes_reach_each_other_by_name_and_nothing_else(lab, host):
    for name in NODES:
        node = host(name)
        for other in NODES:
            address = lab.node(other).address
            assert node.check_output(f"getent ahostsv4 {other}").split()[0] == address
            assert node.run(f"ping -c 1 -W 5 {other}").rc == 0, f"{name} -> {other}"
        reply = node.run("ping -c 1 -W 2 192.0.2.77")
        assert "Network is unreachable" in reply.stdout + reply.stderr
        assert node.run("getent hosts example.org").rc != 0


def test_ansible_reaches_them_all_and_becomes_root(ansible):
    run = ansible("ansible", "all", "-m", "ansible.builtin.command", "-a", "id -u").ok()
    assert run.output.count("rc=0") == len(NODES)
    assert [line for line in run.output.splitlines() if line.isdigit()] == ["0"] * len(NODES)


def test_a_node_with_another_host_key_is_refused(lab, tmp_path):
    keys = (lab.ssh / "known_hosts").read_text().splitlines()
    assert len({line.split()[2] for line in keys}) == len(NODES), "each has its own"
    swapped = [f"{one.split()[0]} {other.split(' ', 1)[1]}" for one, other in zip(keys, [*keys[1:], keys[0]])]
    (tmp_path / "known_hosts").write_text("\n".join([*swapped, ""]))
    command = ["ssh", "-F", f"{lab.ssh}/config", "-o", f"UserKnownHostsFile={tmp_path}/known_hosts", "node-1", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 255 and "Host key verification failed" in done.stderr
    assert subprocess.run([*command[:3], *command[5:]], check=False).returncode == 0


def test_packages_come_through_the_cache_once_for_all_nodes(lab, host, fresh):
    fresh("node-1", "node-2")
    for name in ("node-1", "node-2"):
        node = host(name, sudo=True)
        node.check_output("apt-get -q update")
        node.check_output("apt-get -q -y install --no-install-recommends hello")
        assert node.package("hello").is_installed
        assert "/usr/bin/hello" in lab.node(name).changed()
    fresh("node-1", "node-2")
    assert not host("node-1").package("hello").is_installed


def test_this_machine_s_pip_settings_reach_the_nodes(lab, host):
    for name in NODES:
        node = host(name)
        settings = node.file("/etc/pip.conf").content_string
        assert "proxy = http://" in settings
        for directory in lab.node(name).directories:
            assert set(node.file(directory).listdir()) == {path.name for path in Path(directory).iterdir()}
            denied = node.run(f"sudo -n touch {directory}/written")
            assert "Read-only file system" in denied.stderr


def test_a_fresh_node_s_disk_holds_nothing_but_what_a_boot_writes(lab, fresh, host):
    fresh("node-1", "node-3")
    for name in ("node-1", "node-3"):
        host(name).check_output("systemctl is-system-running --wait")
        odd = [path for path in lab.node(name).changed() if not path.startswith(_BOOT)]
        assert odd == []


def test_snapshot_and_reset(lab, host, fresh):
    (node,) = fresh("node-1")
    root = host("node-1", sudo=True)
    root.check_output("mkdir /srv/made; echo one > /srv/made/file; rm /etc/sysctl.conf || rm /etc/issue; sync")
    gone = [path for path, how in node.changed().items() if how == "removed" and path.startswith("/etc/")]
    assert gone in (["/etc/sysctl.conf"], ["/etc/issue"])
    assert node.changed()["/srv/made/file"] == "written"
    node.snapshot("kept")
    assert node.changed() == {} and node.snapshots == ["kept"]
    start(node)
    root.check_output("echo two > /srv/made/file")
    assert node.changed()["/srv/made/file"] == "written"
    node.reset("kept")
    start(node)
    assert root.file("/srv/made/file").content_string == "one\n"
    assert not root.file(gone[0]).exists
    with pytest.raises(LabError, match="no snapshot 'other'"):
        node.reset("other")
    fresh("node-1")
    assert node.snapshots == []
    assert not root.file("/srv/made").exists and root.file(gone[0]).exists


def test_power_cut_and_reboot(lab, host, fresh):
    (node,) = fresh("node-2")
    root = host("node-2", sudo=True)
    boot = root.file("/proc/sys/kernel/random/boot_id").content_string
    machine_id = root.file("/etc/machine-id").content_string
    root.check_output("echo kept > /srv/file; sync; systemd-run --unit=busy sleep 600")
    others = {other.name: other.leader for other in lab.nodes if other.name != "node-2"}
    node.kill()
    assert not node.running and machine.group_members(node.machine) == []
    start(node)
    after = root.file("/proc/sys/kernel/random/boot_id").content_string
    assert after != boot
    assert root.file("/srv/file").content_string == "kept\n"
    assert root.file("/etc/machine-id").content_string == machine_id
    assert not root.service("busy").is_running
    root.run("systemctl reboot")
    assert machine.wait(lambda: _boot_id(root) not in (None, after), 60)
    assert {other.name: other.leader for other in lab.nodes if other.name != "node-2"} == others


def start(node):
    node.start()
    node.wait_ready()


def _boot_id(root):
    try:
        return root.file("/proc/sys/kernel/random/boot_id").content_string
    except RuntimeError:  # no connection
        return None


def test_each_node_has_a_control_group_of_its_own(lab):
    """In one that all share, a unit's stop on one node would wait for, or kill, processes of another."""
    groups = {}
    for node in lab.nodes:
        lines = Path(f"/proc/{node.leader}/cgroup").read_text().splitlines()
        groups[node.name] = next(line for line in lines if line.startswith("0::")).removesuffix("/init.scope")
    assert len(set(groups.values())) == len(NODES)
    assert not [one for one in groups.values() for other in groups.values() if other.startswith(f"{one}/")]


class TestTheWholeLab:
    """Up, again, other, killed, removed: with a second lab beside the tier's."""

    SPECS = (NodeSpec(1, "debian12"),)

    def test_up_brings_what_is_there_to_what_is_asked_for(self, other, tmp_path):
        target = tmp_path / "inventory"
        other.up(self.SPECS, target)
        first = other.node("node-1").leader
        other.up(self.SPECS, target)
        assert other.node("node-1").leader == first, "a second time nothing is to be done"
        other.up([*self.SPECS, NodeSpec(2, "debian13")], target)
        assert sorted(yaml.safe_load((target / "nodes.yml").read_text())["all"]["hosts"]) == ["node-1", "node-2"]
        config = f"{other.ssh}/config"
        for source, to in (("node-1", "node-2"), ("node-2", "node-1")):
            command = ["ssh", "-F", config, source, "ping", "-c1", "-W5", to]
            assert subprocess.run(command, capture_output=True, check=False).returncode == 0, "both know both"
        second = other.node("node-2").leader
        other.up([NodeSpec(1, "debian13"), NodeSpec(2, "debian13")], target)
        assert other.node("node-1").spec.base == "debian13" and other.node("node-2").leader == second
        other.up(self.SPECS, target)
        assert [node.spec for node in other.nodes] == list(self.SPECS)

    def test_removed_it_leaves_the_machine_and_other_labs_as_they_were(self, lab, other, tmp_path):
        before = host_state()
        other.up([*self.SPECS, NodeSpec(2, "debian13")], tmp_path / "inventory")
        assert host_state() != before, "or this test sees nothing"
        assert other.clean()
        assert_as_before(before, other.name)
        assert not (tmp_path / "inventory").exists()
        assert not other.clean(), "a second time there is nothing"
        lab.node("node-1").wait_ready(1)

    @pytest.mark.parametrize("seconds", [0.6, 1.2, 1.8, 2.4])
    def test_killed_half_way_both_can_be_run_again(self, other, tmp_path, seconds):
        before = host_state()
        target = tmp_path / "inventory"
        command = [
            sys.executable,
            "-m",
            "tools.lab",
            "up",
            f"--name={other.name}",
            "--nodes=2",
            f"--inventory={target}",
        ]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as running:
            time.sleep(seconds)
            running.kill()
        if seconds < 1.5:
            other.up(self.SPECS, target)
            other.node("node-1").wait_ready(1)
        with subprocess.Popen(
            [*command[:3], "clean", f"--name={other.name}"], cwd=ROOT, stdout=subprocess.PIPE
        ) as running:
            time.sleep(seconds / 2)
            running.kill()
        other.clean()
        assert_as_before(before, other.name)
        assert not target.exists()


def test_the_last_lab_takes_everything_with_it(lab, before):
    """The tier's own lab goes, and the machine is as before it. Whoever comes next finds it made anew."""
    specs, inventory = [node.spec for node in lab.nodes], lab.inventory
    assert f"-{lab.name}-" in str(host_state()), "or this test sees nothing"
    try:
        assert lab.clean()
        assert_as_before(before, lab.name)
    finally:
        lab.up(specs, inventory)
