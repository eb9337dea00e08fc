"""The inventory of a lab, and the directory it is written to."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tools.lab import inventory
from tools.lab.names import LabError, NodeSpec

ROOT = Path(__file__).resolve().parents[4]
SPECS = [NodeSpec(1, "debian12"), NodeSpec(2, "debian12"), NodeSpec(3, "debian13")]
TEXT = inventory.text(SPECS, {spec.name: f"192.0.2.{spec.number}" for spec in SPECS}, Path("/srv/ssh"))
DECLARATION = ROOT / "inventories" / "node"


def files(directory):
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def test_hosts_and_groups():
    content = yaml.safe_load(TEXT)
    assert content["all"]["hosts"]["node-3"] == {
        "ansible_host": "192.0.2.3",
        "trainrig_private_address": "192.0.2.3",
    }
    groups = {name: sorted(group["hosts"]) for name, group in content.items()}
    assert groups.pop("all") == ["node-1", "node-2", "node-3"]
    training = ["node-1", "node-2"]
    assert groups == {"debian12": training, "debian13": ["node-3"], "pytorch": training, "verify": training}


def test_host_keys_are_checked_against_the_lab_s_own_file():
    variables = yaml.safe_load(TEXT)["all"]["vars"]
    assert variables["ansible_ssh_private_key_file"] == "/srv/ssh/key"
    words = variables["ansible_ssh_common_args"].split()
    for option in (
        "UserKnownHostsFile=/srv/ssh/known_hosts",
        "GlobalKnownHostsFile=/dev/null",
        "StrictHostKeyChecking=yes",
    ):
        assert option in words
    assert variables["ansible_user"] != "root"


def test_ssh_alone_takes_the_same_way():
    config = inventory.ssh_config(SPECS, {spec.name: f"192.0.2.{spec.number}" for spec in SPECS}, Path("/srv/ssh"))
    assert "Host node-3\n  HostName 192.0.2.3\n" in config
    variables = yaml.safe_load(TEXT)["all"]["vars"]
    for option in variables["ansible_ssh_common_args"].split(" -o "):
        assert f"  {option.removeprefix('-o ').replace('=', ' ')}\n" in config
    assert f"  User {variables['ansible_user']}\n" in config


def test_the_declaration_and_lock_of_a_node_are_beside_it_and_all_of_it_goes_again(tmp_path):
    (tmp_path / "hosts.yml").write_text("all:\n  hosts: {}\n")
    before = files(tmp_path)
    inventory.write(tmp_path, TEXT, DECLARATION)
    expected = {name: text for name, text in files(DECLARATION).items() if name != "hosts.yml"}
    assert files(tmp_path) == {**before, **expected, "nodes.yml": TEXT}
    assert set(expected) >= {"stack.lock.yml", "group_vars/all.yml", "requirements/cpu.txt"}
    assert {str(path.relative_to(tmp_path)) for path in inventory.written(tmp_path) if path.is_file()} == {
        *expected,
        "nodes.yml",
    }
    (tmp_path / "requirements" / "old.txt").write_text("of an older lock\n")
    inventory.write(tmp_path, TEXT, DECLARATION)
    assert "requirements/old.txt" not in files(tmp_path)
    inventory.remove(tmp_path)
    assert files(tmp_path) == before


def test_a_killed_write_is_written_and_removed_again(tmp_path):
    """Whatever was there when it was killed: it is known as the lab's."""
    target = tmp_path / "inventory"
    with pytest.raises(FileNotFoundError):
        inventory.write(target, TEXT, tmp_path / "not-there")
    assert yaml.safe_load((target / "nodes.yml").read_text()) == {"all": {"hosts": {}}}
    (target / "group_vars").mkdir()
    inventory.write(target, TEXT, DECLARATION)
    assert (target / "nodes.yml").read_text() == TEXT
    inventory.remove(target)
    assert not target.exists()


def test_an_inventory_that_is_somebody_s_is_not_touched(tmp_path):
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text("mine: true\n")
    before = files(tmp_path)
    with pytest.raises(LabError, match="not the lab's"):
        inventory.write(tmp_path, TEXT, DECLARATION)
    inventory.remove(tmp_path)
    assert files(tmp_path) == before


def test_the_committed_example_is_valid_and_empty():
    content = yaml.safe_load((ROOT / "inventories" / "lab" / "hosts.yml").read_text())
    assert {name: group["hosts"] for name, group in content.items()} == {"all": {}, "pytorch": {}, "verify": {}}
    assert "make lab" in (ROOT / "inventories" / "lab" / "hosts.yml").read_text()
