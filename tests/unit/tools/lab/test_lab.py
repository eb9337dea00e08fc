"""What is kept of a lab on disk, and whose an inventory is. Nothing is started here."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest

from tools.lab import lab as module
from tools.lab import network
from tools.lab.lab import INVENTORY, Lab, labs
from tools.lab.names import NETWORKS, Addresses, LabError, NodeSpec


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "LABS", tmp_path / "labs")
    monkeypatch.setattr(network, "addresses", lambda: Addresses(NETWORKS[0]))
    return tmp_path


def begin(name, into):
    lab = Lab(name)
    lab._begin(into)
    return lab


def test_labs_get_numbers_of_their_own_and_keep_them(state):
    first, second = begin("one", state / "a"), begin("two", state / "b")
    numbers = [json.loads((lab.directory / "lab.json").read_text())["number"] for lab in (first, second)]
    assert numbers == [1, 2]
    key = (first.ssh / "key").read_bytes()
    begin("one", state / "a")
    assert json.loads((first.directory / "lab.json").read_text())["number"] == 1
    assert (first.ssh / "key").read_bytes() == key
    assert [lab.name for lab in labs()] == ["one", "two"]


def test_an_inventory_is_one_lab_s(state):
    begin("one", state / "a")
    with pytest.raises(LabError, match="the lab one's"):
        begin("two", state / "a")


def test_somebody_s_inventory_is_refused_before_anything_is_made(state):
    (state / "mine" / "group_vars").mkdir(parents=True)
    with pytest.raises(LabError, match="not the lab's"):
        begin("one", state / "mine")
    assert not Lab("one").exists


def test_a_new_lab_elsewhere_touches_no_other_inventory(state, monkeypatch):
    removed = []
    monkeypatch.setattr(module.inventory, "remove", removed.append)
    begin("one", state / "a")
    assert removed == []
    begin("one", state / "b")
    assert removed == [state / "a"]


def test_what_a_killed_command_left_is_a_lab_too(state):
    (state / "labs" / "one" / "nodes" / "node-10").mkdir(parents=True)
    (state / "labs" / "one" / "nodes" / "node-2").mkdir()
    (state / "labs" / "one" / "nodes" / "node-2" / "node.json").write_text('{"base": "debi')
    lab = Lab("one")
    assert lab.exists and lab.inventory is None
    assert [node.spec for node in lab.nodes] == [NodeSpec(2, ""), NodeSpec(10, "")]
    assert lab.nodes[0].snapshots == []


def test_an_unknown_node_is_told_with_those_there_are(state):
    lab = begin("one", INVENTORY)
    (lab.directory / "nodes" / "node-1").mkdir(parents=True)
    with pytest.raises(LabError, match="take of node-1"):
        lab.node("node-7")
