"""Three planted faults on a real node: every way to look names them and nothing else; the healthy twin is silent."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
import shutil
from typing import NamedTuple

import pytest
import yaml

NODES = ("node-1", "node-2")
#: The driver's user space as Debian has it, with what it depends on; none of it needs a kernel module to be installed.
PACKAGES = "libcuda1 libnvidia-ml1"
RULES = {"packages.hold_incomplete", "machine.shared_memory_small", "network.own_name_is_loopback"}
PLANTED = {("node-1", rule) for rule in RULES}
#: What a busy machine does to two nodes that are looked at one after the other.
BUSY = {"fleet.clock"}


class Scene(NamedTuple):
    """What is wrong with the sick node."""

    free: str  # the one package of the family without a hold
    shared_memory: int  # MiB
    name: str

    @property
    def script(self) -> str:
        return f"""
apt-mark unhold {self.free}
mount -o remount,size={self.shared_memory}M /dev/shm
hostnamectl hostname {self.name}
sed -i '/[[:space:]]node-1$/d' /etc/hosts
echo '127.0.1.1 {self.name}' >> /etc/hosts
"""


SCENES = [Scene("libnvidia-ml1", 64, "node-1"), Scene("libcuda1", 32, "trainer-7")]
FAMILY = r"^(nvidia-|libnvidia-|libcuda1$)"
INSTALL = f"""
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends {PACKAGES}
dpkg-query -W -f '${{Package}}\\n' | grep -E '{FAMILY}' | xargs apt-mark hold
"""


@pytest.fixture
def twins(lab, fresh, host, tmp_path):
    """Two nodes with the whole family on hold, and an inventory of the two."""
    fresh(*NODES)
    for name in NODES:
        done = host(name, sudo=True).run("sh -euc %s", INSTALL)
        assert done.rc == 0, done.stdout + done.stderr
    place = tmp_path / "inventory"
    shutil.copytree(lab.inventory, place)
    nodes = yaml.safe_load((place / "nodes.yml").read_text(encoding="utf-8"))
    hosts = {name: nodes["all"]["hosts"][name] for name in NODES}
    groups = {layer: {"hosts": dict.fromkeys(NODES)} for layer in ("pytorch", "verify")}
    content = {"all": {**nodes["all"], "hosts": hosts}, **groups}
    (place / "nodes.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return place


def loud(rows):
    """(host, rule) of what asks for something, from (severity, host, rule)."""
    return {(name, rule) for severity, name, rule in rows if severity != "info" and rule not in BUSY}


def test_each_way_to_look_names_them_and_nothing_else(twins, ansible, host, tmp_path):
    def play(*words):
        return ansible("ansible-playbook", *words, inventory=twins)

    def diagnosed(*words):
        output = tmp_path / "findings.json"
        output.unlink(missing_ok=True)
        play("playbooks/diagnose.yml", "-e", f"output={output}", *words)
        found = json.loads(output.read_text(encoding="utf-8"))["findings"]
        return loud((one["severity"], one["host"], one["rule"]) for one in found), {one["summary"] for one in found}

    assert diagnosed()[0] == set(), "healthy twins"
    for scene in SCENES:
        done = host("node-1", sudo=True).run("sh -euc %s", f"apt-mark hold {PACKAGES}\n{scene.script}")
        assert done.rc == 0, done.stderr
        found, said = diagnosed()
        assert found == PLANTED
        assert [text for text in said if text.endswith(f"; not held: {scene.free}")]
        assert f"/dev/shm has {scene.shared_memory} MiB, one rank needs 128" in said
        assert f"{scene.name} resolves to itself (127.0.1.1) on this node" in said

        bundles = tmp_path / f"bundles-{scene.name}"
        play("playbooks/observe.yml", "-e", f"bundles={bundles}").ok()
        assert diagnosed("-e", f"bundles={bundles}") == (PLANTED, said)

        plan = play("playbooks/plan.yml").ok()  # as site.yml looks before its first change
        assert loud(re.findall(r"^(refuse|fail|warn) +(\S+) +(\S+)", plan.output, re.M)) == PLANTED
