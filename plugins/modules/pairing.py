#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/pairing.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pairing
short_description: Plan the next round in which groups of nodes measure together
version_added: 0.1.0
description:
  - Says for one host with which others it measures in the next round, by which address and under which name; or that
    all rounds are done and what they have shown.
  - Every host computes the same rounds from what all of them keep in a fact, so that nobody has to be told.
  - Contacts no node.
options:
  stage:
    description:
      - V(pairs) finds the node, link, rail or switch that is slow or silent, in rounds of pairs and of growing sets.
      - V(fleet) is one round with all nodes in one group.
    type: str
    choices: [pairs, fleet]
    required: true
  places:
    description: What M(trainrig.gpu.together) returned as C(places), the address, interface and ranks of each host.
    type: dict
    required: true
  told:
    description:
      - Name of the fact in which each host keeps what its rounds brought.
      - A list of C(stage), C(round), C(group), C(rail) and C(result), which is what C(group_run.py) printed.
    type: str
    required: true
  seed:
    description: Number that all hosts have in common; it shuffles the pairs.
    type: int
    required: true
  seconds:
    description: Time for all rounds of the stage together. When it is used up, no further round begins.
    type: float
    required: true
  ranks:
    description: Ranks on each node. 0 means as many as C(places) says.
    type: int
    default: 0
  floor_gb_s:
    description: Bus bandwidth in GB/s that a pair has to reach. 0 means that pairs are compared with each other.
    type: float
    default: 0
  launcher:
    description:
      - How ranks are started. V(mpi) starts nccl-tests on the nodes by SSH.
      - It is taken only where every host's C(places) says under C(said) that it has OpenMPI, the programs, and another
        user than root; else it is V(torchrun).
    type: str
    choices: [torchrun, mpi]
    default: torchrun
  backend:
    description: Over what the ranks talk. Over V(gloo), pairs have to differ by more to be told apart.
    type: str
    choices: [nccl, gloo]
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
- name: Plan the next round
  trainrig.gpu.pairing:
    stage: pairs
    places: "{{ together.places }}"
    told: my_rounds
    seed: "{{ together.asked.seed }}"
    seconds: 600
    backend: nccl
  register: round
"""

RETURN = r"""
finished:
  description: Whether there is no further round.
  returned: always
  type: bool
joins:
  description: Whether this host is part of a group of the next round.
  returned: always
  type: bool
round:
  description: Number of the next round, from 0 on.
  returned: always
  type: int
asked:
  description: The group and this host's place in it; empty where it has none.
  returned: always
  type: dict
  sample: {group: [node-a, node-b], rail: null, id: trainrig-7-pairs-0-0, nodes: 2, nproc: 8, host: 10.0.0.11,
           address: 10.0.0.12, interface: eth1, members: "10.0.0.11:8,10.0.0.12:8"}
record:
  description: All rounds with what they brought, hosts to be left out of a common job as C(apart), and C(conclusion).
  returned: when finished
  type: dict
"""
