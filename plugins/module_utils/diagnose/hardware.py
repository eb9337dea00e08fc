"""What is known about a GPU by its PCI id, from data/gpus.yml, drivers.yml and pci.yml; never by its name."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Facts, Host


def model(host: Host, device: Facts) -> Optional[str]:
    """The key in data/gpus.yml of a PCI device or GPU."""
    return host.models.get(str(device.get("id") or device.get("pci_id") or "").lower())


def kind(host: Host, device: Facts) -> str:
    """What it is compared by: its model, else its PCI id; names depend on the age of a list of names."""
    return model(host, device) or str(device.get("id") or device.get("pci_id") or device.get("name") or "")


def row(host: Host, device: Facts) -> Mapping[str, Any]:
    """Its row, empty when the id is not known."""
    return host.fact("gpus", "gpus", model(host, device) or "") or {}


def label(host: Host, device: Facts) -> str:
    """How to call it in a sentence."""
    known = model(host, device)
    return known or str(device.get("name") or device.get("id") or device.get("pci_id") or "this GPU")


def _architecture(host: Host, device: Facts) -> Mapping[str, Any]:
    return host.fact("drivers", "architectures", str(row(host, device).get("arch"))) or {}


def flavour(host: Host, device: Facts) -> Optional[str]:
    """open or proprietary where only one serves it, else None."""
    found = row(host, device).get("kernel_module") or _architecture(host, device).get("module")
    return found if found in ("open", "proprietary") else None


def driver_range(host: Host, device: Facts) -> Tuple[Optional[str], Optional[str]]:
    """The first driver and the last branch that serve it; None where not known or without end."""
    known = host.fact("drivers", "gpu_minimum", model(host, device) or "") or {}
    architecture = _architecture(host, device)
    return known.get("driver") or architecture.get("first_branch"), architecture.get("last_branch")


def compute_capability(host: Host, device: Facts) -> Optional[str]:
    return row(host, device).get("compute_capability")


def nominal_memory_gib(host: Host, device: Facts) -> Optional[float]:
    """The size on the label, by PCI id; None where one id means several sizes."""
    wanted = str(device.get("id") or device.get("pci_id") or "").lower()
    known = row(host, device)
    for one in known.get("pci") or []:
        if one["id"] == wanted and one.get("memory_gib"):
            return float(one["memory_gib"])
    sizes = known.get("memory_gib") or []
    return float(sizes[0]) if len(sizes) == 1 else None


def nvlinks(host: Host, device: Facts) -> Optional[int]:
    """How many NVLinks the product has when they lead to switches; bridges may be absent, so they are not counted."""
    known = row(host, device).get("nvlink") or {}
    return known.get("links") if known.get("through") in ("nvswitch", "direct") else None


def nvlink_generation(host: Host, device: Facts) -> Optional[int]:
    return (row(host, device).get("nvlink") or {}).get("generation")


def by_address(host: Host) -> Dict[str, Facts]:
    """PCI devices by address."""
    return {str(device.get("address")): device for device in host.pci}


def gpu_devices(host: Host) -> List[Facts]:
    """The host's NVIDIA GPUs: from the bus where lspci answered, else as the driver lists them."""
    return host.pci_gpus or list(host.gpus)
