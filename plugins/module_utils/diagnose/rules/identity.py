"""Rules over a pool about who is who: cloned machines, clocks, names that mean different hosts, two subnet managers."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Dict, Iterator, List, Set, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host, Pool
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, pool_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import listed


@pool_rule("fleet.same_machine_id")
def same_machine_id(pool: Pool) -> Iterator[Hit]:
    owners: Dict[str, List[str]] = {}
    for host in pool.hosts:
        found = host.get("identity", "machine_id")
        if found and not host.container:
            owners.setdefault(str(found), []).append(host.name)
    for machine_id, names in owners.items():
        for name in names[1:]:
            yield Hit(f"{name} has the machine-id of {names[0]}", [evidence("identity", machine_id)], host=name)


@pool_rule("fleet.same_gpu")
def same_gpu(pool: Pool) -> Iterator[Hit]:
    """Two names for one machine: its GPUs would be counted twice."""
    owners: Dict[str, str] = {}
    for host in pool.hosts:
        for gpu in host.gpus:
            first = owners.setdefault(str(gpu["uuid"]), host.name) if gpu.get("uuid") else host.name
            if first != host.name:
                yield Hit(
                    f"{host.name} and {first} show the same GPU",
                    [evidence("nvidia_smi_xml", gpu["uuid"])],
                    host=host.name,
                )
                break


@pool_rule("fleet.clock")
def clock(pool: Pool) -> Iterator[Hit]:
    """A host whose clock is off stands out from the others.

    Live looks are compared through the controller's clock, each by the time it may have taken; bundles as they are.
    """
    clocks = {host.name: _offset(host) for host in pool.hosts if host.get("identity", "clock_unix_s") is not None}
    if len(clocks) < 2:
        return
    by_name = {host.name: host for host in pool.hosts}
    for name, (offset, unsure) in clocks.items():
        rest = [other for one, other in clocks.items() if one != name]
        places = [other for other, _unsure in rest]
        # One round, or bundles that were collected on different days? Only the former can be compared.
        together = max(places) - min(places) <= 15 if len(rest) > 1 else True
        # Of three and more the one that is off does not move the middle.
        off = offset - median([offset, *places] if len(places) > 1 else places)
        synchronised = by_name[name].get("identity", "ntp_synchronized")
        limit = by_name[name].threshold("clock_skew_s") * (1 if synchronised is False else 10)
        if len(rest) == 1 and synchronised is not False:
            continue
        if together and abs(off) > limit + unsure + max(other for _offset, other in rest):
            seconds = float(by_name[name].get("identity", "clock_unix_s"))
            yield Hit(
                f"{name}'s clock is {abs(off):.1f} s {'ahead of' if off > 0 else 'behind'} the others",
                [evidence("identity", f"date: {seconds:.3f}, NTPSynchronized={synchronised}")],
                host=name,
            )


def _offset(host: Host) -> Tuple[float, float]:
    """Seconds by which a host's clock is ahead of the controller's (of 1970 for a bundle), and how unsure that is."""
    clock = float(host.get("identity", "clock_unix_s"))
    window = host.get("identity", "asked_unix_s")
    if not window:
        return clock, 0.0
    return clock - (window[0] + window[1]) / 2, (window[1] - window[0]) / 2


@pool_rule("fleet.names")
def names(pool: Pool) -> Iterator[Hit]:
    """What a name means, over all hosts but its owner."""
    answers: Dict[str, List[Tuple[Host, Tuple[str, ...]]]] = {}
    for host in pool.hosts:
        own = {str(name) for name in (host.get("network", "hostname"), host.get("network", "fqdn"), host.name) if name}
        for name, addresses in (host.get("network", "resolved") or {}).items():
            if name not in own and addresses:
                answers.setdefault(str(name), []).append((host, tuple(sorted(set(map(str, addresses))))))
    told: Set[str] = set()
    for name, rows in sorted(answers.items()):
        counts = Counter(found for _host, found in rows)
        if len(counts) < 2:
            continue
        most = max(counts.values())
        usual = next(found for _host, found in rows if counts[found] == most)
        for host, found in rows:
            if found != usual and host.name not in told and not set(found) & set(usual):
                told.add(host.name)
                yield Hit(
                    f"{host.name} takes {name} for {listed(found)}, others for {listed(usual)}",
                    [evidence("hosts", f"{name}: {listed(found)}")],
                    host=host.name,
                )


@pool_rule("fleet.subnet_managers")
def subnet_managers(pool: Pool) -> Iterator[Hit]:
    running = [
        host.name
        for host in pool.hosts
        if any((host.unit(name) or {}).get("active") == "active" for name in ("opensm", "opensmd"))
    ]
    for name in running[1:]:
        yield Hit(
            f"opensm runs on {name} and on {running[0]}", [evidence("units", "opensm.service: active")], host=name
        )
