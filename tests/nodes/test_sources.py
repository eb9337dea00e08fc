"""The layer sources on real nodes of two releases: what apt would install is what the lock says, and drift is named."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import shutil

import pytest
import yaml

NODES = ("node-1", "node-3")
SOURCES, PINS = "/etc/apt/sources.list.d/trainrig-lock.sources", "/etc/apt/preferences.d/00-trainrig-lock"
SETTINGS = """
ansible_become: true
trainrig_stack: {origin: distro, gpus: [L40S], platforms: [debian12-x86_64, debian13-x86_64]}
trainrig_lock:
  index_date: "2026-11-30T00:00:00Z"
  profiles: [{name: cpu, pytorch: "2.13.0", variant: cpu, python: ["3.11"]}]
"""


@pytest.fixture
def inventory(lab, tmp_path):
    """The lab's nodes with the layer sources and nothing else, and the place of its own."""
    place = tmp_path / "inventory"
    shutil.copytree(lab.inventory, place)
    (place / "group_vars/all.yml").write_text(f"{SETTINGS}report_directory: {tmp_path}/reports\n", encoding="utf-8")
    nodes = yaml.safe_load((place / "nodes.yml").read_text(encoding="utf-8"))
    hosts = {name: nodes["all"]["hosts"][name] for name in NODES}
    content = {"all": {**nodes["all"], "hosts": hosts}, "sources": {"hosts": dict.fromkeys(NODES)}}
    (place / "nodes.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return place


@pytest.fixture
def play(ansible, inventory):
    return lambda *words: ansible("ansible-playbook", *words, inventory=inventory)


def locked(inventory, platform):
    systems = yaml.safe_load((inventory / "stack.lock.yml").read_text(encoding="utf-8"))["systems"]
    system = next(row for row in systems if row["platform"] == platform)
    return {row["name"]: row["version"] for row in system["packages"] if row["pin"]}


def candidates(machine, names):
    """What apt on the node would install, asked by the test itself."""
    text = machine.check_output(f"apt-cache policy {' '.join(names)}")
    blocks = [block for block in text.replace("\n ", " ").splitlines() if block]
    return {block.split(":")[0]: block.split("Candidate: ")[1].split()[0] for block in blocks}


def test_apt_on_the_nodes_means_what_the_lock_says(lab, inventory, fresh, play, host):
    fresh(*NODES)
    # A rented node's own list often has free software only.
    for name in NODES:
        host(name, sudo=True).check_output("sed -i 's/ contrib non-free non-free-firmware//' /etc/apt/sources.list")
    play("playbooks/lock.yml").ok()
    first = play("site.yml").ok()
    assert all(first.recap(name)["changed"] > 0 for name in NODES)
    for name, platform in zip(NODES, ("debian12-x86_64", "debian13-x86_64")):
        pinned = locked(inventory, platform)
        assert len(pinned) > 20
        assert candidates(host(name), pinned) == pinned
        ours = (SOURCES, PINS, "/etc/apt/keyrings", "/etc/apt/sources.list", "/etc/trainrig", "/home/debian/.ansible")
        from_boot = ("/var/log", "/var/lib/systemd", "/var/tmp/systemd-private-", "/etc/.pwd.lock", "/var/cache/apt/")
        read = ("/var/lib/apt/",)
        odd = [path for path in lab.node(name).changed() if not path.startswith((*ours, *from_boot, *read))]
        assert odd == []
    second = play("site.yml").ok()
    assert [second.recap(name)["changed"] for name in NODES] == [0, 0]

    one = host("node-1", sudo=True)
    one.check_output(f"rm {PINS}")
    one.check_output(f"sed -i s/non-free-firmware// {SOURCES}")
    plan = play("playbooks/plan.yml").ok()
    assert f"file {PINS} is absent, was present" in plan.output
    assert f"file {SOURCES} was edited" in plan.output
    assert play("site.yml").ok().recap("node-1")["changed"] > 0
    assert candidates(one, locked(inventory, "debian12-x86_64")) == locked(inventory, "debian12-x86_64")
    assert play("site.yml", "--check").ok().recap("node-1")["changed"] == 0
