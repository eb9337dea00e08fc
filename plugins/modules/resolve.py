#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/resolve.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: resolve
short_description: Say whether driver, CUDA, NCCL, PyTorch, Python and GPUs fit together
version_added: 0.1.0
description:
  - Chooses exact versions for a declared stack on given hardware and gives the reason for each choice.
  - Where the stack cannot work, it names every pair of facts that clash, and the nearest stacks that do work.
  - Decides by C(data/) alone. Nothing is asked of a node, an index or a repository, and nothing is changed.
  - A stack that cannot work is a normal answer (C(ok=false)). An unknown key or an impossible value fails.
options:
  stack:
    description: Keys of C(trainrig_stack); what is left out is C(auto). C(docs/stack.md) lists them.
    type: dict
    default: {}
  gpus:
    description:
      - GPUs of one pool, as keys of C(data/gpus.yml). One entry a model is enough.
      - Without it, C(gpus) of O(stack). An empty list means no GPU.
    type: list
    elements: str
  platform:
    description:
      - Code of NVIDIA's repository path with the machine, as C(ubuntu2404-x86_64) or C(rhel9-sbsa).
      - Without it, the one of C(platforms) of O(stack).
    type: str
  installed:
    description:
      - What is on the node already.
      - C(driver), C(library), C(fabric_manager) - versions; C(module) - C(open) or C(proprietary); C(pythons) - list of
        versions; C(nvswitch), C(container) - true or false.
    type: dict
    default: {}
  today:
    description: Date to judge ends of life and releases by, C(YYYY-MM-DD). Today when not given.
    type: str
  what_if:
    description: Let single keys that are given with C(-e) win over those of O(stack).
    type: bool
    default: false
  show:
    description: Print the answer as a table with its reasons.
    type: bool
    default: false
  fatal:
    description: Fail where the stack cannot work, after printing.
    type: bool
    default: false
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
seealso:
  - module: trainrig.gpu.lock
author: trainrig contributors (@trainrig)
"""

EXAMPLES = r"""
- name: What would this mean on eight H100?
  trainrig.gpu.resolve:
    stack: {pytorch: "2.13", driver: "580"}
    gpus: [H100_SXM5_80]
    platform: ubuntu2404-x86_64
    show: true
"""

RETURN = r"""
ok:
  description: Whether the stack can work.
  type: bool
  returned: always
resolution:
  description: What the stack means exactly. Unknown or not there is null.
  type: dict
  returned: when ok
  sample:
    driver: {version: 580.178.04, branch: "580", module: open}
    fabric_manager: {version: 580.178.04}
    cuda: "13.0"
    nccl: 2.29.7
    cudnn: 9.20.0.48
    pytorch: {version: 2.13.0, variant: cu130}
    tensorflow: null
    python: "3.12"
because:
  description: Each choice with its reason and where that stands.
  type: list
  elements: dict
  returned: always
warnings:
  description:
    - What works but deserves a thought, each with rule, text and source.
    - Ansible itself prints what is returned under this name and passes it on as text only; RV(cautions) has it whole.
  type: list
  elements: dict
  returned: when not O(show)
cautions:
  description: The same, as C(rule), C(text) and C(source).
  type: list
  elements: dict
  returned: always
conflicts:
  description: Each rule that is broken, with the two facts that clash and their sources.
  type: list
  elements: dict
  returned: always
alternatives:
  description: The nearest stacks that work, those that change the fewest values first.
  type: list
  elements: dict
  returned: always
"""
