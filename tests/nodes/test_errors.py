"""What goes wrong with packages on a real node: one clear error each, the node usable, the next run converges."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import subprocess

import pytest

from tests.nodes.system_layers import STACK, inventory
from tests.support.simulated_node_repository import simulated_node_repository
from tools.lab import network

pytestmark = pytest.mark.slow

NODE = "node-3"
LAYERS = ("sources", "driver", "nccl")
FIRST, SECOND = "570.133.20", "570.211.01"
SNAPSHOT = "errors"


def stack(driver):
    return {**STACK, "driver": driver, "platforms": ["debian13-x86_64"]}


class Scene:
    """A repository of its own, the node with FIRST installed, and a lock that says SECOND."""

    def __init__(self, lab, own, place, ansible):
        self.lab, self.repository, self.place, self._ansible = lab, own, place, ansible
        self.node, self.index = lab.node(NODE), own.indexes[0]

    def declare(self, driver, **settings):
        inventory(self.lab, self.place, {NODE: LAYERS}, self.repository, trainrig_stack=stack(driver), **settings)
        self.play("playbooks/lock.yml").ok()

    def start(self):
        self.node.start()
        self.node.wait_ready()

    def play(self, *words):
        return self._ansible("ansible-playbook", *words, inventory=self.place)

    def report(self):
        return json.loads((self.place.parent / "reports/latest/report.json").read_text())

    def shell(self, command, timeout=120):
        words = ["ssh", "-F", f"{self.lab.ssh}/config", NODE, f"sudo sh -ec '{command}'"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def driver(self):
        """The versions that dpkg has of the driver, and whether it is whole."""
        assert self.shell("dpkg --audit") == "", "no package is left half-way"
        lines = self.shell("dpkg-query -W nvidia-driver nvidia-open libcuda1 nvidia-smi").splitlines()
        return {line.split()[1].rpartition("-")[0] for line in lines}

    def converges(self):
        self.play("site.yml").ok()
        assert self.driver() == {SECOND}
        assert "Nothing to do" in self.play("playbooks/plan.yml").ok().output


@pytest.fixture(scope="module")
def own(lab, tmp_path_factory):
    """A repository that tests break."""
    directory = tmp_path_factory.mktemp("broken")
    with simulated_node_repository(
        directory / "nvidia", str(network.addresses().cache), ("debian13",), ("570",)
    ) as made:
        yield made


@pytest.fixture(scope="module")
def first(lab, own, ansible, tmp_path_factory):
    """FIRST is installed, once; the lock of SECOND is made."""
    made = Scene(lab, own, tmp_path_factory.mktemp("errors") / "inventory", ansible)
    made.node.reset()
    made.start()
    made.declare(FIRST)
    made.play("site.yml").ok()
    assert made.driver() == {FIRST}
    made.node.snapshot(SNAPSHOT)
    made.declare(SECOND)
    return made


@pytest.fixture
def scene(first):
    first.node.reset(SNAPSHOT)
    first.start()
    return first


def refused(run, scene, rule, *texts):
    """Before the first change: the finding names what is wrong, and nothing was touched."""
    assert run.status == 2
    found = [row for row in scene.report()["findings"] if row["severity"] == "refuse"]
    assert [row["rule"] for row in found] == [rule]
    said = json.dumps(found)
    assert [text for text in texts if text not in said] == [], said
    assert scene.driver() == {FIRST}
    assert run.recap(NODE)["changed"] == 0


def failed(run, scene, layer, *texts):
    """In the middle of a layer: its message names what is wrong, and the node is as it was."""
    assert run.status == 2
    (failure,) = scene.report()["hosts"][NODE]["failures"] or [{"layer": "none failed", "message": run.output}]
    assert failure["layer"] == layer
    assert [text for text in texts if text not in failure["message"]] == [], failure["message"]
    assert scene.driver() == {FIRST}


def test_a_repository_that_vanished(scene, own):
    gone = {name: package for name, package in scene.index.packages.items() if package.version.startswith(SECOND)}
    for key in gone:
        del scene.index.packages[key]
    own.publish()
    refused(scene.play("site.yml"), scene, "lock.not_offered", "nvidia-driver", SECOND, "playbooks/lock.yml")
    scene.index.packages.update(gone)
    own.publish()
    scene.converges()


def test_a_bad_signature(scene, own):
    own.publish("stranger")
    said = ("NO_PUBKEY", "is not signed", "check url and key of debian, nvidia")
    refused(scene.play("site.yml"), scene, "lock.not_offered", *said)
    own.publish()
    scene.converges()


def test_another_file_than_the_locked_one(scene, own):
    name = "libcuda1"
    (version,) = [one for one in scene.index.versions(name) if one.startswith(SECOND)]
    scene.index.wrong_hash(name, version)
    own.publish()
    refused(scene.play("site.yml"), scene, "lock.not_offered", f"{name}={version}")
    scene.index.wrong_hashes.clear()
    own.publish()
    scene.converges()


def test_a_file_that_was_changed_on_its_way(scene, own):
    """The index is as it was locked; what is served for one name is not what it promises."""
    (file,) = [path for path in own.root.rglob("libcuda1_*.deb") if SECOND in path.name]
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    failed(scene.play("site.yml"), scene, "driver", "Hash Sum mismatch", "Nothing was changed", "To fix it")
    file.write_bytes(whole)
    scene.converges()


def test_a_full_disk(scene):
    scene.shell("mount -t tmpfs -o size=8k tmpfs /usr/src")
    failed(scene.play("site.yml"), scene, "driver", "No space left on device", "To fix it: free space")
    scene.shell("umount /usr/src")
    scene.converges()


def test_a_disk_that_is_too_small_is_seen_before(scene):
    scene.shell("mount -t tmpfs -o size=4k tmpfs /var/cache/apt/archives")
    refused(scene.play("site.yml"), scene, "packages.no_space", "/var/cache/apt/archives", "free")
    scene.shell("umount /var/cache/apt/archives")
    scene.converges()


def test_a_held_package_that_conflicts(scene, own):
    added = scene.index.add("site-tool", "1.0-1", conflicts=f"nvidia-driver (>= {SECOND})")
    own.publish()
    scene.shell("apt-get update -qq && apt-get install -qq site-tool >/dev/null && apt-mark hold site-tool")
    failed(scene.play("site.yml"), scene, "driver", "site-tool", "nothing was changed", "To fix it")
    scene.shell("apt-mark unhold site-tool && apt-get purge -qq site-tool >/dev/null")
    scene.converges()
    scene.index.drop(added.name, added.version)
    own.publish()


def test_a_hold_of_somebody_else(scene):
    other = " ".join(f"{name}=2.27.3-1+cuda12.9" for name in ("libnccl2", "libnccl-dev"))
    scene.shell(f"apt-get install -qq --allow-downgrades --allow-change-held-packages {other} >/dev/null")
    scene.shell("apt-mark hold libnccl2")
    scene.shell("sed -i s/libnccl2/libnccl9/ /etc/trainrig/manifest.json")
    refused(scene.play("site.yml"), scene, "packages.held_by_others", "libnccl2", "apt-mark unhold libnccl2")
    scene.shell("apt-mark unhold libnccl2")
    scene.converges()


def test_apt_locked_for_a_minute(scene):
    lock(scene, 60)
    scene.converges()


def test_apt_locked_for_longer_than_anybody_waits(scene):
    lock(scene, 9999)
    run = scene.play("site.yml", "-e", "driver_lock_seconds=3", "-e", "sources_lock_seconds=3")
    failed(run, scene, "driver", "lock", "To fix it: wait")
    scene.shell("systemctl stop simulated-apt.service")
    scene.converges()


def lock(scene, seconds):
    """Somebody else's apt holds dpkg's lock; a real lock, and nothing else of an apt."""
    program = (
        'import fcntl, time; one = open("/var/lib/dpkg/lock-frontend", "w"); fcntl.lockf(one, fcntl.LOCK_EX); '
        f'print("held", flush=True); time.sleep({seconds})'
    )
    path = "/usr/local/lib/simulated_apt.py"
    words = ["ssh", "-F", f"{scene.lab.ssh}/config", NODE, f"sudo tee {path} >/dev/null"]
    subprocess.run(words, input=program, text=True, check=True, timeout=60)
    scene.shell(f"systemd-run --quiet --unit=simulated-apt python3 {path}; sleep 2; systemctl is-active simulated-apt")
