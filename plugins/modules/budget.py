#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/budget.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: budget
short_description: Say what a verification does in the time that it is given
version_added: 0.1.0
description:
  - Picks stages, message sizes and time budgets by C(data/budgets.yml), and says what is left out for that.
  - Without a budget everything is as it was asked for.
  - Contacts no node.
options:
  budget:
    description: A key of C(data/budgets.yml), as V(5m), V(30m) or V(3h). Empty, there is none.
    type: str
    default: ""
  asked:
    description: What the role's options say.
    type: dict
    required: true
    suboptions:
      backend:
        description: Over what the ranks talk.
        type: str
        choices: [nccl, gloo]
        required: true
      stages:
        description: Stages that are wanted.
        type: list
        elements: str
        required: true
      collectives:
        description: Collectives that are wanted.
        type: list
        elements: str
        required: true
      max_bytes:
        description: Largest message of a sweep, or V(auto).
        type: str
        required: true
      pairs_bytes:
        description: Message of the pairs, or V(auto).
        type: str
        required: true
      seconds:
        description: Time budget of each stage in seconds, where the budget names none.
        type: dict
        required: true
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
- name: Plan the stages
  trainrig.gpu.budget:
    budget: 5m
    asked:
      backend: nccl
      stages: [collectives, ddp]
      collectives: [all_reduce]
      max_bytes: auto
      pairs_bytes: auto
      seconds: {collectives: 300, ddp: 600}
  register: chosen
"""

RETURN = r"""
stages:
  description: Stages to run.
  returned: always
  type: list
  elements: str
collectives:
  description: Collectives to measure.
  returned: always
  type: list
  elements: str
max_bytes:
  description: Largest message of a sweep.
  returned: always
  type: str
pairs_bytes:
  description: Message of the pairs.
  returned: always
  type: str
seconds:
  description: Time budget of each stage in seconds.
  returned: always
  type: dict
looks:
  description: Commands that tell how the hardware is while it is loaded, by probe (M(trainrig.gpu.observe)).
  returned: always
  type: dict
  sample: {nvidia_smi_xml: [nvidia-smi, -q, -x]}
left_out:
  description: What is left out, each with C(what) and C(why).
  returned: always
  type: list
  elements: dict
  sample: [{what: stage ddp, why: the budget of 5m}]
"""
