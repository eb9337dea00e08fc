"""Rules about hardware floors that a site sets in data/floors.yml or its inventory."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose import hardware
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import library
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import at_least


def _floor(host: Host, name: str) -> Optional[Mapping[str, Any]]:
    row = host.fact("floors", "floors", name)
    if not isinstance(row, Mapping):
        return None if row is None else {"value": row, "severity": "warn"}
    return row if row.get("value") is not None else None


@host_rule("floor.gpu_memory")
def gpu_memory(host: Host) -> Iterator[Hit]:
    floor = _floor(host, "gpu_memory_gb")
    seen = set()
    for device in hardware.gpu_devices(host) if floor else []:
        size, label = hardware.nominal_memory_gib(host, device), hardware.label(host, device)
        if floor and size and size < float(floor["value"]) and label not in seen:
            seen.add(label)
            yield Hit(
                f"{label} has {size:g} GB, the floor is {floor['value']}",
                [evidence("lspci", device.get("raw"))],
                severity=floor["severity"],
            )


@host_rule("floor.link_generation")
def link_generation(host: Host) -> Iterator[Hit]:
    """NVLink or PCIe, whichever is newer."""
    floor = _floor(host, "link_generation")
    seen = set()
    for device in hardware.gpu_devices(host) if floor else []:
        pcie, nvlink = hardware.row(host, device).get("pcie_generation"), hardware.nvlink_generation(host, device)
        label = hardware.label(host, device)
        best = max(pcie or 0, nvlink or 0)
        if floor and pcie and best < float(floor["value"]) and label not in seen:
            seen.add(label)
            yield Hit(
                f"{label} has PCIe {pcie} and NVLink {nvlink or 'none'}, the floor is {floor['value']}",
                [evidence("lspci", device.get("raw"))],
                severity=floor["severity"],
            )


@host_rule("floor.driver")
def driver(host: Host) -> Iterator[Hit]:
    floor = _floor(host, "driver")
    have = host.module_version or (library(host) or (None,))[0]
    if floor and have and at_least(have, str(floor["value"])) is False:
        yield Hit(
            f"driver {have}, the floor is {floor['value']}",
            [evidence("nvidia_version", have)],
            severity=floor["severity"],
        )


@host_rule("floor.system")
def system(host: Host) -> Iterator[Hit]:
    for name in ("ubuntu", "debian"):
        floor = _floor(host, name)
        have = host.get("os", "version_id")
        if floor and host.get("os", "id") == name and have and at_least(str(have), str(floor["value"])) is False:
            yield Hit(
                f"{name} {have}, the floor is {floor['value']}",
                [evidence("os_release", f"{name} {have}")],
                severity=floor["severity"],
            )
