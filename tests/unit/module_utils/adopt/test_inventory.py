"""hosts.yml with nodes put into it: the user's text stays, nothing is said twice, layers stay as chosen."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import difflib

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt import inventory
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.inventory import SSH_ARGS, Adopted
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.lines import Target
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.yaml_lines import CannotEdit

A = Adopted("node-a", Target("203.0.113.7", "root", 20022), "root", private_address="10.0.0.1")
B = Adopted("node-b", Target("203.0.113.8"), "ubuntu", private_address="10.0.0.2")


def merge(text, *adopted):
    """The text with the nodes; read again it must be what was expected."""
    after, expected = inventory.merged(text, yaml.safe_load(text), adopted)
    assert yaml.safe_load(after) == expected
    return after


def test_a_first_inventory():
    text = merge(inventory.new_text(), A, B)
    data = yaml.safe_load(text)
    assert data["all"]["hosts"] == {
        "node-a": {
            "ansible_host": "203.0.113.7",
            "ansible_port": 20022,
            "ansible_user": "root",
            "trainrig_private_address": "10.0.0.1",
        },
        "node-b": {"ansible_host": "203.0.113.8", "ansible_user": "ubuntu", "trainrig_private_address": "10.0.0.2"},
    }
    assert data["all"]["vars"] == {"ansible_ssh_common_args": SSH_ARGS}
    assert list(data["pytorch"]["hosts"]) == list(data["verify"]["hosts"]) == ["node-a", "node-b"]
    known = (A._replace(new=False), B._replace(new=False))
    assert merge(text, *known) == text, "twice the same"


OWN = """# ours
---
all:
  children:
    rack1:
      hosts:
        node-a:   # the first
          ansible_host: "203.0.113.7"   # by the provider
          ansible_port: 22
          trainrig_pool: left # not right
  vars: {ansible_user: root}

# switched off
verify:
  hosts: {}

pytorch:
  hosts:
    node-a: # and here
# the end
"""


def test_the_users_text_survives():
    text = merge(OWN, A._replace(new=False), B)
    gone = [line for line in difflib.ndiff(OWN.splitlines(), text.splitlines()) if line.startswith("- ")]
    assert gone == ["-           ansible_port: 22"]
    assert "          ansible_port: 20022\n" in text
    data = yaml.safe_load(text)
    assert data["all"]["children"]["rack1"]["hosts"]["node-a"]["trainrig_pool"] == "left"
    assert "ansible_user" not in data["all"]["children"]["rack1"]["hosts"]["node-a"], "what holds is not said again"
    assert data["all"]["hosts"]["node-b"]["ansible_user"] == "ubuntu"
    assert data["all"]["hosts"]["node-b"]["ansible_ssh_common_args"] == SSH_ARGS
    assert list(data["pytorch"]["hosts"]) == ["node-a", "node-b"]
    assert not data["verify"]["hosts"], "a layer that was switched off stays off"


def test_a_host_taken_out_of_a_layer_stays_out():
    text = merge(inventory.new_text(), A, B).replace("    node-b:\n\n# Proves", "\n# Proves")
    assert "node-b" not in yaml.safe_load(text)["pytorch"]["hosts"]
    assert merge(text, A._replace(new=False), B._replace(new=False)) == text


@pytest.mark.parametrize(
    ("change", "settings"),
    [
        ({"private_address": "10.0.0.9"}, {"trainrig_private_address": "10.0.0.9"}),
        ({"private_address": None}, {}),
        ({"pool": "left"}, {"trainrig_pool": "left"}),
        ({"key": "~/.ssh/other"}, {"ansible_ssh_private_key_file": "~/.ssh/other"}),
        ({"python": "/usr/bin/python3.9"}, {"ansible_python_interpreter": "/usr/bin/python3.9"}),
        ({"target": A.target._replace(port=None)}, {"ansible_port": 22}),
        ({"target": A.target._replace(host="203.0.113.9")}, {"ansible_host": "203.0.113.9"}),
        ({"target": A.target._replace(jump="me@b:2")}, {"ansible_ssh_common_args": f"{SSH_ARGS} -J me@b:2"}),
        (
            {"target": A.target._replace(options=("IdentitiesOnly=yes",)), "config": "/a b/c"},
            {"ansible_ssh_common_args": f"{SSH_ARGS} -F '/a b/c' -o IdentitiesOnly=yes"},
        ),
    ],
)
def test_only_what_differs_is_set(change, settings):
    text = merge(inventory.new_text(), A)
    present = inventory.hosts(yaml.safe_load(text))["node-a"]
    changed = A._replace(new=False, **change)
    assert inventory.settings(changed, present) == settings
    after = merge(text, changed)
    assert yaml.safe_load(after)["all"]["hosts"]["node-a"].items() >= settings.items()


def test_arguments_for_ssh_that_are_the_users_own_stay():
    present = {"ansible_ssh_common_args": "-o ProxyCommand=mine"}
    jump = A._replace(target=A.target._replace(jump="bastion"))
    assert "ansible_ssh_common_args" not in inventory.settings(jump, present)


@pytest.mark.parametrize("text", ["all: {hosts: {node-z: }}\n", "all:\n  hosts: &h\n    node-z:\n", "- a list\n"])
def test_another_style_is_refused_or_read_right(text):
    data = yaml.safe_load(text)
    try:
        after, expected = inventory.merged(text, data, [A])
        same = yaml.safe_load(after) == expected
    except (CannotEdit, yaml.YAMLError):
        return
    assert not same or "node-z" in after


def test_names_that_are_taken():
    taken = inventory.taken(yaml.safe_load(OWN))
    assert {"all", "rack1", "node-a", "verify", "pytorch"} <= set(taken)
