"""Drifts made on nodes by hand and told to nobody: plan.yml names each with its reason, site.yml takes it back.

A drift is a row; who looks whether it is there is the node's own dpkg, apt, systemctl, stat or sha256sum. The rows of
one round are made together, on nodes that were converged once, so no row touches what another one looks at.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import base64
from typing import Any, NamedTuple

import pytest

from tests.nodes.equipment import ssh
from tests.nodes.system_layers import DRIVER, FULL, LIGHT, NEWER, OLDER, equip, inventory, reasons
from tests.nodes.what_roles_write import unexplained
from tests.support.simulated_node_repository import SimulatedNodeRepository, simulated_node_repository
from tools.lab import network
from tools.lab.machine import run

pytestmark = pytest.mark.slow
GPU, PLAIN = "node-3", "node-1"
SOURCES = "/etc/apt/sources.list.d/trainrig-lock.sources"
PINS = "/etc/apt/preferences.d/00-trainrig-lock"
KEYRING = "/etc/apt/keyrings/trainrig-nvidia.gpg"
MODPROBE, PROFILE = "/etc/modprobe.d/trainrig-nvidia.conf", "/etc/profile.d/trainrig-cuda.sh"
CONF, ENVIRONMENT, MANIFEST = "/etc/nccl.conf", "/opt/trainrig/env", "/etc/trainrig/manifest.json"
PERSISTENCE, FABRIC = "nvidia-persistenced.service", "nvidia-fabricmanager.service"
UNINSTALLER = "/usr/bin/nvidia-uninstall"
NCCL, OTHER_NCCL = "2.27.5-1+cuda12.4", "2.27.7-1+cuda12.9"
FOREIGN = "580.178.04-1"
#: Of a package in an environment, those that a reason spells out.
_FOREIGN_FILES = ("INSTALLER", "METADATA", "RECORD", "REQUESTED")


class Drift(NamedTuple):
    """made: commands of root on the node; reasons: the plan's lines for it; looks: commands that show it, or not."""

    name: str
    layer: str
    made: str
    reasons: tuple[str, ...]
    looks: str
    node: str = GPU


def content(path):
    """A file's bytes, owner and mode; or that it is not there."""
    return f"stat --format='%F %U:%G %a' {path}; sha256sum {path} || true"


def package(name):
    return f"dpkg-query --show --showformat='${{Status}} ${{Version}}' {name}; apt-mark showhold {name}"


def unit(name):
    return f"systemctl is-enabled {name}; systemctl is-active {name} || true"


def replaced(name, version):
    """Somebody's dpkg puts one package of another version in place, whatever else wants."""
    archive = f"{name}_*{version.split('-')[0]}*.deb"
    return f"cd /tmp && apt-get download {name}={version} && dpkg --install --force-depends {archive}"


def moved(name, old, new):
    """A dpkg that is told to install a package takes its hold away."""
    return (f"package {name} moved {old} -> {new}", f"hold of {name} is not held, was held")


def moved_in_family(name, old, new):
    return (*moved(name, old, new), f"package family driver: {name} moved {old} -> {new}")


def removed(name):
    return (f"package {name} is absent, was installed", f"hold of {name} is not held, was held")


def candidates(*names):
    """What apt would install of these, and nothing of those that are barred or unknown."""
    return f"apt-cache policy {' '.join(names)} | grep 'Candidate: [0-9]'"


#: Stands for the commands that add it: where it is served, and its key, are known when the test runs.
OTHER_REPOSITORY = "another repository"
OWN_WHEEL = """
cd /tmp && cat >wheel.py <<'END'
import zipfile
with zipfile.ZipFile("added-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("added.py", "")
    wheel.writestr("added-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: added\\nVersion: 1.0\\n")
    wheel.writestr("added-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("added-1.0.dist-info/RECORD", "added.py,,\\nadded-1.0.dist-info/METADATA,,\\n")
END
python3 wheel.py
/opt/trainrig/bin/uv pip install --offline --python /opt/trainrig/env/bin/python ./added-1.0-py3-none-any.whl
"""
FORGET = """
python3 - <<'END'
import json
path = "/etc/trainrig/manifest.json"
manifest = json.load(open(path))
manifest["layers"]["cuda"]["fingerprints"] = {}
json.dump(manifest, open(path, "w"))
END
"""
MANIFEST_LAYERS = f'json.load(open("{MANIFEST}"))["layers"]'
REMEMBERED = f"""python3 -c 'import json; print(sorted({MANIFEST_LAYERS}["cuda"]["fingerprints"]))'"""
APPLIED = f"""test -e {MANIFEST} && python3 -c 'import json; print(sorted({MANIFEST_LAYERS}))'"""
PYTHON_FILES = f"cd {ENVIRONMENT}/lib/python3.11/site-packages && cat torch/version.py; ls | sort"

