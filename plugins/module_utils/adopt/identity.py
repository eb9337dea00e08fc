"""Which node of an inventory a node is: by where it answers, by its host key and machine-id, never by its name."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set

from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.known_hosts import HostKey


class Seen(NamedTuple):
    """What identifies a node that has answered."""

    place: str  # as known_hosts names it
    blobs: Set[str]  # its host keys
    machine_id: str
    live: str  # equal only for the same running system


def at_address(
    host: str, port: Optional[int], resolved: int, inventory: Mapping[str, Mapping[str, Any]]
) -> Optional[str]:
    """The host of the inventory that is reached at this address. ``resolved``: the port that ssh itself would take."""
    for name, settings in inventory.items():
        own = settings.get("ansible_port")
        same_port = port in (None, 22) if own is None else str(own) == str(resolved)
        if settings.get("ansible_host", name) == host and same_port:
            return name
    return None


def former_places(seen: Seen, known: Iterable[HostKey]) -> List[str]:
    """The places at which a node with this key and this machine-id was seen before.

    Both have to agree: images are copied with either. A node without a machine-id is known by its address alone.
    """
    return [
        key.place
        for key in known
        if seen.machine_id and key.machine == seen.machine_id and key.blob in seen.blobs and key.place != seen.place
    ]


def first_alike(nodes: Sequence[Seen]) -> List[Optional[int]]:
    """For each node the earlier one that is the same running system."""
    first: Dict[str, int] = {}
    found: List[Optional[int]] = []
    for number, one in enumerate(nodes):
        earlier = first.setdefault(one.live, number) if one.live else number
        found.append(earlier if earlier != number else None)
    return found


def copies(nodes: Mapping[str, Seen]) -> List[str]:
    """Nodes that are copies of one image, so that one passes for the other: said, with what to do."""
    notes = []
    names = list(nodes)
    for number, name in enumerate(names):
        for other in names[:number]:
            one, two = nodes[name], nodes[other]
            if one.machine_id and one.machine_id == two.machine_id:
                fix = "on one of them: rm /etc/machine-id && systemd-machine-id-setup"
                notes.append(f"{name} and {other} have the same machine-id, as copies of one image have; {fix}")
            if one.blobs & two.blobs:
                fix = "on one of them: rm /etc/ssh/ssh_host_*_key* && ssh-keygen -A, then restart sshd"
                notes.append(f"{name} and {other} have the same host key: each can pass for the other; {fix}")
    return notes
