"""What stands about the nodes in an inventory's hosts.yml, and the text with it: only what has to change is touched."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import copy
import shlex
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.lines import Target
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.yaml_lines import Scalar, YamlLines

#: The groups of layers that a new node is put in.
GROUPS = ("pytorch", "verify")
#: ssh never asks in the middle of a run, and believes the keys that were shown when the node was adopted.
SSH_ARGS = "-o StrictHostKeyChecking=yes -o 'UserKnownHostsFile=\"{{ inventory_dir }}/known_hosts\"'"
NEW = """---
# Made by `fab adopt`: run it again to add nodes or to update these. Comments and settings of your own stay.
# ansible_host is how you reach a node, trainrig_private_address how the nodes reach each other.
all:
  hosts: {}
  vars:
    # The host keys that were shown and accepted; an unknown or changed key is an error.
    ansible_ssh_common_args: %s

# A layer is switched on by its group being non-empty; group name = role name.
# Remove the hosts of a group to switch its layer off.

# Hash-locked Python environment with PyTorch, in /opt/trainrig.
pytorch:
  hosts: {}

# Proves it: identity, collectives, a DDP smoke job.
verify:
  hosts: {}
"""


class Adopted(NamedTuple):
    """A node that is to stand in the inventory, with what was found out about it."""

    name: str
    target: Target
    user: str
    key: Optional[str] = None  # the file to log in with, where ssh would not find it by itself
    config: Optional[str] = None  # a file of ssh's settings other than the user's own
    python: Optional[str] = None  # where it is not the usual one
    private_address: Optional[str] = None
    pool: Optional[str] = None
    new: bool = True


def new_text() -> str:
    return NEW % SSH_ARGS


def hosts(data: Any) -> Dict[str, Dict[str, Any]]:
    """Every host of the inventory with its own settings over those for all, as hosts.yml has them."""
    found: Dict[str, Dict[str, Any]] = {}
    for _path, name, settings in _walk(data, ()):
        found.setdefault(name, {}).update(settings)
    return {name: {**defaults(data), **settings} for name, settings in found.items()}


def defaults(data: Any) -> Dict[str, Any]:
    """What hosts.yml sets for every host."""
    return _mapping(_mapping(_mapping(data).get("all")).get("vars"))


def taken(data: Any) -> List[str]:
    """Every name that a host or group has."""
    groups = [str(group) for path, _name, _settings in _walk(data, ()) for group in path if group != "children"]
    return sorted({*hosts(data), *groups, *map(str, _mapping(data)), *GROUPS})


def settings(adopted: Adopted, present: Mapping[str, Any]) -> Dict[str, Scalar]:
    """What has to be set for a node, given what holds for it already."""
    target = adopted.target
    wanted: Dict[str, Optional[Scalar]] = {
        "ansible_host": target.host,
        "ansible_port": target.port or (22 if present.get("ansible_port") not in (None, 22) else None),
        "ansible_user": adopted.user,
        "ansible_ssh_private_key_file": adopted.key,
        "ansible_ssh_common_args": _ssh_args(adopted, str(present.get("ansible_ssh_common_args", ""))),
        "ansible_python_interpreter": None if present.get("ansible_python_interpreter") else adopted.python,
        "trainrig_private_address": adopted.private_address,
        "trainrig_pool": adopted.pool,
    }
    found = {key: value for key, value in wanted.items() if value is not None and present.get(key) != value}
    if present.get("ansible_host", adopted.name) == target.host:
        found.pop("ansible_host", None)
    return found


def _ssh_args(adopted: Adopted, present: str) -> Optional[str]:
    """The arguments for this node; None where those that hold already say the same, or are the user's own."""
    target = adopted.target
    extras = [*(["-F", adopted.config] if adopted.config else []), *(["-J", target.jump] if target.jump else [])]
    for option in target.options:
        extras += ["-o", option]
    whole = " ".join([SSH_ARGS, *map(shlex.quote, extras)])
    return None if present and not present.startswith(SSH_ARGS) else whole


def merged(text: str, data: Any, adopted: Sequence[Adopted]) -> Tuple[str, Any]:
    """hosts.yml with the nodes in it, and what a YAML reader must find in it then."""
    lines = YamlLines(text)
    expected: Dict[str, Any] = copy.deepcopy(_mapping(data))
    fresh = not hosts(data)
    for one in adopted:
        path = next((path for path, name, own in _walk(expected, ()) if name == one.name and own), ("all",))
        paths: List[Tuple[Tuple[str, ...], Optional[Scalar]]] = [((*path, "hosts", one.name), None)]
        for key, value in settings(one, hosts(expected).get(one.name, defaults(expected))).items():
            paths.append(((*path, "hosts", one.name, key), value))
        if one.new:
            # An empty group is a layer that is switched off; only a first inventory switches them on.
            on = [group for group in GROUPS if fresh or _mapping(_mapping(_mapping(data).get(group)).get("hosts"))]
            paths += [((group, "hosts", one.name), None) for group in on]
        for place, content in paths:
            lines.put(place, content)
            _put(expected, place, content)
    return lines.text(), expected


def _put(data: Dict[str, Any], path: Sequence[str], value: Optional[Scalar]) -> None:
    at = data
    for key in path[:-1]:
        if not isinstance(at.get(key), dict):
            at[key] = {}
        at = at[key]
    if value is not None:
        at[path[-1]] = value
    else:
        at.setdefault(path[-1], None)


def _walk(data: Any, above: Tuple[str, ...]) -> List[Tuple[Tuple[str, ...], str, Dict[str, Any]]]:
    """(path of the group, host, its settings there) for every mention of a host."""
    found = []
    for group, content in _mapping(data).items():
        path = (*above, str(group))
        for name, own in _mapping(_mapping(content).get("hosts")).items():
            found.append((path, str(name), _mapping(own)))
        found += _walk(_mapping(content).get("children"), (*path, "children"))
    return found


def _mapping(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}