#: One that NVIDIA's installer left, as far as anybody can see.
INSTALLED = f"printf '#!/bin/sh\\nrm {UNINSTALLER}\\n' >{UNINSTALLER} && chmod 755 {UNINSTALLER}"

FORGOTTEN = "no manifest on this node: nothing was applied by trainrig, or it was deleted"

ROUNDS: tuple[tuple[Drift, ...], ...] = (
    (
        Drift(
            "a package of the driver is upgraded",
            "driver",
            replaced("libnvidia-ml1", f"{NEWER}-1"),
            moved_in_family("libnvidia-ml1", f"{DRIVER}-1", f"{NEWER}-1"),
            package("libnvidia-ml1"),
        ),
        Drift(
            "a hold of the driver is lifted",
            "driver",
            "apt-mark unhold nvidia-driver",
            ("hold of nvidia-driver is not held, was held",),
            package("nvidia-driver"),
        ),
        Drift(
            "options of the module go",
            "driver",
            f"sed -i '/^options nvidia /d' {MODPROBE}",
            (f"file {MODPROBE} was edited",),
            content(MODPROBE),
        ),
        Drift(
            "persistence is disabled",
            "driver",
            f"systemctl disable {PERSISTENCE}",
            (f"unit {PERSISTENCE}: enabled moved enabled -> disabled",),
            unit(PERSISTENCE),
        ),
        Drift(
            "the fabric manager is downgraded",
            "nvlink",
            replaced("nvidia-fabricmanager-570", f"{OLDER}-1") + f"; systemctl start {FABRIC} || true",
            moved("nvidia-fabricmanager-570", f"{DRIVER}-1", f"{OLDER}-1"),
            package("nvidia-fabricmanager-570"),
        ),
        Drift(
            "the system's NCCL is upgraded",
            "nccl",
            replaced("libnccl2", OTHER_NCCL) + "; " + replaced("libnccl-dev", OTHER_NCCL),
            (*moved("libnccl2", NCCL, OTHER_NCCL), *moved("libnccl-dev", NCCL, OTHER_NCCL)),
            f"{package('libnccl2')}; {package('libnccl-dev')}",
        ),
        Drift(
            "nccl.conf is edited",
            "nccl",
            f"echo NCCL_P2P_DISABLE=1 >>{CONF}",
            (f"file {CONF} was edited",),
            content(CONF),
        ),
        Drift(
            "the toolkit goes off PATH",
            "cuda",
            f"rm {PROFILE}",
            (f"file {PROFILE} is absent, was present",),
            content(PROFILE),
        ),
        Drift(
            "pins are edited",
            "sources",
            f"sed -i 's/^Pin: version {DRIVER}-1/Pin: version {NEWER}-1/' {PINS}",
            (f"directory /etc/apt/preferences.d: {PINS.rsplit('/', 1)[1]} was edited", f"file {PINS} was edited"),
            candidates("libcuda1", "nvidia-open"),
        ),
        Drift(
            "a repository with other drivers is added",
            "sources",
            OTHER_REPOSITORY,
            ("directory /etc/apt/sources.list.d: other.list was added",),
            candidates("nvidia-driver-libs", "nvidia-fabricmanager-535", "libnvidia-nscq-535"),
        ),
        Drift(
            "a file of the environment is edited",
            "pytorch",
            f"echo '# edited' >>{ENVIRONMENT}/lib/python3.11/site-packages/torch/version.py",
            (f"{ENVIRONMENT}: file torch/version.py edited",),
            PYTHON_FILES,
            PLAIN,
        ),
    ),
    (
        Drift(
            "a package of the driver is downgraded",
            "driver",
            replaced("firmware-nvidia-gsp", f"{OLDER}-1"),
            moved_in_family("firmware-nvidia-gsp", f"{DRIVER}-1", f"{OLDER}-1"),
            package("firmware-nvidia-gsp"),
        ),
        Drift(
            "a package of the driver is removed",
            "driver",
            "dpkg --remove --force-depends --force-hold libnvidia-ptxjitcompiler1",
            (
                *removed("libnvidia-ptxjitcompiler1"),
                "package family driver: libnvidia-ptxjitcompiler1 was removed",
            ),
            package("libnvidia-ptxjitcompiler1"),
        ),
        Drift(
            "a package of another driver comes",
            "driver",
            replaced("libnvidia-nscq", FOREIGN),
            (f"package family driver: libnvidia-nscq {FOREIGN} was added",),
            f"{package('libnvidia-nscq')} || true",
        ),
        Drift(
            "the module's file is removed",
            "driver",
            f"rm {MODPROBE}",
            (f"file {MODPROBE} is absent, was present",),
            content(MODPROBE),
        ),
        Drift(
            "persistence is stopped",
            "driver",
            f"systemctl stop {PERSISTENCE}",
            (f"unit {PERSISTENCE} is inactive, was active",),
            unit(PERSISTENCE),
        ),
        Drift(
            "the fabric manager is masked",
            "nvlink",
            f"systemctl mask {FABRIC}",
            (f"unit {FABRIC} is masked, was active",),
            unit(FABRIC),
        ),
        Drift(
            "a package of the toolkit is removed",
            "cuda",
            "dpkg --remove --force-depends --force-hold cuda-toolkit-12-8",
            removed("cuda-toolkit-12-8"),
            package("cuda-toolkit-12-8"),
        ),
        Drift(
            "nobody may read the toolkit's file",
            "cuda",
            f"chmod 600 {PROFILE}",
            (f"file {PROFILE}: mode moved 0644 -> 0600",),
            content(PROFILE),
        ),
        Drift(
            "nccl.conf is removed",
            "nccl",
            f"rm {CONF}",
            (f"file {CONF} is absent, was present",),
            content(CONF),
        ),
        Drift(
            "the key is another one",
            "sources",
            f"cp /usr/share/keyrings/debian-archive-keyring.gpg {KEYRING}",
            (f"file {KEYRING} was edited",),
            content(KEYRING),
        ),
        Drift(
            "the repository is removed",
            "sources",
            f"rm {SOURCES}",
            (
                f"directory /etc/apt/sources.list.d: {SOURCES.rsplit('/', 1)[1]} was removed",
                f"file {SOURCES} is absent, was present",
            ),
            content(SOURCES),
        ),
        Drift(
            "a package is put into the environment",
            "pytorch",
            OWN_WHEEL,
            (
                f"{ENVIRONMENT}: package added 1.0 is not in the lock",
                *(f"{ENVIRONMENT}: file added-1.0.dist-info/{name} is foreign" for name in _FOREIGN_FILES),
                f"{ENVIRONMENT}: and 4 more files",
            ),
            PYTHON_FILES,
            PLAIN,
        ),
        Drift(
            "nccl.conf has another mode",
            "nccl",
            f"chmod 666 {CONF}",
            (f"file {CONF}: mode moved 0644 -> 0666",),
            content(CONF),
            PLAIN,
        ),
    ),
    (
        Drift(
            "a package of the driver is half installed",
            "driver",
            "cd /tmp && apt-get download libcuda1 && dpkg --unpack libcuda1_*.deb",
            ("package libcuda1 is half installed, was installed", "hold of libcuda1 is not held, was held"),
            package("libcuda1"),
        ),
        Drift(
            "the module's file has another mode",
            "driver",
            f"chmod 600 {MODPROBE}",
            (f"file {MODPROBE}: mode moved 0644 -> 0600",),
            content(MODPROBE),
        ),
        Drift(
            "the fabric manager is stopped",
            "nvlink",
            f"systemctl stop {FABRIC}",
            (f"unit {FABRIC} is inactive, was active",),
            unit(FABRIC),
        ),
        Drift(
            "the manifest forgets what was looked at",
            "cuda",
            FORGET,
            ("its entry in the manifest was altered",),
            REMEMBERED,
        ),
        Drift(
            "nccl.conf has another owner",
            "nccl",
            f"chown debian {CONF}",
            (f"file {CONF}: owner moved 0 -> 1000",),
            content(CONF),
        ),
        Drift(
            "pins are removed",
            "sources",
            f"rm {PINS}",
            (
                f"directory /etc/apt/preferences.d: {PINS.rsplit('/', 1)[1]} was removed",
                f"file {PINS} is absent, was present",
            ),
            content(PINS),
        ),
        Drift(
            "the repository is edited",
            "sources",
            f"echo '# edited' >>{SOURCES}",
            (
                f"directory /etc/apt/sources.list.d: {SOURCES.rsplit('/', 1)[1]} was edited",
                f"file {SOURCES} was edited",
            ),
            content(SOURCES),
        ),
        Drift(
            "a pin for a newer driver is added",
            "sources",
            "printf 'Package: nvidia-smi\\nPin: version 580.*\\nPin-Priority: 1002\\n' >/etc/apt/preferences.d/newer",
            ("directory /etc/apt/preferences.d: newer was added",),
            candidates("nvidia-smi"),
        ),
        Drift(
            "the environment's link is another one",
            "pytorch",
            f"ln -sfn /usr {ENVIRONMENT}",
            (f"{ENVIRONMENT}: /usr is not a finished build (.trainrig.json missing or unreadable)",),
            f"readlink {ENVIRONMENT} | cut -d- -f2-; {PYTHON_FILES}",
            PLAIN,
        ),
    ),
    # This one is taken back with consent only.
    (
        Drift(
            "NVIDIA's installer was here",
            "driver",
            INSTALLED,
            (f"path {UNINSTALLER} is present, was absent", "option driver_takeover changed: False -> True"),
            content(UNINSTALLER),
        ),
        Drift("the manifest is deleted", "nccl", f"rm {MANIFEST}", (FORGOTTEN,), f"{APPLIED} || true", PLAIN),
    ),
)
CONSENT = ("-e", '{"driver_takeover": true}')


