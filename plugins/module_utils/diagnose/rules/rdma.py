"""Rules about RDMA on one node: ports, what a job needs to use them, the path between GPU and adapter."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from collections import Counter
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose import hardware
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import belongs, installed
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import at_least, numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import listed

FABRICS = ("infiniband", "ib", "roce", "rdma")
Port = Tuple[Mapping[str, Any], Mapping[str, Any]]


def ports(host: Host) -> List[Port]:
    """(device, port) of every RDMA port."""
    return [(device, port) for device in host.rdma_devices for port in device.get("ports") or []]


def active(host: Host) -> List[Port]:
    return [(device, port) for device, port in ports(host) if port.get("state") == "Active"]


def declared(host: Host) -> bool:
    return host.wants.fabric_type in FABRICS


def fabric(host: Host) -> bool:
    """Whether RDMA between nodes is what this node's adapters are for, declared or by what they are.

    Ordinary Ethernet adapters and virtual functions of clouds show as RDMA devices too.
    """
    floor = host.threshold("fabric_rate_gbit_s")
    return declared(host) or any(
        port.get("link_layer") == "InfiniBand"
        or (not device.get("virtual") and (port.get("rate_gbit_s") or 0) >= floor)
        for device, port in active(host)
    )


def there(host: Host) -> bool:
    """Whether the node has RDMA devices at all."""
    stack = host.get("rdma", "stack") or {}
    return bool(host.rdma_devices or stack.get("class_devices") or stack.get("memory_peers"))


def _name(pair: Port) -> str:
    return f"{pair[0].get('name')} port {pair[1].get('port')}"


@host_rule("rdma.none_active")
def none_active(host: Host) -> Iterator[Hit]:
    """RDMA is declared and no port can carry it."""
    if not declared(host) or host.wants.no_hardware:
        return
    asked = (
        host.answered("ibstat")
        or host.answered("ibv_devinfo")
        or host.answered("rdma_link")
        or host.answered("rdma_stack")
    )
    if asked and not active(host):
        lines = [evidence("ibstat", port.get("raw") or _name((device, port))) for device, port in ports(host)[:4]]
        yield Hit(f"{host.wants.fabric_type} is declared, no port is active", lines)


@host_rule("rdma.no_subnet_manager")
def no_subnet_manager(host: Host) -> Iterator[Hit]:
    odd = [
        (device, port)
        for device, port in ports(host)
        if port.get("state") == "Initializing"
        and port.get("physical_state") == "LinkUp"
        and port.get("link_layer") == "InfiniBand"
    ]
    if odd:
        yield Hit(
            f"{listed(_name(pair) for pair in odd)}: cabled, but no subnet manager has set it up",
            [evidence("ibstat", port.get("raw")) for _device, port in odd[:4]],
        )


@host_rule("rdma.port_down")
def port_down(host: Host) -> Iterator[Hit]:
    """A port that is down while equal ones are up; unused ports of other cards are nobody's fault."""
    down = [(device, port) for device, port in ports(host) if port.get("state") == "Down" and not device.get("virtual")]
    up = active(host)
    odd = []
    for device, port in down:
        equals = [
            other
            for other, peer in up
            if other.get("ca_type") == device.get("ca_type") and peer.get("link_layer") == port.get("link_layer")
        ]
        rest = [other for other, peer in down if other.get("ca_type") == device.get("ca_type")]
        if device.get("ca_type") and len(equals) > len(rest):
            odd.append((device, port))
    if odd:
        severity = "fail" if declared(host) else None
        yield Hit(
            f"{listed(_name(pair) for pair in odd)}: down, {len(up)} others are active",
            [evidence("ibstat", port.get("raw")) for _device, port in odd[:4]],
            severity=severity,
        )


