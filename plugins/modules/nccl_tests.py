#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/nccl_tests.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_tests
short_description: Find the locked source archive of nccl-tests and the node that builds it
version_added: 0.1.0
description:
  - Of each profile the first host of the play that is ready builds; the others copy.
  - The archive is held to the SHA-256 of the lock, wherever it comes from.
  - Contacts no node.
options:
  archive:
    description: A path on the controller, or an address; empty means where C(trainrig_lock.sources) says.
    type: str
    default: ""
  ready:
    description: Name of the fact that a host has when it can build.
    type: str
    required: true
attributes:
  check_mode:
    description: It fetches an archive, so that it is skipped there.
    support: none
  diff_mode:
    description: There is nothing to show.
    support: none
author: trainrig contributors (@trainrig)
"""

EXAMPLES = r"""
- name: Find the archive and who builds
  trainrig.gpu.nccl_tests:
    ready: my_stages_passed
  register: source
"""

RETURN = r"""
builds:
  description: Whether this host builds.
  returned: always
  type: bool
builder:
  description: The host that builds for this one; V(null) where nobody can.
  returned: always
  type: str
file:
  description: The archive on the controller.
  returned: when this host builds
  type: str
sha256:
  description: What the lock says of the archive.
  returned: when the lock names it
  type: str
tag:
  description: Its tag in the lock.
  returned: when the lock names it
  type: str
keep:
  description: Directory on the controller for what was built; it is gone when the run ends.
  returned: always
  type: str
error:
  description: Why there is nothing to build from, as C(piece), C(text) and C(lines).
  returned: always
  type: dict
"""
