#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/plan.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Say which layers are dirty on a host, and why
version_added: 0.1.0
description:
  - Compares, for every layer that is switched on for the host, what the node's manifest says was applied with what
    would be applied now (digest) and with what is there now (fingerprints, taken by M(trainrig.gpu.observe)).
  - A layer is clean only when both match. Anything unknown or unreadable is dirty. Every dirty layer has its reasons.
  - Also says whether the verification is due or the recorded result still stands.
  - C(--tags) and C(--skip-tags) with the name of a layer limit which dirty layers are to be applied.
options:
  observation:
    description: The node's observation.
    type: dict
    required: true
  profile:
    description: The host's profile in the lock; empty when no layer of the host needs one.
    type: dict
    default: {}
  system:
    description: The host's system packages of the lock; empty when no layer needs them.
    type: dict
    default: {}
  manifest:
    description: The manifest's path on the node; the key for secret options lies beside it.
    type: path
    required: true
  mode:
    description: What the roles run in.
    type: str
    choices: [disk, oci, live]
    default: live
  recheck:
    description: V(all) makes every layer dirty.
    type: str
    choices: [changed, all]
    default: changed
  verify:
    description: When to verify. V(auto) when something changed or no pass is on record.
    type: str
    choices: [auto, always, never]
    default: auto
  subject:
    description: The Python interpreter that the verification is about.
    type: str
    required: true
  members:
    description: The hosts that are verified together.
    type: list
    elements: str
    required: true
  layers:
    description: Set to V(false) to plan the verification only, as C(playbooks/verify.yml) does.
    type: bool
    default: true
  reboot:
    description: The policy C(trainrig_reboot). With V(never) what needs a driver that waits for a reboot is deferred.
    type: str
    choices: [never, when_needed]
    default: never
  before:
    description: The plan that the run began with, where this one is made in the middle of it, after O(barrier).
    type: dict
  barrier:
    description: The layer up to which O(before) was carried out; its rows stay as they were planned.
    type: str
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
author: trainrig contributors (@trainrig)
"""

EXAMPLES = r"""
- name: Plan
  trainrig.gpu.plan:
    observation: "{{ trainrig_observation }}"
    profile: "{{ trainrig_profile }}"
    manifest: /etc/trainrig/manifest.json
    subject: /opt/trainrig/env/bin/python
    members: [node-a, node-b]
"""

RETURN = r"""
obstacles:
  description: Findings that forbid to apply the plan now, all of severity V(refuse).
  type: list
  elements: dict
  returned: always
plan:
  description: What is dirty on this host.
  type: dict
  returned: always
  contains:
    layers:
      description: Every layer that is switched on, in order. Its state, reasons, digest, inputs and what to expect.
      type: list
      elements: dict
    dirty:
      description: The layers to apply, in order.
      type: list
      elements: str
    steps:
      description:
        - The layers that a run goes through, in order. Those of RV(plan.dirty), and where the driver changes or a
          pending reboot is to be done, all layers from the driver on, since it is looked and planned again after it.
      type: list
      elements: str
    reboot:
      description: Why a reboot is pending; empty when none is.
      type: list
      elements: str
    verify:
      description: Whether the verification is due, why, and otherwise the result that still stands.
      type: dict
"""
