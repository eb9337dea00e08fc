"""Rules over a pool: what trains together must be reachable and equal; the odd host is named."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Dict, Hashable, Iterator, List, NamedTuple, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose import hardware
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import library
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host, Pool
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, pool_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.rules.health import answering
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.rules.rdma import active
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import branch
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import listed


class Odd(NamedTuple):
    """A host that differs from what most have."""

    host: Host
    value: Any
    usual: Any
    holders: List[str]
    tie: bool

    def than(self) -> str:
        """`the others have X`, or that nobody is in the majority."""
        verb = "has" if len(self.holders) == 1 else "have"
        return f"{listed(self.holders, 3)} {verb} {show(self.usual)}{', no majority' if self.tie else ''}"


def show(value: Any) -> str:
    return listed(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)


def odd_ones(pool: Pool, value: Callable[[Host], Optional[Hashable]]) -> List[Odd]:
    """Hosts that differ from the majority; who does not know is left out. In a tie the first host's value stands."""
    known: List[Tuple[Host, Hashable]] = []
    for host in pool.hosts:
        found = value(host)
        if found is not None:
            known.append((host, found))
    counts = Counter(found for _host, found in known)
    if len(counts) < 2:
        return []
    most = max(counts.values())
    usual = next(found for _host, found in known if counts[found] == most)
    holders = [host.name for host, found in known if found == usual]
    tie = list(counts.values()).count(most) > 1
    return [Odd(host, found, usual, holders, tie) for host, found in known if found != usual]


@pool_rule("fleet.host_unreachable")
def host_unreachable(pool: Pool) -> Iterator[Hit]:
    for name, why in pool.missing.items():
        severity = "warn" if pool.allow_missing else None
        yield Hit(f"{name} of pool {pool.name} was not observed: {why}", severity=severity, host=name, pool=pool.name)


def _models(host: Host) -> Optional[Hashable]:
    devices = hardware.gpu_devices(host)
    if not devices:
        return () if host.answered("lspci") else None
    return tuple(sorted({hardware.kind(host, device) for device in devices}))


@pool_rule("fleet.gpu_models")
def gpu_models(pool: Pool) -> Iterator[Hit]:
    for odd in odd_ones(pool, _models):
        mine, theirs = show(odd.value) if odd.value else "no GPU", show(odd.usual) if odd.usual else "no GPU"
        verb = "has" if len(odd.holders) == 1 else "have"
        text = f"{odd.host.name} has {mine}, {listed(odd.holders, 3)} {verb} {theirs}"
        lines = [evidence("lspci", device.get("raw")) for device in hardware.gpu_devices(odd.host)[:2]]
        yield Hit(text + (", no majority" if odd.tie else ""), lines, host=odd.host.name)


@pool_rule("fleet.gpu_count")
def gpu_count(pool: Pool) -> Iterator[Hit]:
    def value(host: Host) -> Optional[Hashable]:
        usable = len(answering(host)) if host.answered("nvidia_smi_xml") else len(host.pci_gpus)
        return usable or None

    for odd in odd_ones(pool, value):
        yield Hit(
            f"{odd.host.name} has {odd.value} usable GPUs, {odd.than()}",
            [evidence("nvidia_smi_xml", f"{odd.value} GPUs")],
            host=odd.host.name,
        )


def _driver(host: Host) -> Optional[str]:
    return host.module_version or (library(host) or (None,))[0]


@pool_rule("fleet.driver")
def driver(pool: Pool) -> Iterator[Hit]:
    branches = {odd.host.name for odd in odd_ones(pool, lambda host: branch(_driver(host)))}
    for odd in odd_ones(pool, _driver):
        severity = "fail" if odd.host.name in branches else "warn"
        yield Hit(
            f"{odd.host.name} has driver {odd.value}, {odd.than()}",
            [evidence("nvidia_version", odd.value)],
            severity=severity,
            host=odd.host.name,
        )


@pool_rule("fleet.torch")
def torch(pool: Pool) -> Iterator[Hit]:
    for odd in odd_ones(pool, lambda host: host.torch.get("version")):
        yield Hit(
            f"{odd.host.name} has torch {odd.value}, {odd.than()}",
            [evidence("python_env", f"torch {odd.value}")],
            host=odd.host.name,
        )


@pool_rule("fleet.nccl")
def nccl(pool: Pool) -> Iterator[Hit]:
    for odd in odd_ones(pool, lambda host: host.torch.get("nccl")):
        yield Hit(
            f"{odd.host.name} has NCCL {odd.value}, {odd.than()}",
            [evidence("python_env", f"NCCL {odd.value}")],
            host=odd.host.name,
        )


@pool_rule("fleet.kernel")
def kernel(pool: Pool) -> Iterator[Hit]:
    for odd in odd_ones(pool, lambda host: host.kernel):
        yield Hit(
            f"{odd.host.name} runs kernel {odd.value}, {odd.than()}", [evidence("uname", odd.value)], host=odd.host.name
        )


