"""Looks again at what a layer put in place: one small state per resource, equal as long as nothing moved.

The resources are those of the layer's ``meta/resources.yml`` as the manifest recorded them when the
layer was applied, so that the one look at a node needs nothing but the node. Kinds and their entries:

* ``files``: path -> {state, sha256, mode, owner, group}
* ``directories``: path, or {path, not} with names that are left out -> {state, entries: {name: sha256 of a file, or
  what else it is}}
* ``links``: path -> {state, target}
* ``absent``: path -> {state}
* ``environments``: {path, requirements} -> what ``environment_state`` says of a Python environment
* ``packages``: name -> {state, version}; ``holds``: name -> {state}
* ``units``: name -> {state, enabled}; ``modules``: name -> {state}
* ``families``: {family, is, not} with patterns of package names -> {packages: {name: version}}, all that are installed
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import os
import stat
from typing import Any, Callable, Dict, List, Mapping

from ansible_collections.trainrig.gpu.plugins.module_utils.observe import system_state
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.environment_state import environment_state
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.resource_names import name_of

State = Dict[str, Any]
Fingerprints = Dict[str, Dict[str, State]]  # kind -> name -> state


def take(resources: Mapping[str, Any]) -> Fingerprints:
    """The present state of one layer's resources. Never raises: what cannot be read says so in ``unreadable``."""
    found: Fingerprints = {}
    for kind in KINDS:
        entries = resources.get(kind)
        if isinstance(entries, list):
            look = _EACH.get(kind)
            found[kind] = (
                {name_of(entry): _look(look, entry) for entry in entries} if look else _together(kind, entries)
            )
    return found


def _look(look: Callable[[Any], State], entry: Any) -> State:
    try:
        return look(entry)
    except Exception as error:
        # Whatever is wrong with one resource must not cost the look at the node.
        return {"unreadable": f"{type(error).__name__}: {error}"}


def _together(kind: str, names: List[str]) -> Dict[str, State]:
    """Of these the node is asked once for all."""
    try:
        return _ALL[kind](names) if names else {}
    except Exception as error:
        return {name: {"unreadable": f"{type(error).__name__}: {error}"} for name in names}


def _file(path: str) -> State:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return {"state": "absent"}
    if not stat.S_ISREG(status.st_mode):
        return {"state": "not a regular file"}
    sha256 = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            sha256.update(block)
    return {
        "state": "present",
        "sha256": sha256.hexdigest(),
        "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        "owner": status.st_uid,
        "group": status.st_gid,
    }


def _directory(entry: Any) -> State:
    """What lies in it, one level deep: a file that somebody added is a change too."""
    path, left_out = (entry["path"], entry["not"]) if isinstance(entry, Mapping) else (entry, [])
    try:
        names = os.listdir(path)
    except FileNotFoundError:
        return {"state": "absent"}
    entries = {}
    for name in sorted(set(names) - set(left_out)):
        found = _file(os.path.join(path, name))
        entries[name] = str(found.get("sha256") or found["state"])
    return {"state": "present", "entries": entries}


def _link(path: str) -> State:
    if not os.path.lexists(path):
        return {"state": "absent"}
    return {"state": "link", "target": os.readlink(path)} if os.path.islink(path) else {"state": "not a link"}


def _absent(path: str) -> State:
    return {"state": "present" if os.path.lexists(path) else "absent"}


def _environment(entry: Mapping[str, Any]) -> State:
    try:
        with open(entry["requirements"], encoding="utf-8") as stream:
            requirements = stream.read()
    except FileNotFoundError:
        return {"problems": [f"its requirement file {entry['requirements']} is missing"]}
    return dict(environment_state(entry["path"], requirements))


_EACH: Dict[str, Callable[[Any], State]] = {
    "files": _file,
    "directories": _directory,
    "families": system_state.family,
    "links": _link,
    "absent": _absent,
    "environments": _environment,
}
_ALL: Dict[str, Callable[[List[str]], Dict[str, State]]] = {
    "packages": system_state.packages,
    "holds": system_state.holds,
    "units": system_state.units,
    "modules": system_state.modules,
}

#: The resource kinds that meta/resources.yml may name.
KINDS: List[str] = sorted([*_EACH, *_ALL])
