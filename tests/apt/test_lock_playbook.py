"""playbooks/lock.yml from driver to wheel: Debian's real repositories, and NVIDIA's simulated beside them."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.plugin_utils.apt_root import own_sources

from tests.support.simulated_nvidia import simulated_nvidia

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("ansible-playbook")
MACHINE = {"x86_64": "x86_64", "aarch64": "sbsa"}.get(platform.machine(), "")


def own_platform():
    """The platform code of this machine where it is a Debian that data/ knows."""
    lines = Path("/etc/os-release").read_text(encoding="utf-8").replace('"', "").splitlines()
    release = dict(line.split("=", 1) for line in lines if "=" in line)
    return f"{release['ID']}{release.get('VERSION_ID', '')}-{MACHINE}"


@pytest.fixture(scope="session")
def debian():
    """Debian's archive as this machine's own apt knows it."""
    found = [source["uri"] for source in own_sources() if source["origin"] == "Debian" and source["label"] == "Debian"]
    if not found:
        pytest.skip("this machine's apt knows no Debian archive (apt-get update shows it)")
    return found[0]


class Inventory:
    """An inventory of one host, this machine, and what make site and the lock say of it."""

    def __init__(self, path):
        self.path = path
        (path / "group_vars").mkdir(parents=True)

    def write(self, stack, groups="", **settings):
        # The first one has no layer: what is asked for the whole fleet must not depend on it.
        hosts = "all: {hosts: {another: {ansible_connection: local}, localhost: {ansible_connection: local}}}\n"
        lines = [f"{group}: {{hosts: {{localhost: }}}}\n" for group in groups.split()]
        (self.path / "hosts.yml").write_text(hosts + "".join(lines), encoding="utf-8")
        profiles = [{"name": "cpu", "pytorch": "2.13.0", "variant": "cpu", "python": ["3.11"]}]
        content = {
            "trainrig_stack": stack,
            "trainrig_lock": {"index_date": "2026-11-30T00:00:00Z", "profiles": profiles},
            "trainrig_prefix": str(self.path / "prefix"),
            "report_directory": str(self.path / "reports"),
            **settings,
        }
        (self.path / "group_vars/all.yml").write_text(yaml.safe_dump(content), encoding="utf-8")

    def play(self, playbook, *arguments):
        command = [str(PROGRAM), str(ROOT / playbook), "-i", str(self.path), *arguments]
        env = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_FORCE_COLOR": "0"}
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def lock(self, *arguments):
        code, output = self.play("playbooks/lock.yml", *arguments)
        assert code == 0, output
        return output

    @property
    def text(self):
        return (self.path / "stack.lock.yml").read_text(encoding="utf-8")

    @property
    def system(self):
        return yaml.safe_load(self.text)["systems"][0]


@pytest.fixture
def inventory(tmp_path):
    return Inventory(tmp_path / "inventory")


DEBIAN = {
    "debian12-x86_64": (
        {"cuda": "11.8"},
        {"nvidia-driver": "535.", "nvidia-cuda-toolkit": "11.8.", "nvidia-smi": "535."},
        "nvidia-tesla-470-kernel-dkms",
    ),
    "debian13-x86_64": (
        {"cuda": "12.4", "nccl": "2.22.3"},
        {"nvidia-driver": "550.", "nvidia-cuda-toolkit": "12.4.", "libnccl2": "2.22.3-", "libnccl-dev": "2.22.3-"},
        "nvidia-tesla-535-kernel-dkms",
    ),
}


@pytest.mark.parametrize("platform", DEBIAN)
def test_debian_s_own_archive(inventory, debian, platform):
    stack, versions, sibling = DEBIAN[platform]
    inventory.write({**stack, "origin": "distro", "gpus": ["L40S"], "platforms": [platform]})
    output = inventory.lock("--check")
    assert "and 1 systems" in output
    assert not (inventory.path / "stack.lock.yml").exists(), "--check writes nothing"
    inventory.lock()
    first = inventory.text
    assert "nothing: the lock says the same" in inventory.lock()
    assert inventory.text == first, "made twice, the same bytes"
    system = inventory.system
    rows = {row["name"]: row for row in system["packages"]}
    for name, version in versions.items():
        assert rows[name]["version"].startswith(version)
        assert rows[name]["pin"] is True
    assert rows["libc6"]["pin"] is False
    layers = {"nvidia-cuda-toolkit": "cuda", "libnccl2": "nccl", "libnccl-dev": "nccl"}
    assert [rows[name]["layer"] for name in versions] == [layers.get(name, "driver") for name in versions]
    assert rows["libc6"]["layer"] == "driver", "the first that does not do without"
    assert rows["nvidia-cuda-toolkit"]["installed_size"] > rows["nvidia-cuda-toolkit"]["size"]
    assert all(len(row["sha256"]) == 64 and row["size"] > 0 and row["origin"] == "debian" for row in rows.values())
    assert system["origins"][0]["origin"] == "Debian"
    assert all(len(key) == 40 for origin in system["origins"] for key in origin["fingerprints"])
    assert sibling in system["remove"]
    assert debian.split("://")[-1].rstrip("/") not in first, "addresses are the inventory's"


def test_what_changes_is_told_first(inventory, debian):
    base = {"origin": "distro", "gpus": ["L40S"], "platforms": ["debian13-x86_64"]}
    inventory.write(base)
    inventory.lock()
    inventory.write({**base, "cuda": "12.4", "nccl": "2.22.3"})
    before = inventory.text
    output = inventory.lock("--check")
    assert inventory.text == before
    assert '"nccl": "2.22.3"' in output
    assert "system default-debian13-x86_64: package libnccl2 2.22.3-1-1 is new" in output


def test_a_host_that_is_there_is_asked_what_it_is(inventory, debian):
    if not own_platform().startswith("debian1"):
        pytest.skip(f"this machine is {own_platform()}")
    inventory.write({"origin": "distro", "driver": "none", "accelerator": "cpu"}, "cuda pytorch")
    inventory.lock()
    assert inventory.system["platform"] == own_platform()
    assert inventory.system["packages"] == [], "no driver is wanted, and the CPU takes no toolkit"


@pytest.fixture
def repository(tmp_path):
    """NVIDIA's repository, simulated, for the system that this machine runs."""
    if own_platform() not in ("debian12-x86_64", "debian13-x86_64"):
        pytest.skip(f"this machine is {own_platform()}")
    with simulated_nvidia(tmp_path / "nvidia", (own_platform().split("-")[0],)) as made:
        yield made


