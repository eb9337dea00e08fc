"""Rules about what steers NCCL and Gloo: variables, interfaces, adapters, address tables."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose import hardware
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host, Setting
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.rules.rdma import active, fabric, ports, there
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import at_least, numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import listed


def interfaces(host: Host) -> Optional[Dict[str, Mapping[str, Any]]]:
    """Network interfaces by name, None when they are not known."""
    rows = host.get("network", "addresses")
    return None if rows is None else {str(row.get("ifname")): row for row in rows if isinstance(row, Mapping)}


def usable(host: Host, name: str, row: Mapping[str, Any]) -> bool:
    """Whether other nodes can be reached over it: up, with an address, no loopback, no bridge of a container engine."""
    if re.match(str(host.fact("rules", "local_interfaces") or "$^"), name) or "LOOPBACK" in (row.get("flags") or []):
        return False
    return str(row.get("operstate")) != "DOWN" and bool(row.get("addr_info"))


@host_rule("nccl.debugging_switch")
def debugging_switch(host: Host) -> Iterator[Hit]:
    """Workarounds that were kept; they contradict what the node has."""
    table: Dict[str, Dict[str, str]] = host.fact("rules", "nccl_switches") or {}
    links = [(gpu.get("nvlink") or {}).get("links_active") for gpu in host.gpus]
    devices = hardware.gpu_devices(host)
    # Where nothing counted the links, the product tells.
    by_product = len(devices) > 1 and any(hardware.nvlinks(host, device) for device in devices)
    nvlink = any(links) or (by_product and all(one is None for one in links))
    for name, row in table.items():
        found: Optional[Setting] = next(
            (one for one in host.settings(name) if re.fullmatch(row["values"], one.value.strip())), None
        )
        if not found:
            continue
        needs = row.get("contradicts")
        if needs == "rdma" and not fabric(host):
            # Without RDMA this is how NCCL is told not to look for it.
            continue
        hard = needs == "rdma" or (needs == "nvlink" and nvlink)
        yield Hit(
            f"{found.place} sets {name}={found.value}: {row['effect']}",
            [found.evidence()],
            severity="fail" if hard else None,
            name=name,
            place=found.place,
        )


@host_rule("nccl.socket_interface")
def socket_interface(host: Host) -> Iterator[Hit]:
    known = interfaces(host)
    if known is None:
        return
    for setting in host.settings("NCCL_SOCKET_IFNAME")[:1]:
        value = setting.value.strip()
        if value.startswith("^") or not value:
            return
        exact = value.startswith("=")
        for name in [part for part in value.lstrip("=").split(",") if part]:
            found = [one for one in known if (one == name if exact else one.startswith(name))]
            if not found:
                yield Hit(
                    f"NCCL_SOCKET_IFNAME names {name}, which this node does not have",
                    [setting.evidence(), evidence("ip_addr", " ".join(known))],
                    place=setting.place,
                )
            elif not any(usable(host, one, known[one]) for one in found):
                yield Hit(
                    f"NCCL_SOCKET_IFNAME leads to {listed(found)}, over which no other node is reached",
                    [setting.evidence(), evidence("ip_addr", " ".join(known))],
                    place=setting.place,
                )
            elif len(found) > 1 and name in known:
                yield Hit(
                    f"NCCL_SOCKET_IFNAME={value} also takes {listed(one for one in found if one != name)}",
                    [setting.evidence()],
                    severity="warn",
                    say="prefix",
                    place=setting.place,
                    name=name,
                )
            else:
                continue
            return


@host_rule("nccl.gloo_interface")
def gloo_interface(host: Host) -> Iterator[Hit]:
    known = interfaces(host)
    for setting in host.settings("GLOO_SOCKET_IFNAME")[:1]:
        value = setting.value.strip()
        plain = value.lstrip("=^")
        if value != plain:
            yield Hit(
                f"GLOO_SOCKET_IFNAME={value}: Gloo takes plain names only",
                [setting.evidence()],
                name=plain,
                place=setting.place,
            )
        elif known is not None:
            missing = [name for name in value.split(",") if name and name not in known]
            if missing:
                yield Hit(
                    f"GLOO_SOCKET_IFNAME names {listed(missing)}, which this node does not have",
                    [setting.evidence(), evidence("ip_addr", " ".join(known))],
                    say="missing",
                    place=setting.place,
                )


@host_rule("nccl.adapter_choice")
def adapter_choice(host: Host) -> Iterator[Hit]:
    names = [str(device.get("name")) for device in host.rdma_devices] or [
        str(name) for name in host.get("rdma", "stack", "class_devices") or []
    ]
    if not names:
        return
    for setting in host.settings("NCCL_IB_HCA")[:1]:
        value = setting.value.strip()
        if value.startswith("^") or not value:
            return
        exact = value.startswith("=")
        for part in [one for one in value.lstrip("=").split(",") if one]:
            name = part.split(":")[0]
            found = [one for one in names if (one == name if exact else one.startswith(name))]
            if not found:
                yield Hit(
                    f"NCCL_IB_HCA names {name}, which this node does not have",
                    [setting.evidence(), evidence("ibstat", " ".join(names))],
                    place=setting.place,
                )
                return
            if len(found) > 1 and name in names:
                yield Hit(
                    f"NCCL_IB_HCA={value} also takes {listed(one for one in found if one != name)}",
                    [setting.evidence()],
                    severity="warn",
                    say="prefix",
                    place=setting.place,
                    name=name,
                )
                return


def right_gid(port: Mapping[str, Any]) -> Optional[int]:
    """The index of a RoCE v2 address over IPv4."""
    for gid in port.get("gids") or []:
        if "2" in str(gid.get("type") or "") and re.match(r"(0000:){5}ffff:|::ffff:", str(gid.get("gid")), re.I):
            return int(gid["index"])
    return None


@host_rule("nccl.gid_index")
def gid_index(host: Host) -> Iterator[Hit]:
    """A fixed index is right only where it is a RoCE v2 address with IPv4 on every port."""
    setting = next(iter(host.settings("NCCL_IB_GID_INDEX")), None)
    wanted = host.wants.gid_index
    if wanted is None and setting and re.fullmatch(r"[0-9]+", setting.value.strip()):
        wanted = int(setting.value)
    if wanted is None:
        return
    wrong = []
    for device, port in active(host) or ports(host):
        if port.get("link_layer") == "InfiniBand" or not port.get("gids"):
            continue
        right = right_gid(port)
        at = next((gid for gid in port["gids"] if gid.get("index") == wanted), None)
        good = (
            at is not None
            and "2" in str(at.get("type") or "")
            and re.match(r"(0000:){5}ffff:|::ffff:", str(at.get("gid")), re.I)
        )
        if right is not None and not good:
            wrong.append((str(device.get("name")), right))
    if wrong:
        lines = [setting.evidence()] if setting else [evidence("stack", f"nccl_ib_gid_index: {wanted}")]
        lines += [evidence("gids", f"{name}: RoCE v2 over IPv4 is index {right}") for name, right in wrong[:4]]
        by_index: Dict[int, List[str]] = {}
        for name, right in wrong:
            by_index.setdefault(right, []).append(name)
        text = "; ".join(f"{listed(names)} (right is {right})" for right, names in by_index.items())
        severity = "refuse" if host.wants.gid_index is not None else None
        yield Hit(f"GID index {wanted} is wrong on {text}", lines, severity=severity)


@host_rule("nccl.too_old_for_peermem")
def too_old_for_peermem(host: Host) -> Iterator[Hit]:
    """Old releases look for the module under its former name."""
    limit = host.fact("rules", "peermem_nccl") or {}
    have = str(host.torch.get("nccl") or "")
    if not have or not there(host) or host.modules is None or "nvidia_peermem" not in host.modules:
        return
    if at_least(have, limit.get("nccl")) is False:
        peers = host.get("rdma", "stack", "memory_peers")
        lines = [
            evidence("python_env", f"NCCL {have}"),
            evidence("modules", "nvidia_peermem"),
            evidence("rdma_stack", f"memory_peers: {' '.join(peers or []) or 'none'}"),
        ]
        yield Hit(f"NCCL {have} does not see nvidia_peermem: no GPUDirect RDMA", lines, want=limit.get("nccl"))


def _concerns(row: Mapping[str, Any], host: Host) -> bool:
    """Whether a fault of data/nccl.yml can hit this node."""
    devices = hardware.gpu_devices(host)
    known = [hardware.row(host, device) for device in devices]
    architectures = {str(one.get("arch")) for one in known if one}
    switches = bool(host.pci_nvswitches) or any(one.get("subnet_manager") for one in known)
    conditions = {
        "nvswitch": switches,
        "no_nvswitch": bool(devices) and not switches,
        "imex": any(one.get("imex") for one in known),
        "container": host.container,
    }
    return (
        conditions.get(str(row.get("only")), "only" not in row)
        and (not row.get("architectures") or bool(architectures & set(row["architectures"])))
        and (not row.get("other_architectures") or bool(architectures - set(row["other_architectures"])))
        and (not row.get("machines") or host.get("os", "arch") in row["machines"])
    )


@host_rule("nccl.known_bad")
def known_bad(host: Host) -> Iterator[Hit]:
    """Releases with a fault that hits this very hardware; what only may happen is information."""
    have = numbers(str(host.torch.get("nccl") or ""))[:3]
    for row in host.fact("nccl", "known_bad") or []:
        if have and numbers(row["from"]) <= have <= numbers(row["to"]) and _concerns(row, host):
            text = f"NCCL {host.torch['nccl']}: {row['why']}"
            shown = [evidence("python_env", f"NCCL {host.torch['nccl']}")]
            severity = None if row["severity"] == "refuse" else "info"
            yield Hit(text, shown, severity=severity, fixed=row["fixed"])
