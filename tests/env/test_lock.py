"""The lock of an inventory, really made by uv from an index on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import document

from tests.support.simulated_index import sha256, wheel

ROOT = Path(__file__).resolve().parents[2]
GROUP_VARS = """
trainrig_stack: {stack}
trainrig_lock:
  index_date: "2026-06-01T00:00:00Z"
  profiles:
    - {{name: new, pytorch: "2.12.1", variant: cu130, python: ["3.11", "3.12"], packages: [numpy]}}
pytorch_index_url: {url}
"""


class Inventory:
    def __init__(self, place, index):
        self.path, self.index = place.root / "inventory", index
        (self.path / "group_vars").mkdir(parents=True)
        (self.path / "hosts.yml").write_text("all: {hosts: {localhost: {ansible_connection: local}}}\n", "utf-8")
        self.declare("{accelerator: nvidia}")

    def declare(self, stack):
        text = GROUP_VARS.format(stack=stack, url=self.index.url)
        (self.path / "group_vars" / "all.yml").write_text(text, encoding="utf-8")

    def make(self, *arguments):
        program = shutil.which("ansible-playbook", path=str(ROOT / ".venv/bin")) or "ansible-playbook"
        command = [program, str(ROOT / "playbooks/lock.yml"), "-i", str(self.path), *arguments]
        env = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def files(self):
        found = [*self.path.glob("*.lock.yml"), *self.path.glob("requirements/*")]
        return {path.name: path.read_text(encoding="utf-8") for path in found}


@pytest.fixture
def inventory(place, simulated_index, monkeypatch, tmp_path):
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PIP_NO_INDEX")
    place.torch = place.wheel("torch", "2.12.1")
    place.numpy = place.wheel("numpy", "1.0")
    index = simulated_index(place.wheels, user="someone:hunter2-hunter2")
    index.uploaded[place.wheel("numpy", "1.1").name] = "2026-07-01T00:00:00Z"
    return Inventory(place, index)


def test_made_and_made_again(inventory, place):
    code, output = inventory.make("--check")
    assert code == 0, output
    assert "new lock with 1 profiles: new" in output
    assert inventory.files() == {}, "--check writes nothing"

    code, output = inventory.make()
    assert code == 0, output
    made = inventory.files()
    assert sorted(made) == ["new.txt", "stack.lock.yml"]
    lock = yaml.safe_load(made["stack.lock.yml"])
    assert document.problems(lock, {"requirements/new.txt": made["new.txt"]}) == []
    assert "numpy==1.0" in made["new.txt"], "1.1 was uploaded after the index date"
    assert f"--hash=sha256:{sha256(place.torch)}" in made["new.txt"]
    for text in made.values():
        assert "hunter2" not in text
        assert "127.0.0.1" not in text
        assert str(place.root) not in text
    assert "hunter2" not in output
    profile = lock["profiles"][0]
    assert profile["python"] == ["3.11", "3.12"]
    assert profile["download_bytes"] == place.torch.stat().st_size + place.numpy.stat().st_size

    code, output = inventory.make()
    assert code == 0, output
    assert "changed=0" in output
    assert inventory.files() == made, "the same input, the same bytes"

    code, output = inventory.make("-e", "trainrig_lock_date=2026-08-01")
    assert code == 0, output
    assert "index_date: 2026-06-01T00:00:00Z -> 2026-08-01T00:00:00Z" in output
    assert "profile new: package numpy 1.0 -> 1.1" in output


def test_a_declaration_that_cannot_be_locked(inventory):
    inventory.declare('{accelerator: nvidia, pytorch: "9.9"}')
    code, output = inventory.make()
    assert code != 0
    assert "group_vars/all.yml" in output
    assert "trainrig_stack.pytorch: 9.9" in output
    assert inventory.files() == {}


def test_a_wheel_that_the_index_lacks_for_a_python(inventory, place):
    place.torch.unlink()
    wheel(place.wheels, "torch", "2.12.1", tag="cp311-cp311-manylinux_2_28_x86_64")
    code, output = inventory.make()
    assert code != 0
    assert "no index offers a wheel of torch for Python 3.12" in " ".join(output.split())
    assert inventory.files() == {}
