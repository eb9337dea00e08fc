#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/diagnose.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: diagnose
short_description: Judge observed nodes and name cause and next step
version_added: 0.1.0
description:
  - Judges what M(trainrig.gpu.observe) saw of the whole fleet against what is declared, and returns findings.
  - Without O(bundles) it takes C(trainrig_observation), C(trainrig_stack) and C(trainrig_pool) of every host of the
    inventory, also of those that C(--limit) leaves out. A host without an observation counts as unreachable.
  - Runs on the controller and touches no node. One call is for all hosts, so use it with C(run_once).
options:
  bundles:
    description:
      - Directory with one bundle a host, C(DIR/<host>/<probe>), to be judged instead of the inventory.
      - C(DIR/stack.yml) holds the declared stack, C(DIR/<host>/stack.yml) what differs for one host.
    type: path
  output:
    description: File to write the result to, as JSON. It is written before anything fails.
    type: path
  observed:
    description: Results of a looped M(trainrig.gpu.observe) over hosts that are not in the play; C(item) is the host.
    type: list
    elements: dict
    default: []
  stack:
    description: Declared stack, for all hosts. Each host's own wins key by key.
    type: dict
  lock:
    description: Content of the lock, where there is one.
    type: dict
  force:
    description: Refusals to override, each as C(rule@host). They stay as warnings.
    type: list
    elements: str
    default: []
  allow_missing:
    description: Do not refuse a pool because a host of it cannot be reached.
    type: bool
    default: false
  floors:
    description: A site's own hardware floors; they win over C(data/floors.yml) key by key.
    type: dict
    default: {}
  phase:
    description: Name of the phase that the findings carry.
    type: str
    default: preflight
  today:
    description: Date to judge ends of life by, C(YYYY-MM-DD). Today when not given.
    type: str
  show:
    description: Print the findings as a table.
    type: bool
    default: false
  fatal:
    description: Fail when the verdict is fail or refuse, after writing and printing.
    type: bool
    default: false
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
seealso:
  - module: trainrig.gpu.observe
author: trainrig contributors (@trainrig)
"""

EXAMPLES = r"""
- name: Judge the whole fleet once
  trainrig.gpu.diagnose:
    force: "{{ trainrig_force | default([]) }}"
  run_once: true
  register: diagnosis

- name: Judge bundles from a support ticket
  trainrig.gpu.diagnose:
    bundles: tickets/4711
    output: findings.json
    show: true
"""

RETURN = r"""
verdict:
  description: The worst severity - pass, warn, fail or refuse.
  type: str
  returned: always
hosts:
  description: Hosts that were judged.
  type: list
  elements: str
  returned: always
findings:
  description: Findings, the worst first.
  type: list
  elements: dict
  returned: always
  sample:
    - rule: driver.module_library_mismatch
      severity: fail
      layer: driver
      host: node-a
      pool: default
      scope: host
      summary: loaded module 580.95.05, libraries 580.105.08
      cause: unattended-upgrade replaced the libraries while the old kernel module stayed loaded.
      action:
        kind: reboot
        text: Reboot node-a ...
      evidence:
        - probe: nvidia_version
          text: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"
      phase: preflight
by_host:
  description: Each host's findings, with those over its whole pool.
  type: dict
  returned: always
error:
  description: Why the bundles could not be read.
  type: str
  returned: when they could not
"""
