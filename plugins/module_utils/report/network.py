"""Which network a job should use: the address of the first node that all others can reach, and the interface."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Union

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


class Address(NamedTuple):
    interface: str
    address: str
    network: Network


class Choice(NamedTuple):
    """What to use, and whether the network can be reached from outside (``None``: declared, so not asked)."""

    addresses: Dict[str, str]  # host -> its address
    interfaces: Dict[str, str]  # host -> its interface
    public: Optional[bool]


def addresses(observation: Mapping[str, Any]) -> List[Address]:
    """A host's addresses that others could reach, as `ip -j addr` showed them."""
    found = []
    for link in (observation.get("network") or {}).get("addresses") or []:
        if "LOOPBACK" in (link.get("flags") or []) or link.get("operstate") == "DOWN":
            continue
        for info in link.get("addr_info") or []:
            if info.get("scope") != "global" or not info.get("local"):
                continue
            try:
                network = ipaddress.ip_network(f"{info['local']}/{info.get('prefixlen')}", strict=False)
            except ValueError:
                continue
            found.append(Address(str(link.get("ifname")), str(info["local"]), network))
    return found


def _default_interface(observation: Mapping[str, Any]) -> Optional[str]:
    for route in (observation.get("network") or {}).get("routes") or []:
        if route.get("dst") == "default":
            return str(route.get("dev"))
    return None


def choose(
    observations: Mapping[str, Mapping[str, Any]], declared: Optional[Mapping[str, Optional[str]]] = None
) -> Optional[Choice]:
    """The addresses that are declared for all hosts; else the best network that all of them share.

    Private before public, IPv4 before IPv6, beside the default route first. A bridge that every host has for its own
    containers has the same address everywhere, so it is never chosen.
    """
    per_host = {host: addresses(observation) for host, observation in observations.items()}
    wanted = {host: (declared or {}).get(host) for host in observations}
    if wanted and all(wanted.values()):
        named = {host: str(address) for host, address in wanted.items()}
        interfaces = {
            host: one.interface for host, found in per_host.items() for one in found if one.address == named[host]
        }
        return Choice(addresses=named, interfaces=interfaces, public=None)
    if not per_host or not all(per_host.values()):
        return None
    shared = set.intersection(*({one.network for one in found} for found in per_host.values()))
    ranked = []
    for network in shared:
        picks = {host: next(one for one in found if one.network == network) for host, found in per_host.items()}
        if len({pick.address for pick in picks.values()}) < len(picks):
            continue
        on_default = any(pick.interface == _default_interface(observations[host]) for host, pick in picks.items())
        ranked.append(((not network.is_private, network.version, on_default, str(network)), picks))
    if not ranked:
        return None
    rank, best = min(ranked, key=lambda one: one[0])
    return Choice(
        addresses={host: pick.address for host, pick in best.items()},
        interfaces={host: pick.interface for host, pick in best.items()},
        public=rank[0],
    )
