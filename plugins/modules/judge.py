#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/judge.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge
short_description: Judge what the verification of a node measured
version_added: 0.1.0
description:
  - Takes what the role C(trainrig.gpu.verify) brought back from a node and returns measurements and findings.
  - Results are judged for correctness, for identity with the lock, and all_reduce bandwidth against the floors of
    C(data/thresholds.yml) for this GPU, link, number of GPUs and nodes. Hardware that is not in there gets no number.
  - Contacts no node.
options:
  launches:
    description:
      - Registered results of the commands, by stage (V(environment), V(collectives), V(ddp), V(nodes)).
      - For V(pairs) and V(fleet), what M(trainrig.gpu.pairing) returned at the end.
      - A stage that is not named was switched off; one whose result is C(skipped) counts as not proven.
    type: dict
    required: true
  files:
    description: What M(ansible.builtin.slurp) returned for the documents the stages wrote.
    type: list
    elements: dict
    default: []
  asked:
    description: By stage, what it was asked for (C(ranks), C(backend), C(collectives)).
    type: dict
    default: {}
  observation:
    description: The node's observation, as M(trainrig.gpu.observe) returns it.
    type: dict
    default: {}
  profile:
    description: The host's profile in the lock; empty for an environment that is not ours.
    type: dict
    default: {}
  requirements:
    description:
      - Text of the profile's hash-checked requirement file.
      - Empty, nothing is compared with a lock.
    type: str
    default: ""
  thresholds:
    description:
      - A site's own floors, each with C(models), C(gpus_per_node), C(busbw_gb_s) and optionally C(nodes), C(link),
        C(from_bytes), C(severity), C(source), C(conditions).
      - They replace the published floors of the same job.
    type: list
    elements: dict
    default: []
  before:
    description:
      - An observation (M(trainrig.gpu.observe)) right before the first stage. With O(after), what the load changed in
        the health of GPUs, links and cards is judged too (docs/acceptance.md), with the looks in O(files) that were
        taken meanwhile (C(look.N.json) of C(bounded.py)); one without the other says nothing.
    type: dict
    default: {}
  after:
    description: An observation after the last stage.
    type: dict
    default: {}
  left_out:
    description: What was left out for the budget, each with C(what) and C(why), as M(trainrig.gpu.budget) returns it.
    type: list
    elements: dict
    default: []
  mpi:
    description: What C(mpi_access.py) says of the node, where MPI was asked for.
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
- name: Judge
  trainrig.gpu.judge:
    launches:
      environment: "{{ environment_run }}"
      collectives: "{{ collectives_run }}"
    files: "{{ documents.results }}"
    asked:
      collectives: {ranks: 8, backend: nccl}
    observation: "{{ trainrig_observation }}"
  register: judged
"""

RETURN = r"""
verdict:
  description: V(pass), V(warn), V(fail) or V(incomplete), for this node alone.
  returned: always
  type: str
measurements:
  description: Every number with its conditions, its floor, its physical ceiling and its status.
  returned: always
  type: list
  elements: dict
  sample: [{stage: collectives, collective: all_reduce, backend: nccl, nodes: 1, ranks: 8, size_bytes: 17179869184,
            busbw_gb_s: 481.2, threshold_gb_s: 440, ceiling_gb_s: 700.0, status: pass}]
findings:
  description: What is not right, worst first, each with cause and next step.
  returned: always
  type: list
  elements: dict
versions:
  description: Interpreter, torch, CUDA, NCCL and driver that were verified.
  returned: always
  type: dict
"""