def test_site_refuses_when_a_locked_package_has_left_its_repository(inventory, debian, repository):
    place = {"url": repository.url, "key": str(repository.keyring), "fingerprints": [repository.fingerprint]}
    stack = {"gpus": ["L40S"], "platforms": [own_platform()]}
    inventory.write(stack, "driver pytorch", trainrig_repositories={"nvidia": place})
    inventory.lock()
    _code, healthy = inventory.play("site.yml", "--check")
    assert "verdict: refuse" not in healthy and "lock.not_offered" not in healthy, healthy
    driver = next(row for row in inventory.system["packages"] if row["name"] == "nvidia-open")
    repository.indexes[0].drop(driver["name"], driver["version"])
    repository.publish()
    code, output = inventory.play("site.yml")
    assert code != 0
    assert "verdict: refuse" in output
    report = json.loads((inventory.path / "reports/latest/report.json").read_text(encoding="utf-8"))
    found = next(one for one in report["findings"] if one["rule"] == "lock.not_offered")
    assert found["summary"] == f"stack.lock.yml names what is not on offer: nvidia-open={driver['version']}"
    assert "playbooks/lock.yml" in found["action"]["text"]
    assert "changed=0" in output
    assert not (inventory.path / "prefix").exists(), "before any change"
    inventory.write(stack, "pytorch", trainrig_repositories={"nvidia": place})
    assert "lock.not_offered" not in inventory.play("site.yml", "--check")[1], "no layer here installs it"