class Round:
    """What a round showed: looks before it, with its drifts, and repaired; the plan's reasons, and how runs ended."""

    def __init__(self, scene: Scene, drifts: tuple[Drift, ...], words: tuple[str, ...] = ()) -> None:
        scene.restart()
        self.drifts = drifts
        self.before = scene.looks(drifts)
        scene.make(drifts)
        self.drifted = scene.looks(drifts)
        self.refused = scene.play("site.yml") if words else None
        self.kept = scene.looks(drifts) if words else self.drifted
        self.plan = scene.play("playbooks/plan.yml", "-e", "strict=true", *words)
        self.named = {name: reasons(self.plan.output, name) for name in (GPU, PLAIN)}
        self.site = scene.play("site.yml", *words)
        self.after = scene.looks(drifts)
        self.following = scene.play("playbooks/plan.yml", "-e", "strict=true", *words)


class Scene:
    """Both nodes, converged; `written`: what that wrote, as far as nobody said that it would, by node."""

    def __init__(self, lab, place, ansible, release: str, other: SimulatedNodeRepository) -> None:
        self.lab, self._place, self._ansible, self._release, self._other = lab, place, ansible, release, other
        self.written: dict[str, list[str]] = {}
        self._rounds: dict[int, Round] = {}

    def play(self, *words: str) -> Any:
        return self._ansible("ansible-playbook", *words, inventory=self._place)

    def root(self, name: str, script: str) -> str:
        return run(*ssh(self.lab, name), "sudo", "bash", "-e", text=script)

    def restart(self) -> None:
        """From the snapshot, with the hardware that a boot takes away."""
        nodes = [self.lab.node(name) for name in (GPU, PLAIN)]
        for node in nodes:
            node.reset("converged")
            node.start()
        for node in nodes:
            node.wait_ready()
        equip(nodes[0], self._release)
        self.root(GPU, f"systemctl start {PERSISTENCE} {FABRIC}")

    def round(self, number: int) -> Round:
        if number not in self._rounds:
            self._rounds[number] = Round(self, ROUNDS[number], CONSENT if number == len(ROUNDS) - 1 else ())
        return self._rounds[number]

    def make(self, drifts: tuple[Drift, ...]) -> None:
        key = base64.b64encode(self._other.keyring.read_bytes()).decode()
        url = f"{self._other.url}/debian13/x86_64/"
        adding = f"""
            echo {key} | base64 --decode >/etc/apt/keyrings/other.gpg
            echo 'deb [signed-by=/etc/apt/keyrings/other.gpg] {url} /' >/etc/apt/sources.list.d/other.list
            apt-get update
        """
        for drift in drifts:
            self.root(drift.node, adding if drift.made == OTHER_REPOSITORY else drift.made)

    def looks(self, drifts: tuple[Drift, ...]) -> dict[str, str]:
        found: dict[str, str] = {}
        for node in (GPU, PLAIN):
            rows = [drift for drift in drifts if drift.node == node]
            script = "".join(f"echo; echo '== '; (\n{row.looks}\n) 2>&1 || true\n" for row in rows)
            answers = self.root(node, script).split("\n== ")[1:]
            found.update({row.name: answer for row, answer in zip(rows, answers, strict=True)})
        return found


