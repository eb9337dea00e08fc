#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin plugins/action/nccl_result.py, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_result
short_description: Read a log of nccl-tests and say whether it proves anything
version_added: 0.1.0
description:
  - Reads what nccl-tests, rccl-tests or hccl_test printed, or the JSON that nccl-tests write with C(-J), whatever
    launcher wrote around it and NCCL between it.
  - Rows are judged, never the mean that the program prints. A busbw must be algbw times the collective's factor for
    the ranks in the log, as exactly as the printed digits allow; an algbw must be its size by its time; one wrong
    element is a failure; a table is whole when its rows are the declared sweep and give the printed mean.
  - Whether a bandwidth is good is not judged here.
  - Contacts no node and changes nothing.
options:
  log:
    description: The file on the controller.
    type: path
    required: true
  ranks:
    description: How many ranks the job was to have. A log of another number is V(fail).
    type: int
  hosts:
    description: On how many hosts it was to run. A log of another number is V(fail).
    type: int
  declared:
    description:
      - What the path between the ranks should be, held against NCCL's own lines in the log (C(NCCL_DEBUG=INFO)).
      - C(nodes) (how many), C(rdma), C(interface), C(devices) (names of RDMA devices), C(p2p), C(nvls). What is not
        named is not judged; empty, the path is not judged at all.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
  idempotent:
    description: Only reads.
    support: full
seealso:
  - module: trainrig.gpu.judge
author: trainrig contributors (@trainrig)
"""

EXAMPLES = r"""
- name: Read a log
  trainrig.gpu.nccl_result:
    log: all_reduce.log
  register: measured

- name: Two nodes of eight GPUs over RDMA, nothing else
  trainrig.gpu.nccl_result:
    log: all_reduce.log
    ranks: 16
    hosts: 2
    declared: {nodes: 2, rdma: true, interface: eth0}
"""

RETURN = r"""
verdict:
  description:
    - V(fail), something is wrong with it; V(unreadable), nothing is wrong and it is not whole; else V(pass).
    - About correctness, completeness and arithmetic only, and about O(ranks) and O(hosts) where they are given.
  returned: always
  type: str
rows:
  description:
    - Every measurement, two for each line of the table. C(wrong) is null where the program did not count (not
      validated, or a version that prints an error instead); C(busbw_gb_s) is null for hccl_test, which has none.
    - C(collective) is the program's name without C(_perf). Where no line names it, it is taken from the table's shape.
  returned: always
  type: list
  elements: dict
  sample: [{collective: all_reduce, size_bytes: 1073741824, count: 268435456, dtype: float, redop: sum,
            placement: out_of_place, time_us: 4100.2, algbw_gb_s: 261.88, busbw_gb_s: 458.29, wrong: 0}]
ranks:
  description: Ranks of the job by its table of devices; null where it has none, or runs of the log differ.
  returned: always
  type: int
hosts:
  description: Hosts in that table; null as for RV(ranks).
  returned: always
  type: int
host_names:
  description: Their names.
  returned: always
  type: list
  elements: str
nccl_version:
  description: The one NCCL (or RCCL) that the log names; null where it names none or several.
  returned: always
  type: str
nccl_versions:
  description: All of them.
  returned: always
  type: list
  elements: str
errors:
  description: Everything that makes it V(fail).
  returned: always
  type: list
  elements: str
missing:
  description: Why it is not complete.
  returned: always
  type: list
  elements: str
warnings:
  description: What NCCL warned of. A job can end well after a warning.
  returned: always
  type: list
  elements: str
transports:
  description: Channels of each transport by NCCL's own log; empty where the log has none of its lines.
  returned: always
  type: dict
  sample: {NET/IB: 32, P2P/CUMEM: 96}
complete:
  description: Whether every run in the log has its whole table and footer.
  returned: always
  type: bool
validated:
  description: Whether every run checked its results.
  returned: always
  type: bool
runs:
  description: Each run of a program in the log, with its collective, ranks, hosts and number of rows.
  returned: always
  type: list
  elements: dict
evidence:
  description: What NCCL's own log says about the path (pairs of ranks, GPUDirect, channels, interfaces, plugins).
  returned: always
  type: dict
findings:
  description: Why a job failed, as far as its lines say, and what is wrong with the path; each with its next step.
  returned: always
  type: list
  elements: dict
"""
