#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/plan_summary.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_summary
short_description: Print the plan of the whole inventory
version_added: 0.1.0
description:
  - Reads C(trainrig_plan) of every host and prints each layer's state with its reasons,
    minutes and gigabytes to expect.
  - A host that was not reached is named; the plan is then incomplete. The task fails when nothing could be read of any
    host, or when looking at one of them failed.
options:
  strict:
    description: Also fail when any layer is dirty or nothing is known of a host.
    type: bool
    default: false
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
- name: Say the plan
  trainrig.gpu.plan_summary:
    strict: true
"""

RETURN = r"""
drift:
  description: Host to its dirty layers.
  type: dict
  returned: always
"""
