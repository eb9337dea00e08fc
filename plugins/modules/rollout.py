#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/rollout.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout
short_description: Say in which order hosts are upgraded, and whether to go on after one
version_added: 0.1.0
description:
  - Without O(judge) it reads C(trainrig_plan) of O(hosts) and puts those on which something is to be done in order, the
    canaries one by one, then batches.
  - With O(judge) it gives the verdict over one host, as the report does over all of them. What is said of the host's
    pool as a whole does not count, since in the middle of an upgrade a pool is not of one kind.
options:
  hosts:
    description: The hosts that take part.
    type: list
    elements: str
    default: []
  canary:
    description: Hosts that come first, one by one. Empty for the first host of each pool.
    type: list
    elements: str
    default: []
  batch:
    description: How many hosts are changed at the same time after the canaries.
    type: int
    default: 1
  judge:
    description: The host to give the verdict over.
    type: str
  drained:
    description: Whether the host was drained, for what is said where it is not good.
    type: bool
    default: false
  again:
    description: The playbook that goes on after what is wrong was mended.
    type: str
    choices: [upgrade, rollback]
    default: upgrade
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
- name: Say the order
  trainrig.gpu.rollout:
    hosts: "{{ ansible_play_hosts }}"
    batch: 4
  register: rollout
  run_once: true
"""

RETURN = r"""
batches:
  description: C(hosts) of each batch, and C(said), its place among all of them in words.
  type: list
  elements: dict
  returned: without O(judge)
verdict:
  description: The word over the host.
  type: str
  returned: with O(judge)
good:
  description: Whether the run may go on. In check mode an incomplete proof is the normal end.
  type: bool
  returned: with O(judge)
findings:
  description: Where it may not, one finding that says so and what to do.
  type: list
  elements: dict
  returned: with O(judge)
"""
