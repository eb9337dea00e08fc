"""Which GPUs and adapters of a host hang together, as the report draws it: by PCIe switch, inside a NUMA node."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import natural
from ansible_collections.trainrig.gpu.plugins.module_utils.report.summary import part

#: nvidia-smi's words for two devices below one PCIe switch, or several without a host bridge between them.
_SAME_SWITCH = ("PIX", "PXB")

Device = Dict[str, Any]
Picture = Dict[str, Any]


def picture(observation: Mapping[str, Any]) -> Optional[Picture]:
    """``{nvlink, pairs, groups: [{numa, gpus, nics}], lost}``; None where no tool tells what hangs where.

    nvlink: what connects every pair of GPUs ("NV18"), else None; then ``pairs`` counts the kinds of link between them.
    """
    topology = part(observation, "nvidia", "topology")
    matrix: Mapping[str, Mapping[str, str]] = (topology or {}).get("gpus") or {}
    if not topology or not matrix:
        return None
    gpus = sorted(matrix, key=natural)
    nics = sorted(topology.get("nics") or {}, key=natural)
    groups: List[Tuple[List[str], List[str]]] = []
    for members in _together(gpus, nics, matrix):
        groups.append(([name for name in gpus if name in members], [name for name in nics if name in members]))
    links = [matrix[one].get(other) for index, one in enumerate(gpus) for other in gpus[index + 1 :]]
    kinds = {kind: links.count(kind) for kind in dict.fromkeys(links) if kind}
    same = len(kinds) == 1 and None not in links and next(iter(kinds)).startswith("NV")
    return {
        "nvlink": next(iter(kinds)) if same else None,
        "pairs": kinds,
        "groups": [
            {
                "numa": _numa(members, adapters, topology, observation),
                "gpus": [_gpu(name, observation) for name in members],
                "nics": [_nic(name, topology, observation) for name in adapters],
            }
            for members, adapters in groups
        ],
        "lost": [str(gpu["pci_address"]) for gpu in part(observation, "nvidia", "gpus") or [] if gpu.get("lost")],
    }


def _together(gpus: List[str], nics: List[str], matrix: Mapping[str, Mapping[str, str]]) -> List[List[str]]:
    """Sets of devices below the same switch, in the order of their first GPU."""
    parent = {name: name for name in [*gpus, *nics]}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for gpu in gpus:
        for other, kind in matrix[gpu].items():
            if kind in _SAME_SWITCH and other in parent:
                parent[root(other)] = root(gpu)
    found: Dict[str, List[str]] = {}
    for name in [*gpus, *nics]:
        found.setdefault(root(name), []).append(name)
    return list(found.values())


def _numa(
    gpus: List[str], nics: List[str], topology: Mapping[str, Any], observation: Mapping[str, Any]
) -> Optional[int]:
    """The NUMA node of a group: its GPUs', else its adapters' by what the bus says."""
    known = [(topology.get("numa") or {}).get(name) for name in gpus]
    places = {str(one.get("address")): one.get("numa_node") for one in part(observation, "pci") or []}
    known += [places.get(str((_device(name, topology, observation) or {}).get("pci_address"))) for name in nics]
    found = [number for number in known if isinstance(number, int) and number >= 0]
    return found[0] if found else None


def _gpu(name: str, observation: Mapping[str, Any]) -> Device:
    index = int(name[3:]) if name[3:].isdigit() else None
    for gpu in part(observation, "nvidia", "gpus") or []:
        if gpu.get("index") == index and index is not None:
            return {"name": name, "pci_address": gpu.get("pci_address"), "model": gpu.get("model") or gpu.get("name")}
    return {"name": name, "pci_address": None, "model": None}


def _device(name: str, topology: Mapping[str, Any], observation: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    device = (topology.get("nics") or {}).get(name)
    return next((one for one in part(observation, "rdma", "devices") or [] if one.get("name") == device), None)


def _nic(name: str, topology: Mapping[str, Any], observation: Mapping[str, Any]) -> Device:
    device = _device(name, topology, observation) or {}
    ports = device.get("ports") or []
    first = next((port for port in ports if port.get("state") == "Active"), ports[0] if ports else {})
    keys = ("state", "rate_gbit_s", "link_layer")
    return {"name": name, "device": topology["nics"][name], **{key: first.get(key) for key in keys}}


def alike(pictures: Mapping[str, Optional[Picture]]) -> List[Tuple[Picture, List[str]]]:
    """Each picture once, with the hosts that look so, the commonest first. Addresses do not make a difference."""
    seen: Dict[str, Tuple[Picture, List[str]]] = {}
    for host, one in pictures.items():
        if one is not None:
            seen.setdefault(json.dumps(_shape(one), sort_keys=True), (one, []))[1].append(host)
    return sorted(seen.values(), key=lambda item: -len(item[1]))


def _shape(one: Picture) -> Any:
    groups = [
        (
            group["numa"],
            [(gpu["name"], gpu["model"]) for gpu in group["gpus"]],
            [(nic["name"], nic["state"], nic["rate_gbit_s"]) for nic in group["nics"]],
        )
        for group in one["groups"]
    ]
    return [one["nvlink"], one["pairs"], groups, len(one["lost"])]