@pytest.fixture(scope="module")
def scene(lab, kernel_headers, kernel, fresh, ansible, tmp_path_factory):
    place, address = tmp_path_factory.mktemp("drifts"), str(network.addresses().cache)
    own = simulated_node_repository(place / "nvidia", address, ("debian13",), ("570", "580"))
    other = simulated_node_repository(place / "other", address, ("debian13",), ("535", "610"))
    with own, other:
        (gpu,), (plain,) = kernel_headers(GPU), fresh(PLAIN)
        declared = {"cuda_path": True, "driver_module_options": {"NVreg_RestrictProfilingToAdminUsers": 0}}
        at = inventory(lab, place / "inventory", {PLAIN: LIGHT, GPU: FULL}, own, **declared)
        made = Scene(lab, at, ansible, kernel(GPU), other)
        equip(gpu, kernel(GPU))
        made.play("playbooks/lock.yml").ok()
        made.play("site.yml").ok()
        for node in (gpu, plain):
            made.written[node.name] = unexplained(node, at / "stack.lock.yml")
            node.snapshot("converged")
        yield made


@pytest.fixture
def played(scene, request) -> Round:
    return scene.round(request.param)


@pytest.mark.parametrize(
    ("played", "drift"),
    [pytest.param(number, drift, id=drift.name) for number, drifts in enumerate(ROUNDS) for drift in drifts],
    indirect=["played"],
)
def test_a_drift_is_named_and_taken_back(played, drift):
    assert played.drifted[drift.name] != played.before[drift.name], "it was not made"
    named = played.named[drift.node].get(drift.layer, [])
    assert [reason for reason in drift.reasons if reason not in named] == [], (named, played.plan.output)
    assert played.after[drift.name] == played.before[drift.name], played.site.output


@pytest.mark.parametrize("played", range(len(ROUNDS)), indirect=True)
def test_nothing_else_is_named_and_nothing_is_left(played):
    for node, layers in played.named.items():
        told = {reason for named in layers.values() for reason in named}
        expected = {reason for drift in played.drifts if drift.node == node for reason in drift.reasons}
        assert told == expected
    assert played.plan.status == 2, "strict"
    played.site.ok()
    assert "Nothing to do: every layer is clean on 2 host(s)." in played.following.ok().output


def test_another_drivers_installer_is_not_undone_without_consent(scene):
    last = scene.round(len(ROUNDS) - 1)
    assert last.refused.status == 2
    assert "driver.foreign" in last.refused.output
    assert last.kept == last.drifted


@pytest.mark.parametrize("name", [GPU, PLAIN])
def test_roles_write_what_they_say(scene, name):
    assert scene.written[name] == []