@host_rule("rdma.rate_low")
def rate_low(host: Host) -> Iterator[Hit]:
    """A link that trained at a lower rate than its equals, or than declared."""
    groups: Dict[Tuple[object, object], List[Port]] = {}
    for device, port in active(host):
        if port.get("rate_gbit_s"):
            groups.setdefault((device.get("ca_type"), port.get("link_layer")), []).append((device, port))
    for pairs in groups.values():
        usual, times = Counter(port["rate_gbit_s"] for _device, port in pairs).most_common(1)[0]
        floor = host.wants.fabric_rate_gbit_s or (usual if times > len(pairs) / 2 else None)
        slow = [(device, port) for device, port in pairs if floor and port["rate_gbit_s"] < floor]
        if slow:
            text = listed(f"{_name(pair)} {pair[1]['rate_gbit_s']:g}" for pair in slow)
            yield Hit(
                f"{text} Gbit/s, the others {floor:g}",
                [evidence("ibstat", port.get("raw")) for _device, port in slow[:4]],
            )


@host_rule("rdma.pcie_limits")
def pcie_limits(host: Host) -> Iterator[Hit]:
    """The adapter's own PCIe link against the port's rate."""
    by_address = hardware.by_address(host)
    classes = host.fact("pci", "classes", "network") or []
    rates = {
        str(device.get("pci_address")): port.get("rate_gbit_s")
        for device, port in active(host)
        if device.get("pci_address")
    }
    most = max([port.get("rate_gbit_s") or 0 for _device, port in active(host)], default=0)
    odd = []
    kinds = {device.get("id") for device in host.pci if host.vendor(device, "mellanox")}
    for address, device in by_address.items():
        if not host.vendor(device, "mellanox") or device.get("pci_class") not in classes:
            continue
        now, best = device.get("link_speed_gt_s"), device.get("link_speed_max_gt_s")
        width, full = device.get("link_width"), device.get("link_width_max")
        if not now or not best or not width or not full or (now >= best and width >= full):
            continue
        carries = float(now) * int(width) * (0.8 if now < 8 else 128 / 130)
        # Without addresses only a node with one kind of adapter tells which port is whose.
        rate = rates.get(address) or (most if not rates and len(kinds) == 1 else 0)
        if rate and carries < rate:
            odd.append((address, f"{now:g} GT/s x{width} (of {best:g} x{full}) carries {carries:.0f}", rate, device))
    if odd:
        text = listed(f"{address}: PCIe {said} Gbit/s, the port {rate:g}" for address, said, rate, _device in odd)
        lines = [
            evidence(
                "lspci_vv",
                f"{address} LnkSta {device['link_speed_gt_s']:g}GT/s x{device['link_width']}, "
                f"LnkCap {device['link_speed_max_gt_s']:g}GT/s x{device['link_width_max']}",
            )
            for address, _said, _rate, device in odd[:4]
        ]
        yield Hit(text, lines)


@host_rule("rdma.no_providers")
def no_providers(host: Host) -> Iterator[Hit]:
    """The kernel has devices, user space finds none."""
    devices = host.get("rdma", "stack", "class_devices") or []
    if (
        not devices
        or not host.answered("dpkg")
        or installed(host, "verbs_providers")
        or host.get("rdma", "stack", "ofed")
    ):
        return
    if installed(host, "verbs_core"):
        core = next(iter(installed(host, "verbs_core")))
        yield Hit(
            f"{core} is installed without the providers: programs find no RDMA device",
            [
                evidence("rdma_stack", " ".join(devices[:8])),
                evidence("dpkg", f"{core} is installed, ibverbs-providers is not"),
            ],
        )


@host_rule("rdma.memlock")
def memlock(host: Host) -> Iterator[Hit]:
    if not there(host):
        return
    for where, name in (("login", "a login"), ("sshd_child", "a session of sshd")):
        row = (host.get("limits", where) or {}).get("Max locked memory") or {}
        soft = str(row.get("soft") or "")
        size = int(soft) / 2**20 if soft.isdigit() else None
        if size is not None and size < host.threshold("memlock_mib"):
            text = f"{name} may lock {size:g} MiB of memory"
            yield Hit(text, [evidence("limits", row.get("raw"))], severity=None if fabric(host) else "info")
            return


