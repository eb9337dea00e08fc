#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Looks at a node once: every probe it can answer, in one trip, without changing anything."""

from __future__ import annotations

DOCUMENTATION = r"""
module: observe
short_description: Look at a node once, or read what was saved of such a look
version_added: 0.1.0
description:
  - Runs about 60 read-only probes on the node, several at a time and each bounded in time, and returns one observation.
  - A tool that is absent is not an error, and a tool that hangs costs one time-out. Nothing is changed, root is not
    needed; what only root can see is said in the notes of its probe.
  - With O(bundle) it reads saved output on the controller instead and does not contact the node.
options:
  bundle:
    description:
      - A directory on the controller with one file per probe, as O(save) writes it or as made by hand.
      - No node is contacted.
    type: path
  save:
    description:
      - A directory on the controller that gets the raw output of every probe, so that the same observation can be
        read from it with O(bundle).
      - With several hosts, name the host in it.
    type: path
  prefix:
    description: Where trainrig keeps environments on the node. Its state files are looked for there too.
    type: path
  manifest:
    description: The manifest's path on the node. Without it, C(/etc/trainrig) and O(prefix) are tried.
    type: path
  python:
    description: A Python interpreter on the node whose packages and torch are looked at. None, no such look.
    type: path
  peers:
    description: Names of the other nodes; the observation says to which addresses they resolve on this one.
    type: list
    elements: str
    default: []
  probes:
    description: Only these probes. Default, all of them.
    type: list
    elements: str
    default: []
  timeout:
    description: Bound for each command in seconds, where its own is not shorter.
    type: float
  resources:
    description:
      - Layer to resources (C(meta/resources.yml)), whose present state is returned as fingerprints.
      - Those that the manifest records are taken in any case.
    type: dict
    default: {}
  raw:
    description: Also return the raw outputs. Set by O(save).
    type: bool
    default: false
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: There is no change to show.
    support: none
  idempotent:
    description: Only looks.
    support: full
author: trainrig contributors (@trainrig)
"""

EXAMPLES = r"""
- name: Look at the node
  trainrig.gpu.observe:
  register: observed

- name: Look, and keep the raw outputs
  trainrig.gpu.observe:
    save: "bundles/{{ inventory_hostname }}"

- name: Read a bundle
  trainrig.gpu.observe:
    bundle: bundles/node-a
  delegate_to: localhost
"""

RETURN = r"""
observation:
  description: What the node is; docs/observation.md has every name.
  returned: success
  type: dict
outputs:
  description: Raw output per probe, as C(text), C(rc) and C(err).
  returned: when O(raw=true)
  type: dict
"""

import platform

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, fingerprints, probes, source


def recorded(manifest):
    """The resources that a manifest says its layers put in place."""
    layers = manifest.get("layers") if isinstance(manifest, dict) else None
    entries = layers.items() if isinstance(layers, dict) else ()
    return {
        name: entry["resources"]
        for name, entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("resources"), dict)
    }


def main():
    module = AnsibleModule(
        argument_spec={
            "bundle": {"type": "path"},
            "save": {"type": "path"},
            "prefix": {"type": "path"},
            "manifest": {"type": "path"},
            "python": {"type": "path"},
            "peers": {"type": "list", "elements": "str", "default": []},
            "probes": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "float"},
            "resources": {"type": "dict", "default": {}},
            "raw": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    given = module.params
    options = probes.Options(
        given["prefix"], given["manifest"], given["python"], tuple(given["peers"]), hostname=platform.node()
    )
    try:
        wanted = probes.choose(probes.table(options), given["probes"])
    except ValueError as error:
        module.fail_json(msg=str(error))
    outputs = source.LiveSource(given["timeout"]).read(wanted.values())
    observation = build.build(outputs, wanted)
    resources = dict(recorded(observation["manifest"]), **given["resources"])
    observation["fingerprints"] = {layer: fingerprints.take(kinds) for layer, kinds in resources.items()}
    result = {"changed": False, "observation": observation}
    if given["raw"]:
        result["outputs"] = {name: output._asdict() for name, output in outputs.items()}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
