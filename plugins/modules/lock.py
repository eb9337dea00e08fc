#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/lock.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: lock
short_description: Make the lock of an inventory
version_added: 0.1.0
description:
  - Keeps the lock that it replaces, with its requirement files, in C(previous) beside the new one, for
    C(playbooks/rollback.yml).
  - Asks the package index, as it stood at one date, which wheels each profile means, and writes C(stack.lock.yml) and
    one hash-checked requirement file per profile. The same input gives the same bytes.
  - Resolves C(trainrig_stack) of every host of the inventory. For each pool and platform that
    C(trainrig_stack.platforms) names, or else of hosts in the group of a layer that installs system packages
    (C(trainrig_observed), what was seen on them), apt itself solves which packages that means, in a private root with
    nothing installed. It needs C(apt-get) and C(gpgv) on the controller, no rights.
  - Addresses of indexes, credentials, host names and paths never enter a lock.
  - The hashes of wheels that the reachable indexes do not show come from C(data/torch.yml), where it knows them.
  - In check mode nothing is written; the difference is returned either way.
author: trainrig contributors (@trainrig)
options:
  directory:
    description: The inventory's directory.
    type: path
    required: true
  settings:
    description:
      - C(trainrig_lock) of the inventory. C(profiles) are the profiles to lock, in order of preference; without any,
        those of the systems that are locked, and without these those that the declarations mean. Each has C(name),
        C(pytorch) (exact version), C(variant), and may have C(python) (list), C(platform), C(pool) and C(packages)
        (what else the environment gets; V(numpy) when left out).
      - C(sources) are source archives to lock. Each has C(name), C(tag) and C(archive), a path on the controller (from
        the inventory's directory on) or an address.
      - C(index_date) is the date of O(index_date) where that is not given.
    type: raw
  repositories:
    description:
      - Where the origins of C(data/origins.yml) are for this inventory, by origin. Each may have C(url), C(key) (a
        keyring on the controller, from the inventory's directory on) and C(fingerprints) (of a mirror that signs
        itself).
      - Left out, the address is the one at which the controller's own apt has the origin, and the key that of the
        origin's own package.
    type: raw
  index_date:
    description: The instant at which the indexes are looked at; V(now) moves it to this day. Kept when left out.
    type: str
  index_url:
    description: The package index.
    type: str
  extra_index_urls:
    description: More package indexes; they must tell upload dates. Those of pip's settings are not used for a lock.
    type: list
    elements: str
    default: []
  find_links:
    description: Directories or pages with wheels.
    type: list
    elements: str
    default: []
  uv:
    description: The uv program; by default the one beside the Python that runs Ansible.
    type: path
attributes:
  check_mode:
    description: Says what would change without writing.
    support: full
  diff_mode:
    description: Changes are returned as C(changes), for people.
    support: none
  idempotent:
    description: Made again from the same input, the lock is the same.
    support: full
"""

EXAMPLES = r"""
- name: Make the lock
  trainrig.gpu.lock:
    directory: "{{ inventory_dir }}"
    settings: "{{ trainrig_lock }}"
"""

RETURN = r"""
changes:
  description: What the new lock says that the old one did not, one line each.
  type: list
  elements: str
  returned: always
digest:
  description: Digest of the new lock.
  type: str
  returned: always
path:
  description: Where the lock lies.
  type: str
  returned: always
"""
