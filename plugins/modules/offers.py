#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/offers.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: offers
short_description: See whether the system packages of the lock are still on offer
version_added: 0.1.0
description:
  - Asks the repositories of each system of C(stack.lock.yml) that a host with something to do belongs to (its pool and
    platform, and the group of a layer that installs system packages) for every pinned package, by version and SHA-256.
  - Needs C(apt-get) and C(gpgv) on the controller, no rights; changes nothing.
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
- name: Ask the repositories for what the lock names
  trainrig.gpu.offers:
  register: offers
  run_once: true
"""

RETURN = r"""
findings:
  description: Of each host of the inventory the findings that refuse, C(lock.not_offered).
  type: dict
  returned: always
"""
