"""Which node of the inventory each visit was to, and the inventory with what was found out."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.adopt import identity, inventory, names, network, table
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.inventory import Adopted
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.lines import Target
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.node import PYTHON
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.reasons import Reason
from ansible_collections.trainrig.gpu.plugins.module_utils.report.summary import part
from ansible_collections.trainrig.gpu.plugins.plugin_utils import adopt_node
from ansible_collections.trainrig.gpu.plugins.plugin_utils.adopt_files import InventoryFiles, Unusable
from ansible_collections.trainrig.gpu.plugins.plugin_utils.adopt_node import Failed
from ansible_collections.trainrig.gpu.plugins.plugin_utils.adopt_ssh import Refused, Ssh
from ansible_collections.trainrig.gpu.plugins.plugin_utils.adopt_visit import Visit
from ansible_collections.trainrig.gpu.plugins.plugin_utils.bundle_over_ssh import Unreachable

Hosts = dict[str, dict[str, Any]]


def name_all(visits: Sequence[Visit], files: InventoryFiles, folder: Path, config: Path | None) -> None:
    """Give each visit the name of its node: the inventory's where it is known there, else its own made valid."""
    alike = identity.first_alike([one.seen() for one in visits])
    for one, first in zip(visits, alike):
        one.same_as = visits[first] if first is not None else None
    own = [one for one in visits if one.same_as is None]
    hosts = inventory.hosts(files.data)
    for one in own:
        one.name = identity.at_address(one.target.host, one.target.port, one.way().port, hosts) or ""
    for one in own:
        if not one.name:
            claimed = {other.name for other in own}
            free = {name: settings for name, settings in hosts.items() if name not in claimed}
            one.name = _moved(one, free, files, folder, config)
    taken = {*inventory.taken(files.data), *(one.name for one in own)}
    for one in own:
        one.new = not one.name
        if one.new:
            one.name = names.inventory_name(one.reached().hostname, one.target.host, taken)
            taken.add(one.name)


def _moved(one: Visit, hosts: Hosts, files: InventoryFiles, folder: Path, config: Path | None) -> str:
    """The host of the inventory that this node was under another address; empty where it is none.

    A host that still answers at that address as another running system is a copy of the same image, not this node.
    """
    places = identity.former_places(one.seen(), files.keys())
    for name, settings in hosts.items() if places else ():
        try:
            target = _target(name, settings)
            way = Ssh(target, folder, f"{name}-before", config)
        except (Refused, ValueError):
            continue
        if way.place() not in places:
            continue
        try:
            way.connect(files.known_hosts)
            there = adopt_node.ask(way.shells()).live
        except (Refused, Failed, Unreachable, OSError):
            there = ""
        finally:
            way.close()
        if there in ("", one.seen().live):
            one.say(f"{one.shown()}: is {name}, which was {target.shown()} before")
            one.former_place = way.place()
            return name
    return ""


def _target(name: str, settings: dict[str, Any]) -> Target:
    words = shlex.split(str(settings.get("ansible_ssh_common_args") or ""))
    jump = next((after for word, after in zip(words, words[1:]) if word == "-J"), None)
    key, port = settings.get("ansible_ssh_private_key_file"), settings.get("ansible_port")
    return Target(
        str(settings.get("ansible_host") or name),
        settings.get("ansible_user"),
        int(port) if port else None,
        str(key) if key else None,
        jump,
    )


def record(visits: Sequence[Visit], files: InventoryFiles, wanted_network: str | None, pool: str | None) -> list[str]:
    """Write the inventory; what a person should know of it."""
    good = [one for one in visits if one.problem is None and one.same_as is None and one.observation is not None]
    if not good:
        return []
    hosts = inventory.hosts(files.data)
    notes = _addresses(good, hosts, wanted_network)
    adopted = [_adopted(one, hosts, wanted_network, pool) for one in good]
    for one, entry in zip(good, adopted):
        changed = one.new or inventory.settings(entry, hosts.get(one.name, {}))
        one.result = "adopted" if one.new else "updated" if changed else "unchanged"
    by_place = {one.way().place(): one for one in good}
    marked = [
        key._replace(machine=one.node.machine_id)
        for place, one in by_place.items()
        for key in one.keys
        if one.node and key.place == place
    ]
    gone = [one.former_place for one in good if one.former_place and one.former_place not in by_place]
    files.write_keys(marked, gone)
    model = files.settle(any(_has_gpus(one) for one in good))
    try:
        files.write_hosts(adopted)
    except Unusable as error:
        for one in good:
            one.problem = Reason("hosts.yml could not be changed", "see below")
        return [str(error)]
    if model:
        notes.append(f"Settings and lock are those of inventories/{model}: group_vars/all.yml, stack.lock.yml")
    return [*notes, *identity.copies({one.name: one.seen() for one in good}), *_unlike(good)]


def _addresses(good: Sequence[Visit], hosts: Hosts, wanted: str | None) -> list[str]:
    """Give each visit its private address; the ones that have none are named."""
    here = {one.name for one in good}
    others = [settings for name, settings in hosts.items() if name not in here]
    declared = [str(one["trainrig_private_address"]) for one in others if one.get("trainrig_private_address")]
    found = network.private_addresses({one.name: one.observation or {} for one in good}, declared, wanted)
    notes = []
    for one in good:
        present = str(hosts.get(one.name, {}).get("trainrig_private_address") or "")
        # What somebody wrote stays as long as the node has that address.
        kept = present and wanted is None and network.has_address(one.observation or {}, present)
        one.private_address = present if kept else found[one.name]
        if one.private_address is None:
            where = f"in {wanted}" if wanted else "that is private"
            fix = "set trainrig_private_address where several nodes train together"
            notes.append(f"{one.name}: no address {where} and its own; {fix}")
    return notes


def _adopted(one: Visit, hosts: Hosts, wanted: str | None, pool: str | None) -> Adopted:
    python = one.reached().python()
    key = one.own_key.private if one.own_key and one.own_key.private else one.target.key
    return Adopted(
        name=one.name,
        target=one.target,
        user=one.way().user,  # by which ssh logs in; what the node says of itself is not written down
        key=key,
        config=str(one.config) if one.config else None,
        python=None if python == PYTHON else python,
        private_address=one.private_address,
        pool=pool,
        new=one.new,
    )


def _has_gpus(one: Visit) -> bool:
    """GPUs for us: one that no driver serves yet counts, one that was given to others does not."""
    return any(not gpu.get("hidden") for gpu in part(one.observation, "nvidia", "gpus") or [])


def _unlike(good: Sequence[Visit]) -> list[str]:
    """Nodes of one pool have to be alike."""
    kinds = {one.name: table.gpus(one.observation or {}) for one in good}
    if len(set(kinds.values())) < 2:
        return []
    return ["The nodes have different GPUs; what trains together is a pool of its own: fab adopt ... --pool NAME"]