@host_rule("rdma.gpudirect_off")
def gpudirect_off(host: Host) -> Iterator[Hit]:
    """nvidia_peermem, or the open module and a kernel with DMA-BUF."""
    if not fabric(host) or not active(host) or not host.driver_loaded or not host.gpus or host.modules is None:
        return
    if "nvidia_peermem" in host.modules or "nv_peer_mem" in host.modules:
        return
    limit = host.fact("rules", "dma_buf_kernel") or {}
    if host.get("nvidia", "driver", "module_flavour") == "open" and at_least(host.kernel, limit.get("kernel")):
        return
    lines = [
        evidence("modules", "nvidia_peermem is not loaded"),
        evidence("nvidia_version", host.get("nvidia", "driver", "module_raw")),
    ]
    yield Hit(
        "no GPUDirect RDMA: neither nvidia_peermem nor DMA-BUF", lines, severity="fail" if declared(host) else None
    )


@host_rule("rdma.peermem_of_old_stack")
def peermem_of_old_stack(host: Host) -> Iterator[Hit]:
    """The network driver moved, the module that was compiled against it did not."""
    rejected = host.kernel_lines(r"nvidia_peermem: (disagrees about version of symbol|Unknown symbol)")
    wanted = [
        row
        for row in host.get("configuration", "modprobe_directives") or []
        if row.get("directive") == "load" and row.get("module") == "nvidia_peermem"
    ]
    loaded = host.modules is not None and "nvidia_peermem" in host.modules
    if rejected:
        yield Hit("nvidia_peermem does not fit the network stack", [evidence("dmesg", line) for line in rejected[:2]])
        return
    moved = _moved_after_driver(host)
    if moved and wanted and host.modules is not None and not loaded and host.driver_loaded:
        yield Hit(
            "nvidia_peermem is to be loaded and is not; the network stack was upgraded after the driver was built",
            [evidence("apt_history", moved), evidence("modprobe", f"{wanted[0]['file']}: nvidia_peermem")],
        )


def _moved_after_driver(host: Host) -> Optional[str]:
    """The last upgrade of OFED with no driver package in the same or a later operation."""
    found: Optional[str] = None
    for entry in host.get("packages", "history") or []:
        rows = [row for rows in (entry.get("actions") or {}).values() for row in rows]
        names = [str(row.get("name", "")).split(":")[0] for row in rows]
        if any(belongs(host, "dkms", name) for name in names):
            found = None
        for row, name in zip(rows, names):
            if (
                belongs(host, "ofed", name)
                and row.get("from")
                and row.get("to")
                and not any(belongs(host, "dkms", one) for one in names)
            ):
                found = f"{entry.get('start') or ''} {name} {row['from']} -> {row['to']}"
    return found


@host_rule("rdma.access_control")
def access_control(host: Host) -> Iterator[Hit]:
    """PCIe ACS redirects peer traffic over the root complex; in a virtual machine it must stay."""
    if host.virtual or host.passed_through or not host.pci_gpus:
        return
    bridge = host.fact("pci", "classes", "pci_bridge")
    redirecting = [
        device
        for device in host.pci
        if device.get("pci_class") == bridge
        and device.get("acs")
        and (device["acs"].get("ReqRedir") or device["acs"].get("CmpltRedir"))
    ]
    if not redirecting:
        return
    lines = []
    for device in redirecting[:4]:
        flags = " ".join(f"{name}{'+' if on else '-'}" for name, on in device["acs"].items())
        lines.append(evidence("lspci_vv", f"{device['address']} ACSCtl: {flags}"))
    concerns = len(host.pci_gpus) > 1 and not host.pci_nvswitches
    severity = None if concerns or fabric(host) else "warn"
    yield Hit(
        f"{listed(device['address'] for device in redirecting)} redirects peer traffic (ACS)", lines, severity=severity
    )


