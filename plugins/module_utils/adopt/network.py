"""The address by which the other nodes reach a node."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.report.network import Address, addresses, choose

#: Networks that no one outside can reach: RFC 1918, shared address space (RFC 6598), unique local (RFC 4193).
_PRIVATE = [
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
]
#: Bridges and tunnels that a node has for its own containers and guests.
_OWN = re.compile(r"(docker|br-|virbr|veth|cni|flannel|cali|cilium|podman|lxc|lxd|kube|tailscale|wg|tun)")


def is_private(address: str) -> bool:
    if "%" in address:
        return False
    try:
        there = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(there in network for network in _PRIVATE if network.version == there.version)


def private_addresses(
    observations: Mapping[str, Mapping[str, Any]],
    declared: Iterable[str] = (),
    network: Optional[str] = None,
) -> Dict[str, Optional[str]]:
    """A private address for each node, None where it has none of its own.

    ``network``: the user's own choice. Otherwise the network that all nodes share, or the one where the other nodes of
    the inventory are (``declared``), or the best a node has.
    """
    taken = list(declared)
    candidates = {name: _candidates(observation, network) for name, observation in observations.items()}
    if network is None and len(observations) > 1:
        shared = choose(observations)
        if shared and all(is_private(address) for address in shared.addresses.values()):
            return dict(shared.addresses)
    others = [ipaddress.ip_address(address) for address in taken if _is_ip(address)]

    def best(found: List[Address]) -> Optional[str]:
        ranked = sorted(found, key=lambda one: (not any(other in one.network for other in others), one.network.version))
        return ranked[0].address if ranked else None

    picked = {name: best(found) for name, found in candidates.items()}
    # The same address on several nodes is one that each has for itself.
    several = [address for address in picked.values() if [*picked.values(), *taken].count(address) > 1]
    return {name: None if address in several else address for name, address in picked.items()}


def has_address(observation: Mapping[str, Any], address: str) -> bool:
    return any(one.address == address for one in addresses(observation))


def _candidates(observation: Mapping[str, Any], network: Optional[str]) -> List[Address]:
    # Only what is an address and nothing else: it comes from the node, and Ansible reads templates in an inventory.
    found = [one for one in addresses(observation) if re.match(r"[0-9A-Fa-f:.]+$", one.address)]
    if network is not None:
        wanted = ipaddress.ip_network(network, strict=False)
        return [one for one in found if ipaddress.ip_address(one.address) in wanted]
    return [one for one in found if is_private(one.address) and not _OWN.match(one.interface)]


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