@pool_rule("fleet.vbios")
def vbios(pool: Pool) -> Iterator[Hit]:
    def value(host: Host) -> Optional[Hashable]:
        found = sorted({str(gpu["vbios"]) for gpu in answering(host) if gpu.get("vbios")})
        return tuple(found) or None

    if not odd_ones(pool, _models):
        for odd in odd_ones(pool, value):
            yield Hit(
                f"{odd.host.name} has VBIOS {show(odd.value)}, {odd.than()}",
                [evidence("nvidia_smi_xml", f"vbios {show(odd.value)}")],
                host=odd.host.name,
            )


@pool_rule("fleet.adapter_firmware")
def adapter_firmware(pool: Pool) -> Iterator[Hit]:
    """Per board id: other boards have other firmware."""
    boards = sorted(
        {str(device["board"]) for host in pool.hosts for device in host.rdma_devices if device.get("board")}
    )
    for board in boards:

        def value(host: Host, board: str = board) -> Optional[Hashable]:
            rows = [
                device for device in host.rdma_devices if device.get("board") == board and not device.get("virtual")
            ]
            return tuple(sorted({str(device["firmware"]) for device in rows if device.get("firmware")})) or None

        for odd in odd_ones(pool, value):
            yield Hit(
                f"{odd.host.name} has firmware {show(odd.value)} on {board}, {odd.than()}",
                [evidence("ibstat", f"{board} firmware {show(odd.value)}")],
                host=odd.host.name,
            )


@pool_rule("fleet.adapter_rate")
def adapter_rate(pool: Pool) -> Iterator[Hit]:
    def value(host: Host) -> Optional[Hashable]:
        rates = [float(port["rate_gbit_s"]) for _device, port in active(host) if port.get("rate_gbit_s")]
        return max(rates) if rates else None

    for odd in odd_ones(pool, value):
        yield Hit(
            f"{odd.host.name}'s fastest port has {odd.value:g} Gbit/s, {odd.than()}",
            [evidence("ibstat", f"rate {odd.value:g}")],
            host=odd.host.name,
        )


@pool_rule("fleet.adapter_count")
def adapter_count(pool: Pool) -> Iterator[Hit]:
    def value(host: Host) -> Optional[Hashable]:
        return len(active(host)) if host.get("rdma", "devices") is not None else None

    for odd in odd_ones(pool, value):
        yield Hit(
            f"{odd.host.name} has {odd.value} active RDMA ports, {odd.than()}",
            [evidence("ibstat", f"{odd.value} active")],
            severity="fail" if odd.value == 0 else None,
            host=odd.host.name,
        )


@pool_rule("fleet.link_layer")
def link_layer(pool: Pool) -> Iterator[Hit]:
    def value(host: Host) -> Optional[Hashable]:
        return (
            tuple(sorted({str(port["link_layer"]) for _device, port in active(host) if port.get("link_layer")})) or None
        )

    for odd in odd_ones(pool, value):
        yield Hit(
            f"{odd.host.name} has {show(odd.value)} ports, {odd.than()}",
            [evidence("ibstat", f"link layer {show(odd.value)}")],
            host=odd.host.name,
        )


def _mtu(host: Host) -> Optional[Hashable]:
    return tuple(sorted({int(port["mtu_active"]) for _device, port in active(host) if port.get("mtu_active")})) or None


def _netdev_mtu(host: Host) -> Dict[str, int]:
    names = {str(port.get("netdev")) for _device, port in active(host) if port.get("netdev")}
    return {
        str(row["ifname"]): int(row["mtu"])
        for row in host.get("network", "addresses") or []
        if row.get("ifname") in names and row.get("mtu")
    }


@pool_rule("fleet.mtu")
def mtu(pool: Pool) -> Iterator[Hit]:
    """Against the declared value where there is one, else against the others."""
    told = set()
    for host in pool.hosts:
        want = host.wants.fabric_mtu
        low = {name: size for name, size in _netdev_mtu(host).items() if want and size < want}
        if low:
            told.add(host.name)
            yield Hit(
                f"{host.name}: MTU {listed(f'{size} on {name}' for name, size in low.items())}, declared is {want}",
                [evidence("ip_addr", f"{name} mtu {size}") for name, size in list(low.items())[:4]],
                host=host.name,
                want=want,
            )
    for odd in odd_ones(pool, _mtu):
        if odd.host.name not in told:
            usual = max(odd.usual)
            yield Hit(
                f"{odd.host.name} has RDMA MTU {show(odd.value)}, {odd.than()}",
                [
                    evidence("ibv_devinfo", f"active_mtu {show(odd.value)}"),
                    *(
                        evidence("ip_addr", f"{name} mtu {size}")
                        for name, size in list(_netdev_mtu(odd.host).items())[:2]
                    ),
                ],
                host=odd.host.name,
                want=f"that gives RDMA MTU {usual}",
            )


@pool_rule("fleet.architecture")
def architecture(pool: Pool) -> Iterator[Hit]:
    for odd in odd_ones(pool, lambda host: host.get("os", "arch")):
        yield Hit(f"{odd.host.name} is {odd.value}, {odd.than()}", [evidence("uname", odd.value)], host=odd.host.name)