@host_rule("rdma.two_fabrics")
def two_fabrics(host: Host) -> Iterator[Hit]:
    """Ports of one node that see different subnet managers under the default prefix."""
    seen: Dict[int, str] = {}
    for device, port in active(host):
        if port.get("link_layer") != "InfiniBand" or not port.get("sm_lid"):
            continue
        gids = [str(gid.get("gid")) for gid in port.get("gids") or []]
        if gids and not any(gid.lower().startswith("fe80:") for gid in gids):
            continue
        seen.setdefault(int(port["sm_lid"]), f"{device.get('name')}: SM lid {port['sm_lid']}")
    if len(seen) > 1:
        yield Hit(
            f"{len(seen)} InfiniBand fabrics with one subnet prefix",
            [evidence("ibstat", text) for text in seen.values()],
        )


@host_rule("rdma.second_subnet_manager")
def second_subnet_manager(host: Host) -> Iterator[Hit]:
    """A subnet manager declared or running here although another one is master."""
    masters = [
        (device, port)
        for device, port in active(host)
        if port.get("link_layer") == "InfiniBand" and port.get("sm_lid") and port.get("lid") != port.get("sm_lid")
    ]
    lids = {port.get("lid") for _device, port in ports(host)}
    masters = [(device, port) for device, port in masters if port.get("sm_lid") not in lids]
    if not masters:
        return
    unit = next(
        (host.unit(name) for name in ("opensm", "opensmd") if (host.unit(name) or {}).get("active") == "active"), None
    )
    line = [
        evidence(
            "ibstat", f"{_name(masters[0])}: Base lid {masters[0][1].get('lid')}, SM lid {masters[0][1].get('sm_lid')}"
        )
    ]
    if host.wants.subnet_manager == host.name:
        yield Hit(
            "a subnet manager is declared for this host, the fabric has one already",
            [*line, evidence("stack", f"subnet manager: {host.name}")],
        )
    elif unit:
        yield Hit("opensm runs here as a second subnet manager", [*line, host.unit_evidence("opensm")], severity="warn")


@host_rule("rdma.lossy_roce")
def lossy_roce(host: Host) -> Iterator[Hit]:
    qos: Mapping[str, Mapping[str, Any]] = host.get("rdma", "stack", "qos") or {}
    roce = {str(port.get("netdev")) for _device, port in active(host) if port.get("link_layer") == "Ethernet"}
    roce |= {str(device.get("name")) for device, port in active(host) if port.get("link_layer") == "Ethernet"}
    off = [name for name, row in qos.items() if row.get("pfc") == [] and (name in roce or not roce)]
    if off:
        yield Hit(
            f"no priority has flow control on {listed(off)}",
            [evidence("rdma_stack", f"{name}: {qos[name].get('raw')}") for name in off[:3]],
        )


@host_rule("rdma.firmware_old")
def firmware_old(host: Host) -> Iterator[Hit]:
    want = host.wants.min_firmware
    if not want:
        return
    odd = [
        device
        for device in host.rdma_devices
        if device.get("firmware") and at_least(device["firmware"], want) is False and not device.get("virtual")
    ]
    if odd:
        yield Hit(
            f"{listed(device['name'] for device in odd)}: firmware {odd[0]['firmware']}, at least {want} is declared",
            [
                evidence("ibstat", f"{device['name']} board {device.get('board')} firmware {device['firmware']}")
                for device in odd[:4]
            ],
            want=want,
        )


@host_rule("rdma.ofed_of_another_kernel")
def ofed_of_another_kernel(host: Host) -> Iterator[Hit]:
    """What nvidia_peermem and others are compiled against."""
    path = str(host.get("rdma", "stack", "ofed_kernel_source") or "")
    match = re.search(r"/([0-9]+\.[0-9]+\.[^/]+)/?$", path)
    if match and host.kernel and match.group(1) != host.kernel and numbers(match.group(1)):
        yield Hit(f"OFED's headers are for kernel {match.group(1)}, {host.kernel} runs", [evidence("rdma_stack", path)])
