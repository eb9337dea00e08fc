#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/together.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: together
short_description: Plan the job by which the nodes of a pool prove that they train together
version_added: 0.1.0
description:
  - Says for one host which part it has in the training job over several nodes, and by which addresses and interface;
    or why there is no such job.
  - The network is the one that C(trainrig_private_address) declares on all of them; else the best that they share, as
    their observations show. One that can be reached from outside is not used.
  - Contacts no node.
options:
  members:
    description: The hosts of this host's pool that are to be verified.
    type: list
    elements: str
    required: true
  ready:
    description:
      - Name of the fact that each host of the play has, C(ranks), C(backend) and C(seed), when its own stages passed.
      - Empty or not there, the host takes no part.
    type: str
    required: true
  said:
    description: Name of a fact of each host that C(places) is to hold beside its address, under C(said).
    type: str
    default: ""
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
- name: Plan the job over several nodes
  trainrig.gpu.together:
    members: [node-a, node-b]
    ready: my_stages_passed
  register: together
"""

RETURN = r"""
wanted:
  description: Whether the pool has several hosts.
  returned: always
  type: bool
joins:
  description: Whether this host takes part.
  returned: always
  type: bool
reason:
  description: C(rule) and C(text), where not the whole pool takes part, or nobody.
  returned: always
  type: dict
asked:
  description: The job and this host's place in it; empty where it has none.
  returned: always
  type: dict
  sample: {nodes: 2, ranks: 16, backend: nccl, seed: 7, host: 10.0.0.11, address: 10.0.0.12, interface: eth1}
places:
  description: What each host that takes part brings, C(address), C(network), C(interface), C(ranks) and C(said).
  returned: always
  type: dict
"""
