"""Which nodes of a pool train together to prove that they can, and over which addresses."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from ansible_collections.trainrig.gpu.plugins.module_utils.report.network import Choice, addresses, choose

LEFT_OUT, APART = "verify.nodes_left_out", "verify.nodes_apart"


class Run(NamedTuple):
    """What this run of Ansible knows."""

    members: Sequence[str]  # the hosts of the pool that are to be verified
    ready: Mapping[str, Mapping[str, Any]]  # hosts whose own stages passed -> {ranks, backend, seed}
    observations: Mapping[str, Mapping[str, Any]]
    declared: Mapping[str, Optional[str]]  # private addresses of the inventory
    at_once: int  # hosts on which Ansible starts a task at the same time
    playing: int  # hosts of the play
    said: Mapping[str, Any] = {}  # what each host brings along beside that


def plan(own: str, run: Run) -> Dict[str, Any]:
    """What this host does: nothing (a pool of one), its part of the job, or say why there is none.

    Every host of the run gets the same job, and the same ``places``: what each host brings. ``reason`` is {rule, text}
    where it is not the whole pool's.
    """
    members = sorted(run.members)
    answer: Dict[str, Any] = {"wanted": len(members) > 1, "joins": False, "reason": None, "asked": {}, "places": {}}
    if not answer["wanted"] or own not in run.ready:
        return answer
    hosts = [name for name in members if name in run.ready]
    missing = [name for name in members if name not in run.ready]
    if missing:
        answer["reason"] = {"rule": LEFT_OUT, "text": f"without {', '.join(missing)}"}
    if len(hosts) < 2:
        return answer
    found = _network(hosts, run)
    if isinstance(found, str):
        return {**answer, "reason": {"rule": APART, "text": found}}
    first = run.ready[hosts[0]]
    backends = {str(run.ready[name]["backend"]) for name in hosts}
    asked = {
        "nodes": len(hosts),
        "ranks": sum(int(run.ready[name]["ranks"]) for name in hosts),
        "backend": backends.pop() if len(backends) == 1 else "gloo",
        "seed": first["seed"],
        "host": found.addresses[hosts[0]],
        "address": found.addresses[own],
        "interface": found.interfaces[own],
    }
    places = {
        name: {
            "address": found.addresses[name],
            "interface": found.interfaces[name],
            "ranks": int(run.ready[name]["ranks"]),
            "network": _network_of(run.observations.get(name) or {}, found.addresses[name]),
            "said": run.said.get(name),
        }
        for name in hosts
    }
    return {**answer, "joins": True, "asked": asked, "places": places}


def _network_of(observation: Mapping[str, Any], address: str) -> Optional[str]:
    """The network that an address is in, as 10.0.0.0/24."""
    return next((str(one.network) for one in addresses(observation) if one.address == address), None)


def _network(hosts: List[str], run: Run) -> Union[Choice, str]:
    """The addresses by which the hosts reach each other, or why there are none to be used."""
    if run.at_once < run.playing:
        return f"forks: {run.at_once}, and the job must start on all {run.playing} hosts of the play at the same time"
    declared = {name: run.declared.get(name) for name in hosts}
    choice = choose({name: run.observations.get(name) or {} for name in hosts}, declared)
    if choice is None:
        return f"{', '.join(hosts)} share no network that could be seen"
    if choice.public:
        return f"the only network that {', '.join(hosts)} share is public, and the job would open ports to everybody"
    for name in hosts:
        if name not in choice.interfaces:
            return f"trainrig_private_address: {choice.addresses[name]}: {name} has no interface with that address"
    return choice
