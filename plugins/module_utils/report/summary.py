"""The few facts of an Observation that a report repeats about a host. Unknown stays ``None``."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.plan.reboot import pending

_PYTHON = ("interpreter", "version", "torch", "torch_cuda", "nccl")


def part(mapping: Optional[Mapping[str, Any]], *keys: str) -> Any:
    """The value under nested keys, or ``None`` where any of them is missing or is not a mapping."""
    value: Any = mapping
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def places(measurement: Mapping[str, Any]) -> List[str]:
    """Where a measurement was taken, by the inventory's names; several nodes go by the names they gave themselves."""
    host = measurement.get("host")
    return [str(host)] if host else [str(name) for name in measurement.get("hosts") or []]


def usable_gpus(observation: Mapping[str, Any]) -> Optional[List[Mapping[str, Any]]]:
    """The GPUs a job can use: neither lost nor left out on request. ``None`` when no probe could tell."""
    gpus = part(observation, "nvidia", "gpus")
    if not isinstance(gpus, list):
        return None
    return [gpu for gpu in gpus if not gpu.get("lost") and not gpu.get("hidden")]


def gpu_groups(observation: Mapping[str, Any]) -> Optional[List[Dict[str, Any]]]:
    """The GPUs by kind: how many of which, with how much memory."""
    gpus = part(observation, "nvidia", "gpus")
    if not isinstance(gpus, list):
        return None
    counts: Dict[Tuple[Any, Any, Any], int] = {}
    for gpu in gpus:
        kind = (gpu.get("model"), gpu.get("name"), gpu.get("memory_mib"))
        counts[kind] = counts.get(kind, 0) + 1
    return [
        {"model": model, "name": name, "memory_mib": memory, "count": count}
        for (model, name, memory), count in counts.items()
    ]


def _accelerators(observation: Mapping[str, Any]) -> Optional[List[Dict[str, Any]]]:
    """What other vendors' tools list, by kind."""
    listed = observation.get("accelerators")
    if listed is None:
        return None
    kinds = [(one.get("vendor"), one.get("name")) for one in listed]
    return [{"vendor": kind[0], "name": kind[1], "count": kinds.count(kind)} for kind in dict.fromkeys(kinds)]


def _gpu_list(gpus: Any) -> Optional[List[Dict[str, Any]]]:
    """What identifies each GPU for whoever owns it."""
    if not isinstance(gpus, list):
        return None
    names = ("index", "pci_address", "model", "name", "uuid", "serial", "lost")
    return [{name: gpu.get(name) for name in names} for gpu in gpus]


def _ports(observation: Mapping[str, Any]) -> Optional[List[Dict[str, Any]]]:
    devices = part(observation, "rdma", "devices")
    if not isinstance(devices, list):
        return None
    return [
        {
            "device": device.get("name"),
            "port": port.get("port"),
            "state": port.get("state"),
            "rate_gbit_s": port.get("rate_gbit_s"),
            "link_layer": port.get("link_layer"),
        }
        for device in devices
        for port in device.get("ports") or []
    ]


def _text(value: Any) -> Optional[str]:
    """A version as text: torch gives NCCL's as a list of numbers."""
    if isinstance(value, (list, tuple)):
        return ".".join(map(str, value)) or None
    return str(value) if value not in (None, "") else None


def _python(observation: Mapping[str, Any], verified: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    """The environment that was verified; else the one that was there when the host was looked at."""
    if verified:
        keys = {"version": "python", "torch_cuda": "cuda"}
        return {name: _text(verified.get(keys.get(name, name))) for name in _PYTHON}
    env = part(observation, "python_env")
    paths = {"version": ("python",), "torch": ("torch", "version"), "torch_cuda": ("torch", "cuda")}
    paths.update({"interpreter": ("interpreter",), "nccl": ("torch", "nccl")})
    return {name: _text(part(env, *paths[name])) for name in _PYTHON}


def summarise(observation: Mapping[str, Any], verified: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
    """What report.json says about a host's hardware and software. ``verified``: the versions that verify found."""
    gpus = part(observation, "nvidia", "gpus")
    return {
        "os": {key: part(observation, "os", key) for key in ("id", "version_id", "arch", "kernel")},
        "virt": part(observation, "machine", "virt"),
        "container": part(observation, "machine", "container"),
        "cpu": {key: part(observation, "machine", "cpu", key) for key in ("model", "cores", "threads")},
        "gpu_list": _gpu_list(gpus),
        "memory_mib": part(observation, "machine", "memory_mib"),
        "gpus": gpu_groups(observation),
        "accelerators": _accelerators(observation),
        "gpus_lost": None if not isinstance(gpus, list) else sum(1 for gpu in gpus if gpu.get("lost")),
        "driver": {key: part(observation, "nvidia", "driver", key) for key in ("module", "library", "cuda")},
        "rdma": _ports(observation),
        "python": _python(observation, verified),
        "pending_reboot": bool(pending(observation)),
    }
