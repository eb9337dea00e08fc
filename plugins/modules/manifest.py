#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes one entry of the node's manifest, so that a power cut at any moment leaves a true one."""

from __future__ import annotations

DOCUMENTATION = r"""
module: manifest
short_description: Record on the node what was applied there
version_added: 0.1.0
description:
  - Keeps C(manifest.json) on the node, with one entry per layer and one for the last verification.
  - It is a write-ahead record. A layer's entry says C(applying) before its first task and C(clean) only after its
    handlers ran. Each write goes to a new file, is flushed to the disk and renamed over the old one.
  - With O(state=clean) it fingerprints the layer's resources on the node and stores the result beside them.
options:
  path:
    description: The manifest's path. Its directory is created, with mode 0755, when it is missing.
    type: path
    required: true
  entry:
    description: Name of the layer, or C(verify).
    type: str
    required: true
  state:
    description:
      - V(applying) before the layer's first task, with O(digest) and O(inputs). Packages and holds of O(resources) are
        kept as C(ours), with those of entries before it, until V(clean). What an interrupted run may have installed is
        known by it.
      - V(clean) after its handlers, with O(resources); the digest and inputs stored by V(applying) are kept.
      - V(recorded) stores O(record) as it is.
    type: str
    choices: [applying, clean, recorded]
    required: true
  digest:
    description: SHA-256 over the layer's inputs, in hex.
    type: str
  inputs:
    description: The inputs themselves, so that a later difference can be named.
    type: dict
  resources:
    description: The layer's C(meta/resources.yml), templated. Resource kind to list of entries.
    type: dict
    default: {}
  record:
    description: What to store for O(state=recorded).
    type: dict
attributes:
  check_mode:
    description: Says what it would write and writes nothing.
    support: full
  diff_mode:
    description: Shows the entry's state before and after.
    support: full
author: trainrig contributors (@trainrig)
"""

EXAMPLES = r"""
- name: Say that the layer is being applied
  trainrig.gpu.manifest:
    path: /etc/trainrig/manifest.json
    entry: pytorch
    state: applying
    digest: "{{ plan.digest }}"
    inputs: "{{ plan.inputs }}"
"""

RETURN = r"""
fingerprints:
  description: The state of each resource, by kind and name.
  type: dict
  returned: O(state=clean)
"""

import datetime
import fcntl
import json
import os
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.fingerprints import take
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.decide import SCHEMA
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.ownership import MERGED, ours


def read(path):
    """The manifest as it is; an unreadable one is begun anew, since its layers count as dirty anyway."""
    try:
        with open(path, encoding="utf-8") as stream:
            manifest = json.load(stream)
    except (FileNotFoundError, ValueError, RecursionError):
        manifest = {}
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        manifest = {}
    sections = {
        name: manifest.get(name) if isinstance(manifest.get(name), dict) else {} for name in ("layers", "results")
    }
    return dict(manifest, schema=SCHEMA, **sections)


def hold(directory):
    """Two runs at once must not write over each other's entries: held until the descriptor is closed."""
    os.makedirs(directory, mode=0o755, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def write(path, manifest):
    """Replace the manifest in one step that survives a power cut."""
    directory = os.path.dirname(path)
    descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".manifest-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(manifest, stream, indent=1, sort_keys=True)
            stream.write("\n")
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    parent = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def next_entry(module, before):
    """The entry as it shall be."""
    state = module.params["state"]
    if state == "recorded":
        return module.params["record"]
    if state == "applying":
        started = {"started": now(), "digest": module.params["digest"], "inputs": module.params["inputs"]}
        ours = {kind: merged(kind, before, module.params["resources"]) for kind in MERGED}
        return dict(started, state="applying", ours=ours)
    resources = module.params["resources"]
    rest = {key: value for key, value in before.items() if key != "ours"}
    return dict(rest, state="clean", applied=now(), resources=resources, fingerprints=take(resources))


def merged(kind, before, resources):
    """Names of a resource kind that the entry has and that are about to be added."""
    return sorted(ours(before, kind) | set(map(str, resources.get(kind) or [])))


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "entry": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["applying", "clean", "recorded"], "required": True},
            "digest": {"type": "str"},
            "inputs": {"type": "dict"},
            "resources": {"type": "dict", "default": {}},
            "record": {"type": "dict"},
        },
        required_if=[("state", "applying", ["digest", "inputs"]), ("state", "recorded", ["record"])],
        supports_check_mode=True,
    )
    path, name, state = module.params["path"], module.params["entry"], module.params["state"]
    section = "layers" if state != "recorded" else "results"
    result = {"changed": True}
    try:
        lock = None if module.check_mode else hold(os.path.dirname(path))
        manifest = read(path)
        before = manifest[section].get(name)
        before = before if isinstance(before, dict) else {}
        if not module.check_mode:
            after = next_entry(module, before)
            manifest[section][name] = after
            write(path, manifest)
            os.close(lock)
            if state == "clean":
                result["fingerprints"] = after["fingerprints"]
    except OSError as error:
        module.fail_json(
            msg=f"cannot write the manifest {path}: {error.strerror}. "
            "Run as a user that may write there, or choose another trainrig_prefix."
        )
    result["diff"] = {"before": f"{name}: {before.get('state', 'absent')}\n", "after": f"{name}: {state}\n"}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
