#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/declaration.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: declaration
short_description: Check what the inventory declares, before any contact
version_added: 0.1.0
description:
  - Validates C(trainrig_stack), reads and checks C(stack.lock.yml) beside the inventory, and fills in the defaults
    of the other settings. Fails with one message per mistake that names file, key, value and the fix.
  - Reads the host's variables C(trainrig_stack), C(trainrig_prefix) (default C(/opt/trainrig)), C(trainrig_manifest)
    (default C(/etc/trainrig/manifest.json) for the default prefix, otherwise C(<prefix>/manifest.json)),
    C(trainrig_python) (default C(<prefix>/env/bin/python)), C(trainrig_pool) (default C(default)), C(trainrig_reboot)
    (default V(never)), C(trainrig_reboot_timeout) (seconds, default 1800), C(trainrig_canary), C(trainrig_batch)
    (default 1), C(trainrig_drain) and C(trainrig_uncordon).
  - With C(trainrig_lock_directory) another lock is read than the one beside the inventory, and what that lock was made
    for takes the place of C(trainrig_stack).
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
- name: Check the declaration
  trainrig.gpu.declaration:
  register: declared
"""

RETURN = r"""
stack:
  description: The declaration with every key filled in.
  type: dict
  returned: always
written:
  description: The declaration that counts, as it was written.
  type: dict
  returned: always
beyond:
  description: What is declared beyond the keys that choose a profile, as it was written.
  type: dict
  returned: always
settings:
  description: Prefix, manifest path, interpreter to verify, directory of the lock, and how nodes may be disturbed.
  type: dict
  returned: always
members:
  description: The hosts that are verified together with this one.
  type: list
  elements: str
  returned: always
lock_digest:
  description: The lock's digest; V(null) when no layer of the host needs the lock.
  type: str
  returned: always
"""
