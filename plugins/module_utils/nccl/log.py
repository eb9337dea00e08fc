"""The path that NCCL took, read from its own log (NCCL_DEBUG=INFO), and what is wrong with that path."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import POOL, finding
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.lines import Message

_CHANNEL = re.compile(
    r"(?P<channel>Channel \d+(?:/\d+)?) : (?P<source>\d{1,7})\[[^\]]*\] -> (?P<target>\d{1,7})\[[^\]]*\] "
    r"(?:\[(?:send|receive)\] )?via (?P<via>\S.*)"
)
_COLLNET = re.compile(r"Coll(?:Net)? \d+(?:/\d+)? : (?P<rank>\d+) \[(?:send|receive)\] via COLLNET/(?P<net>[^/]+)/")
_VERSION = re.compile(r"(?:NCCL|RCCL) version\s*:?\s*(\d+(?:\.\d+)+)")
_CHANNELS = re.compile(
    r"(?P<coll>\d{1,6}) coll channels, (?:(?P<collnet>\d{1,6}) collnet channels, )?"
    r"(?:(?P<nvls>\d{1,6}) nvls channels, )?"
    r"(?P<p2p>\d{1,6}) p2p channels"
)
_GPUDIRECT = re.compile(
    r"GPU Direct RDMA (?:\([^)]*\) )?(?P<state>Enabled|Disabled) for (?:GPU \S+ / )?"
    r"HCA (?P<number>\d+)(?: '(?P<name>[^']+)')?",
    re.IGNORECASE,
)
_DEVICE = re.compile(r"\[\d+\](?P<name>[\w.-]+:\d+(?:/[\w]+)?)")
_BOOTSTRAP = re.compile(r"Bootstrap ?: Using (?P<interface>[^\s:]+):")
_COMMUNICATOR = re.compile(r"rank (?P<rank>\d{1,7}) nranks (?P<ranks>\d{1,7}) ", re.IGNORECASE)
_NODES = re.compile(r"nRanks (?P<ranks>\d{1,7}) nNodes (?P<nodes>\d{1,7}) ")
_PLUGIN = re.compile(r"NET/Plugin ?: Loaded net plugin (?P<name>.+?) \(v\d+\)")
_NETWORK = re.compile(r"Using network (?P<name>\S.*)")
#: What can be declared of a path.
DECLARED = ("nodes", "rdma", "interface", "devices", "p2p", "nvls")
#: Nobody reads more warnings than this of one log.
_MOST_WARNINGS = 20


def versions(messages: Iterable[Message]) -> List[str]:
    """Every NCCL version that a process says it is, one each time."""
    return [match.group(1) for match in (_VERSION.match(one.text) for one in messages) if match]


def warnings(messages: Iterable[Message]) -> List[str]:
    """What NCCL warned of. Alone they prove no failure: a job can end well after one."""
    found = dict.fromkeys(one.raw for one in messages if one.level in ("WARN", "ERROR", "ABORT"))
    return list(found)[:_MOST_WARNINGS]


def transport(via: str) -> Tuple[str, bool]:
    """(name of a transport, GPUDirect) of what stands after `via`."""
    parts = via.strip().split("/")
    name = parts[0].split(" ")[0].strip()
    if len(parts) > 1:
        second = parts[1].split("[")[0].split(" comm ")[0].strip()
        name += "/" + ("direct" if second.startswith("direct") else second)
    return name, "GDRDMA" in via


def evidence(messages: Sequence[Message]) -> Dict[str, Any]:
    """Count what the messages say about the path. A channel that both ends log is one."""
    seen: Set[Tuple[str, ...]] = set()
    transports: Dict[str, int] = {}
    pairs: Dict[Tuple[int, int], Dict[str, int]] = {}
    network_channels = direct_channels = 0
    hcas: Dict[str, Dict[str, int]] = {}
    channels: Dict[str, Optional[int]] = {}
    names: Dict[str, Set[str]] = {"networks": set(), "interfaces": set(), "devices": set(), "plugins": set()}
    nodes: Set[int] = set()
    ranks: Set[int] = set()
    for one in messages:
        text = one.text
        match = _CHANNEL.search(text)
        if match:
            name, direct = transport(match.group("via"))
            key = (match.group("channel"), match.group("source"), match.group("target"), name)
            if key in seen:
                continue
            seen.add(key)
            transports[name] = transports.get(name, 0) + 1
            pair = pairs.setdefault((int(match.group("source")), int(match.group("target"))), {})
            pair[name] = pair.get(name, 0) + 1
            if name.startswith("NET/"):
                network_channels += 1
                direct_channels += direct
            continue
        match = _COLLNET.search(text)
        if match:
            name = f"COLLNET/{match.group('net')}"
            transports[name] = transports.get(name, 0) + 1
            continue
        _note(text, channels, hcas, names)
        match = _NODES.search(text)
        if match:
            nodes.add(int(match.group("nodes")))
        match = _COMMUNICATOR.search(text)
        if match:
            ranks.add(int(match.group("ranks")))
    return {
        "transports": transports,
        "pairs": [{"from": a, "to": b, "transports": told} for (a, b), told in sorted(pairs.items())],
        "network_channels": network_channels,
        "gpudirect_channels": direct_channels,
        "gpudirect": hcas,
        "channels": channels or None,
        "nvls": bool(channels.get("nvls")) if channels.get("nvls") is not None else None,
        "networks": sorted(names["networks"]),
        "devices": sorted(names["devices"]),
        "interfaces": sorted(names["interfaces"]),
        "plugins": sorted(names["plugins"]),
        "nccl_versions": sorted(set(versions(messages))),
        "nodes": max(nodes) if nodes else None,
        "ranks": max(ranks) if ranks else None,
    }


def _note(
    text: str, channels: Dict[str, Optional[int]], hcas: Dict[str, Dict[str, int]], names: Mapping[str, Set[str]]
) -> None:
    match = _CHANNELS.search(text)
    if match:
        for name, value in match.groupdict().items():
            told = channels.get(name)
            # The fewest that a rank has: one rank without NVLS is what counts.
            channels[name] = told if value is None else int(value) if told is None else min(told, int(value))
        return
    match = _GPUDIRECT.search(text)
    if match:
        device = hcas.setdefault(match.group("name") or match.group("number"), {"enabled": 0, "disabled": 0})
        device[match.group("state").lower()] += 1
        return
    match = _BOOTSTRAP.search(text)
    if match:
        names["interfaces"].add(match.group("interface"))
    match = _NETWORK.match(text)
    if match:
        names["networks"].add(match.group("name").strip())
    match = _PLUGIN.search(text)
    if match:
        names["plugins"].add(match.group("name"))
    if text.startswith("NET/IB : Using"):
        names["devices"].update(found.group("name") for found in _DEVICE.finditer(text.partition("OOB")[0]))


def path_findings(
    seen: Mapping[str, Any], declared: Mapping[str, Any], host: Optional[str] = None, pool: str = POOL
) -> List[Finding]:
    """What is wrong with the path that NCCL took.

    ``seen``: of `evidence`. ``declared``: nodes (how many took part), rdma (bool), interface (name), devices (names of
    RDMA devices), p2p (GPUs of a node reach each other directly), nvls (bool); what is not declared is not judged.
    """
    found: List[Finding] = []

    def say(rule: str, summary: str, proof: Iterable[object]) -> None:
        found.append(finding(rule, host, summary, [("nccl", one) for one in proof], pool=pool))

    transports: Mapping[str, int] = seen.get("transports") or {}
    networks = [str(name) for name in seen.get("networks") or []]
    over = {name: count for name, count in transports.items() if name.startswith("NET/")}
    told = [f"{count} channels via {name}" for name, count in sorted(transports.items())]
    versions_seen = seen.get("nccl_versions") or []
    if len(versions_seen) > 1:
        say("verify.path_versions", f"ranks of one job load NCCL {', '.join(versions_seen)}", versions_seen)
    several = int(declared.get("nodes") or 0) > 1
    if declared.get("rdma") and several:
        sockets = "NET/Socket" in over or "Socket" in networks
        if sockets:
            count = over.get("NET/Socket", 0)
            text = f"{count} channels between nodes are NET/Socket" if count else "NCCL uses network Socket"
            say("verify.path_socket", f"RDMA is declared, and {text}", [*map(_using, networks), *told])
        elif not over and not networks:
            say("verify.path_not_shown", "NCCL's log does not say how the nodes are connected", told)
        else:
            _gpudirect(seen, say)
    elif several and not over and not networks:
        say("verify.path_not_shown", "NCCL's log does not say how the nodes are connected", told)
    _declared_names(seen, declared, say)
    shared = {name: count for name, count in transports.items() if name.startswith("SHM")}
    if declared.get("p2p") and shared:
        say("verify.path_shared_memory", f"{sum(shared.values())} channels inside a node go through host memory", told)
    if declared.get("nvls") and seen.get("nvls") is False:
        say("verify.path_no_nvls", "NVLS is expected, and NCCL has no nvls channels", [_counts(seen)])
    return found


def _gpudirect(seen: Mapping[str, Any], say: Any) -> None:
    off = sorted(name for name, states in (seen.get("gpudirect") or {}).items() if states["disabled"])
    channels, direct = int(seen.get("network_channels") or 0), int(seen.get("gpudirect_channels") or 0)
    if channels > direct:
        text = f"{channels - direct} of {channels} channels between nodes are without GPUDirect RDMA"
        say("verify.path_no_gpudirect", text, [f"GPU Direct RDMA Disabled for HCA {name}" for name in off])
    elif off and not channels:
        say("verify.path_no_gpudirect", f"GPUDirect RDMA is off for {', '.join(off)}", off)


def _declared_names(seen: Mapping[str, Any], declared: Mapping[str, Any], say: Any) -> None:
    interface, used = declared.get("interface"), seen.get("interfaces") or []
    if interface and used and used != [interface]:
        say("verify.path_interface", f"bootstrap uses {', '.join(used)}, declared is {interface}", used)
    devices = {str(name).split(":")[0] for name in declared.get("devices") or []}
    took = {str(name).split(":")[0] for name in seen.get("devices") or []}
    if devices and took and devices - took:
        text = f"NCCL does not use {', '.join(sorted(devices - took))}"
        say("verify.path_devices", text, [f"NET/IB : Using {name}" for name in sorted(took)])


def _using(name: str) -> str:
    return f"Using network {name}"


def _counts(seen: Mapping[str, Any]) -> str:
    channels: Mapping[str, Any] = seen.get("channels") or {}
    return ", ".join(f"{value} {name} channels" for name, value in channels.items() if value is not None)
