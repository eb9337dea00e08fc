#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/profile.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: profile
short_description: Pick the host's profile of the lock by what was observed
version_added: 0.1.0
description:
  - Takes the first profile of C(stack.lock.yml) that meets the declaration and fits the node (platform, Python,
    GPUs, driver) and says why. When none fits, returns one finding that refuses, with the reason and the fix.
options:
  observation:
    description: The node's observation.
    type: dict
    required: true
  stack:
    description: The declaration with every key filled in, as M(trainrig.gpu.declaration) returns it.
    type: dict
    required: true
  pool:
    description:
      - The pool of the host. Profiles of its own pool are for it alone; without any it gets those of V(default).
    type: str
    default: default
  beyond:
    description:
      - What is declared beyond the keys that choose a profile, as M(trainrig.gpu.declaration) returns it. Where no
        layer that is switched on for the host installs it, one finding that warns says so.
    type: dict
    default: {}
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
- name: Choose the profile of the lock
  trainrig.gpu.profile:
    observation: "{{ trainrig_observation }}"
    stack: "{{ declared.stack }}"
"""

RETURN = r"""
profile:
  description: The profile; empty when no layer of the host needs the lock, or none fits.
  type: dict
  returned: always
requirements:
  description: Text of the profile's requirement file.
  type: str
  returned: always
interpreter:
  description: Path of the Python to make the environment with.
  type: str
  returned: always
system:
  description:
    - The system packages of the host's pool and platform; empty when no layer of the host needs them. Beside what the
      lock says, C(pinned) has every pinned package with its version, C(layers) has for each layer that installs
      C(packages) (name to exact version), C(beside) (installed members of the driver's family that have its version and
      are not locked) and C(remove) (what trainrig installed and the lock does not name any more, and other drivers);
      the driver's also C(family) and C(competing), patterns of its packages and kernel modules that would take the GPU
      instead.
  type: dict
  returned: always
reasons:
  description: Why this profile.
  type: list
  elements: str
  returned: always
findings:
  description: One finding that refuses, when no profile fits.
  type: list
  elements: dict
  returned: always
"""
