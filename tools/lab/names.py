"""What a lab is: its name, its nodes and their addresses. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

#: All labs of a machine together: so many nodes a lab, so many labs.
MAX_NODES = 32
MAX_LABS = 100
#: The network is a /16: its lower half holds the nodes, the upper half the way to the cache.
NETWORKS = tuple(IPv4Network(f"10.{second}.0.0/16") for second in range(213, 253))
#: "vb-" and the machine's name are the name of a network interface: at most 15 characters.
_NAME = re.compile(r"[a-z][a-z0-9]{0,7}")


class LabError(Exception):
    """What went wrong and what to do about it, in one line."""


@dataclass(frozen=True)
class NodeSpec:
    """One node of a lab: `number` from 1; `base`: the release it runs."""

    number: int
    base: str

    @property
    def name(self) -> str:
        return f"node-{self.number}"


@dataclass(frozen=True)
class Addresses:
    """Who has which address in the labs' network."""

    network: IPv4Network

    @property
    def nodes(self) -> IPv4Network:
        return next(self.network.subnets())

    @property
    def bridge(self) -> IPv4Address:
        return self.nodes[1]

    @property
    def uplink(self) -> IPv4Network:
        """Four addresses: this machine's end, where the cache listens, and the lab's end."""
        return IPv4Network(f"{list(self.network.subnets())[1][0]}/30")

    @property
    def cache(self) -> IPv4Address:
        return self.uplink[1]

    @property
    def gateway(self) -> IPv4Address:
        return self.uplink[2]

    def node(self, lab_number: int, node_number: int) -> IPv4Address:
        return self.nodes[256 * lab_number + 10 + node_number]


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise LabError(f"--name {name}: not a lab's name. To fix it: take up to 8 of a-z and 0-9, a letter first.")
    return name


def machine_name(lab: str, spec: NodeSpec) -> str:
    """The name of a node among all machines of the host."""
    return f"{lab}-{spec.number}"


def deal(bases: Sequence[str], nodes: int | None, known: Iterable[str]) -> list[NodeSpec]:
    """The nodes that were asked for: bases in turn. Without a number one node a base, but at least two."""
    known = sorted(known)
    for base in bases:
        if base not in known:
            raise LabError(f"--base {base}: not known. To fix it: take of {', '.join(known)}.")
    count = max(2, len(bases)) if nodes is None else nodes
    if not 1 <= count <= MAX_NODES:
        raise LabError(f"--nodes {count}: not possible. To fix it: take 1 to {MAX_NODES}.")
    return [NodeSpec(number, bases[(number - 1) % len(bases)]) for number in range(1, count + 1)]


def free_network(taken: Iterable[IPv4Network]) -> IPv4Network:
    """The first network that overlaps nothing this machine knows a way to. The default route covers all: no matter."""
    others = [network for network in taken if network.prefixlen]
    for network in NETWORKS:
        if not any(network.overlaps(other) for other in others):
            return network
    raise LabError(f"all of {NETWORKS[0]} to {NETWORKS[-1]} is in use here. To fix it: free one of these networks.")


def free_number(taken: Iterable[int]) -> int:
    """A new lab's number, which its addresses hold."""
    used = set(taken)
    for number in range(1, MAX_LABS + 1):
        if number not in used:
            return number
    raise LabError(f"there are {MAX_LABS} labs. To fix it: make lab-clean ARGS='--name NAME' for one of them.")
