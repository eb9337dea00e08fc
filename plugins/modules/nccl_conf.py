#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/nccl_conf.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_conf
short_description: Say what belongs into a node's nccl.conf
version_added: 0.1.0
description:
  - Chooses the interface over which NCCL reaches the other nodes, and gives the text of C(/etc/nccl.conf) with the
    reason for each line. Where NCCL needs nothing, the text says why in a comment.
  - Interfaces of containers, loopback and interfaces that are down are never chosen. Where several could be the one
    and none is declared, none is.
  - Fails on a declared address that no interface has, and on O(settings) that NCCL does not read or that are for
    debugging. Changes nothing.
options:
  observation:
    description: What M(trainrig.gpu.observe) saw of the node.
    type: dict
    required: true
  private_address:
    description: The address at which the other nodes reach this one. Empty, it is not declared.
    type: str
    default: ""
  peers:
    description: The private address of each other node of the pool, an empty text where none is declared.
    type: list
    elements: str
    default: []
  settings:
    description: More variables and their values; they win over what was chosen.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
seealso:
  - module: trainrig.gpu.observe
author: trainrig contributors (@trainrig)
"""

EXAMPLES = r"""
- name: Decide what goes into nccl.conf
  trainrig.gpu.nccl_conf:
    observation: "{{ trainrig_observation }}"
    private_address: 10.0.0.11
    peers: [10.0.0.12]
    settings: {NCCL_IB_TC: 106}
  register: nccl
"""

RETURN = r"""
text:
  description: The file.
  type: str
  returned: always
  sample: |
    # The other nodes reach this one at 10.0.0.11 (trainrig_private_address), which eth1 has.
    NCCL_SOCKET_IFNAME==eth1
lines:
  description: Its variables, each with its reason.
  type: list
  elements: dict
  returned: always
  sample:
    - name: NCCL_SOCKET_IFNAME
      value: =eth1
      reason: The other nodes reach this one at 10.0.0.11 (trainrig_private_address), which eth1 has
"""
