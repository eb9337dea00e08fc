"""What the links can carry at most: a busbw above it is no result. Computed, never measured.

Inside a node. A GPU sends 2(n-1)/n of its buffer in an all_reduce of n ranks, whatever the algorithm, and busbw is
defined so that this is the link's own rate (nccl-tests, doc/PERFORMANCE.md). Where the switch adds up (NVLS) it
sends (n+1)/n of it, so busbw may exceed the link by 2(n-1)/(n+1).

Over N nodes of g GPUs, n = N g, with S the sum of a node's network cards in one direction and B the buffer:

- all_reduce: a node holds one sum of B and needs the other nodes'. It sends 2(N-1)/N B (reduce_scatter and
  all_gather between nodes); time >= that / S, so busbw <= S (n-1)/n N/(N-1). Where the network adds up (SHARP, on
  InfiniBand) it sends B once: busbw <= 2 S (n-1)/n.
- all_gather, reduce_scatter: (N-1)/N B go into or out of a node, busbw <= S (n-1)/n N/(N-1), the same.
- broadcast: B enters a node, busbw <= S.
- all_to_all: each of g ranks sends (n-g)/n B to other nodes, busbw <= S (n-1) / (g (n-g)).

A GPU's own links carry at most what it sends in all: beside NVLink its share S/g of the network, over PCIe the same
link. The lower of both is the ceiling. An NVLink domain that reaches over nodes counts as one node.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Mapping, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.judge.job import Job


def ceiling(job: Job, collective: str, nodes: int, ranks: int, data: Mapping[str, Any]) -> Optional[float]:
    """Return the busbw in GB/s that the links allow, as far as they are known; None where none is that counts."""
    if ranks < 2 or nodes < 1 or ranks % nodes or job.model is None:
        return None
    if nodes > 1 and job.nvlink_domain >= ranks:
        return _inside(job, collective, ranks, 0.0, data)
    each = ranks // nodes
    if nodes == 1:
        return _inside(job, collective, ranks, 0.0, data)
    if job.network_gb_s is None or job.nvlink_domain > each:
        return None
    network = _between(job, collective, nodes, each, data)
    if network is None or (each == 1 and job.link != "pcie"):
        return network
    inside = _inside(job, collective, each, job.network_gb_s / each, data)
    return network if inside is None else min(inside, network)


def _inside(job: Job, collective: str, ranks: int, beside: float, data: Mapping[str, Any]) -> Optional[float]:
    """What a GPU can send. ``beside``: its share of the network cards, which does not go over NVLink."""
    if job.link in ("nvlink", "bridge") and job.nvlink_gb_s:
        rate = job.nvlink_gb_s + beside
        reducing = data["in_network_reduction"]["nvlink_generation_from"]
        if collective == "all_reduce" and job.through_switch and (job.nvlink_generation or 0) >= reducing:
            # NCCL takes the better way: with few ranks summing in the switch moves more, not less.
            rate *= max(1.0, 2 * (ranks - 1) / (ranks + 1))
        return round(rate, 1)
    if job.link == "pcie" and job.pcie_gb_s:
        return round(job.pcie_gb_s, 1)
    return None


def _between(job: Job, collective: str, nodes: int, each: int, data: Mapping[str, Any]) -> Optional[float]:
    """What a node's network cards allow."""
    rate, ranks = float(job.network_gb_s or 0), nodes * each
    share = (ranks - 1) / ranks
    if collective == "broadcast":
        return round(rate, 1)
    if collective == "all_to_all":
        return round(rate * (ranks - 1) / (each * (ranks - each)), 1)
    if collective == "all_reduce" and job.network_layer == data["in_network_reduction"]["network_layer"]:
        return round(2 * rate * share, 1)
    if collective in ("all_reduce", "all_gather", "reduce_scatter"):
        return round(rate * share * nodes / (nodes - 1), 1)
    return None
