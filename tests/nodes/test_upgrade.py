"""Upgrades of real nodes: one after the other, a bad canary stops it, rollback brings the old pins, real reboots."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
import yaml

from tests.nodes.conftest import BIN
from tests.support.checkout import Run
from tests.support.simulated_layers import LAYERS, copy

pytestmark = pytest.mark.slow

NODES = ("node-1", "node-2")
PINS, APT = "/etc/apt/preferences.d/00-trainrig-lock", "/usr/bin/apt-cache"
_BASE, DRIVER, _AFTER, LAST = LAYERS
STACK = {"origin": "distro", "gpus": ["L40S"], "platforms": ["debian12-x86_64"], "driver": "none"}
LOCK = {
    "index_date": "2026-11-30T00:00:00Z",
    "profiles": [{"name": "cpu", "pytorch": "2.13.0", "variant": "cpu", "python": ["3.11"]}],
}


@pytest.fixture
def inventory(lab, tmp_path):
    """The lab's first two nodes in the groups that are given, with the variables that are given."""

    def make(groups, **variables):
        place = tmp_path / "inventory"
        if not place.exists():
            shutil.copytree(lab.inventory, place, ignore=shutil.ignore_patterns("stack.lock.yml", "requirements"))
        nodes = yaml.safe_load((lab.inventory / "nodes.yml").read_text(encoding="utf-8"))["all"]
        hosts = {name: nodes["hosts"][name] for name in NODES}
        content = {"all": {**nodes, "hosts": hosts}, **{group: {"hosts": dict.fromkeys(NODES)} for group in groups}}
        (place / "nodes.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
        settings = {"ansible_become": True, "report_directory": f"{tmp_path}/reports", **variables}
        (place / "group_vars/all.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        return place

    return make


def pinned(place):
    """What a lock pins, read by the test itself."""
    (system,) = yaml.safe_load((place / "stack.lock.yml").read_text(encoding="utf-8"))["systems"]
    return {row["name"]: row["version"] for row in system["packages"] if row["pin"]}


def pins(machine):
    """What the node pins: name -> version. The block that bars every other version of them (`version *`) is no pin."""
    blocks = machine.check_output(f"cat {PINS}").split("\n\n")[1:]
    rows = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]
    versions = {row["Package"]: row["Pin"].removeprefix("version ") for row in rows if "version " in row["Pin"]}
    return {name: version for name, version in versions.items() if version != "*"}


def report(tmp_path):
    return json.loads((tmp_path / "reports/latest/report.json").read_text(encoding="utf-8"))


def test_nodes_go_one_after_the_other_and_back(inventory, fresh, ansible, host, tmp_path):
    fresh(*NODES)
    word = "import sys; print(*sys.argv[2:], file=open(sys.argv[1], 'a'))"
    hooks = {
        f"trainrig_{name}": ["python3", "-c", word, f"{tmp_path}/simulated_log", name, "{{ inventory_hostname }}"]
        for name in ("drain", "uncordon")
    }
    settings = {**hooks, "trainrig_lock": LOCK, "trainrig_hardware": "absent"}
    place = inventory(["sources"], trainrig_stack=STACK, **settings)

    def play(name, *words):
        return ansible("ansible-playbook", f"playbooks/{name}.yml", *words, inventory=place)

    none = play("rollback")
    assert none.status == 2 and "previous/stack.lock.yml: there is no lock to go back to. To fix it: " in none.output
    play("lock").ok()
    play("upgrade").ok()
    old = pinned(place)
    assert [pins(host(name)) for name in NODES] == [old, old]
    # The stack gets a driver: another lock, and the old one is kept.
    inventory(["sources"], trainrig_stack={**STACK, "driver": "auto"}, **settings)
    play("lock").ok()
    new = pinned(place)
    assert set(old) < set(new) and pinned(place / "previous") == old

    log = tmp_path / "simulated_log"
    log.unlink()
    host("node-2", sudo=True).check_output(f"mv {APT} {APT}.away")
    bad = play("upgrade", "-e", "trainrig_canary=node-2")
    assert bad.status == 2
    assert log.read_text().splitlines() == ["drain node-2"]
    assert pins(host("node-1")) == old, "the canary failed, so nobody after it is touched"
    assert [row["host"] for row in report(tmp_path)["findings"] if row["rule"] == "run.rollout_stopped"] == ["node-2"]

    host("node-2", sudo=True).check_output(f"mv {APT}.away {APT}")
    play("upgrade").ok()
    assert log.read_text().splitlines()[1:] == [f"{word} {name}" for name in NODES for word in ("drain", "uncordon")]
    assert [pins(host(name)) for name in NODES] == [new, new]

    kept = (place / "stack.lock.yml").read_bytes()
    back = play("rollback").ok()
    assert [pins(host(name)) for name in NODES] == [old, old]
    assert "The inventory still declares the newer one" in back.output and '"driver": "none"' in back.output
    assert (place / "stack.lock.yml").read_bytes() == kept, "nothing is written on the controller"
    again = play("rollback").ok()
    assert [again.recap(name)["changed"] for name in NODES] == [0, 0]


def test_a_pending_reboot_is_done_once_and_a_node_that_stays_away_fails_alone(lab, inventory, fresh, host, tmp_path):
    fresh(*NODES)
    place = inventory([_BASE, DRIVER, LAST], **{f"{DRIVER}_waits": True, "trainrig_reboot": "when_needed"})
    checkout = copy(tmp_path / "trainrig")

    def site(*words):
        done = subprocess.run(
            [str(BIN / "ansible-playbook"), "site.yml", "-i", str(place), *words],
            cwd=checkout,
            env={**os.environ, "ANSIBLE_CONFIG": str(checkout / "ansible.cfg")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        return Run(done.returncode, done.stdout)

    def boots():
        return [host(name).check_output("cat /proc/sys/kernel/random/boot_id") for name in NODES]

    before = boots()
    site("-e", "trainrig_reboot=never")
    assert boots() == before
    assert report(tmp_path)["verdict"] == "incomplete"
    # What an earlier run left is done by the next one, where the policy allows it and nobody is in the way.
    host("node-2", sudo=True).check_output(
        "install -d /tmp/simulated && cp /bin/sleep /tmp/simulated/job && "
        "systemd-run --quiet bash -c 'exec -a \"slurmstepd: [1.batch]\" /tmp/simulated/job 9999'"
    )
    busy = site()
    after = boots()
    assert after[0] != before[0] and after[1] == before[1]
    assert "is not done: somebody uses it: pid " in busy.output and "slurmstepd: [1.batch]" in busy.output
    assert {name: row["state"] for name, row in report(tmp_path)["hosts"].items()} == {
        "node-1": "ok",
        "node-2": "deferred",
    }
    assert not host("node-1").file("/etc/trainrig/pending_reboot.json").exists

    # One comes back without its SSH daemon, the other one as it should, and goes on with what is behind the barrier.
    host("node-2", sudo=True).check_output("systemctl mask ssh.service ssh.socket")
    host("node-2", sudo=True).check_output("pkill -x job")
    changed = site("-e", f"{DRIVER}_content=two", "-e", f"{LAST}_content=two", "-e", "trainrig_reboot_timeout=40")
    assert changed.status != 0
    assert host("node-1").check_output("cat /proc/sys/kernel/random/boot_id") not in (before[0], after[0])
    assert host("node-1").file(f"/opt/trainrig/{LAST}").content_string == "two"
    found = report(tmp_path)["hosts"]
    assert (found["node-1"]["state"], found["node-2"]["state"]) == ("ok", "failed")
    (failure,) = found["node-2"]["failures"]
    assert failure["layer"] == DRIVER
    assert "did not come back as another boot in 40 s (trainrig_reboot_timeout)" in failure["message"]
    lab.node("node-2").reset()
