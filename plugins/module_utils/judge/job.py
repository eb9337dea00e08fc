"""Which hardware a measurement was taken on, as far as the observation and the measurement itself say."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional


class Job(NamedTuple):
    """The conditions that decide which threshold fits."""

    host: Optional[str]
    model: Optional[str]  # key of data/gpus; None: unknown, mixed or no GPU
    link: Optional[str]  # nvlink | bridge | bridge+pcie | pcie
    nvlink_gb_s: Optional[float]  # a GPU and direction
    nvlink_generation: Optional[int]
    through_switch: bool
    pcie_gb_s: Optional[float]  # the slowest GPU's link, a direction
    expected_gpus: int  # on the bus, neither hidden nor lost
    network_gb_s: Optional[float] = None  # of all RDMA ports that are up together, a direction
    network_layer: Optional[str] = None  # InfiniBand where one port is, else Ethernet
    nvlink_domain: int = 0  # GPUs of one NVLink domain that reaches over nodes; 0: it ends with the node


def describe(
    host: Optional[str], observation: Mapping[str, Any], gpus: Mapping[str, Any], thresholds: Mapping[str, Any]
) -> Job:
    """Read the job's conditions off an observation. ``gpus`` and ``thresholds`` are data/gpus and data/thresholds."""
    seen = [gpu for gpu in (observation.get("nvidia") or {}).get("gpus") or [] if not gpu.get("hidden")]
    models = {gpu.get("model") for gpu in seen}
    model = models.pop() if len(models) == 1 else None
    nvlink: Mapping[str, Any] = (gpus["gpus"].get(model) or {}).get("nvlink") or {}
    through = nvlink.get("through")
    total = nvlink.get("total_gb_s")
    return Job(
        host=host,
        model=model,
        link=_link(through, seen),
        nvlink_gb_s=total / 2 if total else None,  # the data counts both directions
        nvlink_generation=nvlink.get("generation"),
        through_switch=through == "nvswitch",
        pcie_gb_s=_pcie(seen, thresholds),
        expected_gpus=len([gpu for gpu in seen if not gpu.get("lost")]),
        nvlink_domain=int(nvlink.get("domain") or 0),
        **_network(observation),
    )


def _network(observation: Mapping[str, Any]) -> Dict[str, Any]:
    """What the node's RDMA ports can send. Virtual functions beside their own card share its port and add nothing."""
    devices = (observation.get("rdma") or {}).get("devices") or []
    ports = [
        port
        for device in [one for one in devices if not one.get("virtual")] or devices
        for port in device.get("ports") or []
        if port.get("state") == "Active"
    ]
    rates = [port.get("rate_gbit_s") for port in ports]
    if not rates or not all(rates):
        return {"network_gb_s": None, "network_layer": None}
    # What adds up in the network is only on InfiniBand; one such port is enough to allow for it.
    layers = sorted({str(port.get("link_layer")) for port in ports}, key=lambda name: name != "InfiniBand")
    return {"network_gb_s": sum(rates) / 8, "network_layer": layers[0]}


def _link(through: Optional[str], seen: List[Dict[str, Any]]) -> Optional[str]:
    if through in ("nvswitch", "direct"):
        return "nvlink"  # also where links are down: the node is held to what it should have
    if through == "bridge":
        active = [(gpu.get("nvlink") or {}).get("links_active") for gpu in seen]
        if None in active:
            return None
        if not any(active):
            return "pcie"
        return "bridge" if len(seen) == 2 else "bridge+pcie"
    return "pcie" if through == "none" else None


def _pcie(seen: List[Dict[str, Any]], thresholds: Mapping[str, Any]) -> Optional[float]:
    """What the slowest GPU's PCIe link can carry. gen_max, because an idle link runs slower to save power."""
    per_lane = {str(key): value for key, value in thresholds["pcie_gb_s_per_lane"]["generations"].items()}
    rates = []
    for gpu in seen:
        pcie = gpu.get("pcie") or {}
        lane, width = per_lane.get(str(pcie.get("gen_max"))), pcie.get("width")
        if lane is None or not width:
            return None
        rates.append(lane * width)
    return min(rates) if rates else None
