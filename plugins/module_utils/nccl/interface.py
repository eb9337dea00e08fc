"""Over which of its interfaces a node's NCCL talks to the other nodes, or why that cannot be told."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import re
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union

from ansible_collections.trainrig.gpu.plugins.module_utils.report.network import Address, addresses

Ip = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
_DECLARE = "set trainrig_private_address of this host to the address at which the other nodes reach it"


class Choice(NamedTuple):
    """An interface, with the address that led to it where one did; or neither, and `why` says why not."""

    interface: Optional[str]
    address: Optional[str]
    why: str
    fix: Optional[str] = None  # what to do, where it must not stay so


def choose(observation: Mapping[str, Any], private_address: str, peers: Sequence[str], local_interfaces: str) -> Choice:
    """`peers`: the private address of each other node of the pool, "" where none is declared.

    `local_interfaces`: the names, as a pattern, over which no other node is reached (data/rules.yml).
    """
    if not peers:
        return Choice(None, None, "this node is the only one of its pool, and no other has to be reached")
    reachable = [one for one in addresses(observation) if not re.match(local_interfaces, one.interface)]
    if private_address:
        return _declared(observation, private_address, reachable)
    names = list(dict.fromkeys(one.interface for one in reachable))
    if len(names) == 1:
        return Choice(names[0], None, f"Only over {names[0]} can other nodes be reached")
    if not names:
        return Choice(None, None, f"no interface was seen over which other nodes can be reached; {_DECLARE}")
    near = _beside(peers, reachable)
    if len({one.interface for one in near}) == 1:
        why = f"Of {_shown(reachable)} only {near[0].interface} is in one network with all other nodes of the pool"
        return Choice(near[0].interface, near[0].address, why)
    return Choice(None, None, f"{_shown(reachable)} could all be the way to the other nodes; {_DECLARE}")


def _declared(observation: Mapping[str, Any], private_address: str, reachable: Sequence[Address]) -> Choice:
    wanted = _ip(private_address)
    if wanted is None:
        return Choice(None, None, "it is no IP address", _DECLARE)
    for one in reachable:
        if _ip(one.address) == wanted:
            why = (
                f"The other nodes reach this one at {one.address} (trainrig_private_address), which {one.interface} has"
            )
            return Choice(one.interface, one.address, why)
    for link in _links(observation):
        if any(_ip(info.get("local")) == wanted for info in _infos(link)):
            state = "is down" if link.get("operstate") == "DOWN" else "leads to no other node"
            fix = f"{_DECLARE}, or bring the interface up" if link.get("operstate") == "DOWN" else _DECLARE
            return Choice(None, None, f"it is on {link.get('ifname')}, which {state}", fix)
    seen = f"it has {_shown(reachable)}" if reachable else "none was seen over which others can be reached"
    return Choice(None, None, f"no interface of this node has it; {seen}", _DECLARE)


def _beside(peers: Sequence[str], reachable: Sequence[Address]) -> List[Address]:
    """Those whose network holds every other node. An address that is not declared is held by none."""
    others = [_ip(peer) for peer in peers]
    return [one for one in reachable if all(other is not None and other in one.network for other in others)]


def others_first(observation: Mapping[str, Any], choice: Choice) -> Optional[str]:
    """The address that NCCL takes on the interface instead of the chosen one: its first, IPv4 before IPv6."""
    if choice.address is None:
        return None
    infos = [info for link in _links(observation) if link.get("ifname") == choice.interface for info in _infos(link)]
    # An address with a label of its own (eth0:1) is another name to NCCL.
    found = [
        str(info["local"]) for info in infos if info.get("label") in (None, choice.interface) and info.get("local")
    ]
    ranked = sorted(filter(None, map(_ip, found)), key=lambda one: one.version)
    return None if not ranked or ranked[0] == _ip(choice.address) else str(ranked[0])


def names(observation: Mapping[str, Any]) -> Optional[List[str]]:
    """Every interface of the node; None where that is not known."""
    known = (observation.get("network") or {}).get("addresses")
    return None if known is None else [str(link.get("ifname")) for link in _links(observation)]


def version(address: str) -> int:
    return ipaddress.ip_address(address).version


def _links(observation: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for link in (observation.get("network") or {}).get("addresses") or []:
        if isinstance(link, Mapping):
            yield link


def _infos(link: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    return [info for info in link.get("addr_info") or [] if isinstance(info, Mapping)]


def _ip(text: Any) -> Optional[Ip]:
    try:
        return ipaddress.ip_address(str(text))
    except ValueError:
        return None


def _shown(found: Sequence[Address]) -> str:
    return ", ".join(f"{one.interface} ({one.address})" for one in found)
