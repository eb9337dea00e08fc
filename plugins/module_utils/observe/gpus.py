"""Joins that make the NVIDIA side of an Observation whole: GPUs of the bus and of the driver, topology, processes.

A GPU is lost when it is on the bus, the driver works and does not reach it. It is hidden when it was left out on
purpose: given to another driver, excluded by a module parameter, or not handed into a container. The two look alike
to nvidia-smi; what the driver lists under /proc, what the kernel logged and where this runs tell them apart. Where
nothing tells, it is neither.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, raw

_NVIDIA = "10de:"
#: Transfer rate of one lane in GT/s -> PCIe generation.
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
#: Xid of a GPU that has fallen off the bus.
_OFF_THE_BUS = 79


def driver(facts: Facts, observation: dict[str, Any]) -> Facts:
    """Versions that nvidia-smi proves where their own probes are silent."""
    found: Facts = {}
    version = facts.get("smi_driver")
    state = observation["nvidia"]["driver"]
    if version:
        shown = raw(f"<driver_version>{version}</driver_version>")
        if state["module"] is None:
            found.update({"nvidia.driver.module": version, "nvidia.driver.module_raw": shown})
        # The library refuses a module of another version, so an answer means that they are equal.
        if state["library"] is None and version == (state["module"] or version):
            found.update({"nvidia.driver.library": version, "nvidia.driver.library_raw": shown})
    elif facts.get("smi_library_raw") and state["library_raw"] is None:
        found["nvidia.driver.library_raw"] = facts["smi_library_raw"]
    return found


def topology(facts: Facts, _observation: dict[str, Any]) -> Facts:
    matrix, peers = facts.get("topology"), facts.get("p2p")
    if matrix is None and peers is None:
        return {}
    empty: dict[str, Any] = {"gpus": {}, "nics": {}, "cpu_affinity": {}, "numa": {}}
    return {"nvidia.topology": {**(matrix or empty), "p2p": peers}}


def processes(facts: Facts, observation: dict[str, Any]) -> Facts:
    """From the full report, where the list of processes itself was not taken."""
    listed = facts.get("smi_processes")
    if observation["nvidia"]["processes"] is not None or listed is None:
        return {}
    return {"nvidia.processes": listed}


def gpus(facts: Facts, observation: dict[str, Any]) -> Facts:
    """Union of the bus and the driver by PCI address, in the driver's order, then the bus's."""
    bus = {
        device["address"]: device
        for device in observation["pci"] or []
        if device["id"].startswith(_NVIDIA) and device["pci_class"].startswith("03")
    }
    listed = {gpu["pci_address"]: gpu for gpu in facts.get("smi_gpus") or []}
    known = observation["pci"] is not None or facts.get("smi_gpus") is not None
    proc = observation["nvidia"]["proc_gpus"]
    named_lost = facts.get("smi_lost") or []
    addresses = list(dict.fromkeys([*listed, *bus, *(proc or []), *(named_lost if known or proc else [])]))
    if not known and proc is None:
        return {}
    evidence = _Evidence(facts, observation, len(set(addresses) - set(listed)), bool(listed))
    links = facts.get("nvlink") or []
    found = []
    for address in addresses:
        gpu = listed.get(address) or _unlisted(address, bus.get(address))
        _from_bus(gpu, bus.get(address))
        _nvlink(gpu, links, ("links", "links_active", "link_gb_s"))
        _nvlink(gpu, facts.get("nvlink_errors") or [], ("errors",))
        gpu["lost"], gpu["hidden"] = evidence.judge(gpu, bus.get(address), address in listed)
        found.append(gpu)
    return {"nvidia.gpus": found}


class _Evidence:
    """What is known about GPUs that nvidia-smi does not show."""

    def __init__(self, facts: Facts, observation: dict[str, Any], missing: int, others_shown: bool) -> None:
        nvidia, log = observation["nvidia"], observation["kernel_log"] or {}
        excluded = (nvidia["driver"]["params"] or {}).get("ExcludedGpus", "")
        self.all_excluded = 0 < missing <= len([uuid for uuid in excluded.split(",") if uuid.strip()])
        self.container = observation["machine"]["container"]
        self.whole = bool(facts.get("smi_whole"))
        self.proc = nvidia["proc_gpus"]
        self.others_shown = others_shown or bool(self.proc)
        self.off_the_bus = {xid["pci_address"] for xid in log.get("xids", []) if xid["xid"] == _OFF_THE_BUS}
        self.off_the_bus.update(log.get("fallen_off", []))
        self.named = set(facts.get("smi_lost") or [])
        self.loaded = bool(nvidia["driver"]["module"]) or "nvidia" in (observation["boot"]["modules"] or {})

    def judge(self, gpu: dict[str, Any], device: dict[str, Any] | None, listed: bool) -> tuple[bool, bool | None]:
        """(lost, hidden)"""
        address = gpu["pci_address"]
        # A device whose configuration space reads as ones does not answer on the bus any more.
        if address in self.named or (device and device["revision"] == "ff"):
            return True, False
        if listed:
            return gpu["lost"], False
        if address in self.off_the_bus:
            return True, False
        if not self.loaded:
            return False, None
        if device and device["driver"] not in (None, "nvidia"):
            return False, True
        if self.all_excluded:
            return False, True
        taken = self.proc is not None and address in self.proc
        if self.container:
            # A container is given some GPUs of its host and sees the whole bus.
            return False, True if self.proc is not None and not taken else None
        if taken:
            # The driver took it. A list that nvidia-smi did not finish proves nothing about it.
            return self.whole, False if self.whole else None
        known = self.whole or self.proc is not None
        return (True, False) if known and self.others_shown else (False, None)


def _unlisted(address: str, device: dict[str, Any] | None) -> dict[str, Any]:
    """A GPU about which only the bus speaks."""
    names = (
        *(
            "index",
            "pci_id",
            "name",
            "model",
            "uuid",
            "serial",
            "vbios",
            "memory_mib",
            "memory_used_mib",
            "mig_enabled",
        ),
        *(
            "throttle_reasons",
            "temperature_c",
            "temperature_slowdown_c",
            "temperature_margin_c",
            "power_w",
            "power_limit_w",
            "power_limit_max_w",
            "power_limit_default_w",
        ),
        *("utilization_percent", "clock_sm_mhz", "clock_sm_max_mhz", "clock_application_sm_mhz"),
        *("clock_application_default_sm_mhz", "persistence_mode", "compute_mode", "virtualization_mode"),
        "recovery_action",
    )
    ecc = (
        *("enabled", "uncorrected_volatile", "uncorrected_aggregate", "corrected_volatile", "corrected_aggregate"),
        *("sram_threshold_exceeded", "remap_pending", "remap_failed", "remapped_uncorrectable", "remapped_correctable"),
        "retired_pending",
    )
    return {
        **dict.fromkeys(names),
        "pci_address": address,
        "mig_devices": [],
        "query_errors": [],
        "ecc": dict.fromkeys(ecc),
        "pcie": dict.fromkeys(("gen", "gen_max", "gen_max_device", "gen_max_host", "width", "width_max", "replays")),
        "nvlink": {"links": None, "links_active": None, "link_gb_s": None, "errors": None},
        "fabric": dict.fromkeys(("state", "status", "clique_id", "cluster_uuid", "health")),
        "lost": False,
        "hidden": None,
        "raw": device["raw"] if device else address,
    }


def _from_bus(gpu: dict[str, Any], device: dict[str, Any] | None) -> None:
    """What the bus knows fills what the driver left open."""
    if device is None:
        return
    gpu["pci_id"] = gpu["pci_id"] or device["id"]
    gpu["name"] = gpu["name"] or device["name"] or None
    link = {
        "gen": _GENERATIONS.get(device["link_speed_gt_s"]),
        "gen_max": _GENERATIONS.get(device["link_speed_max_gt_s"]),
        "width": device["link_width"],
        "width_max": device["link_width_max"],
    }
    for name, value in link.items():
        if gpu["pcie"][name] is None:
            gpu["pcie"][name] = value


def _nvlink(gpu: dict[str, Any], links: list[dict[str, Any]], names: tuple[str, ...]) -> None:
    """By UUID; by index where the UUID is not unique or not known (a copy that hides them)."""
    same = [entry for entry in links if entry["uuid"] and entry["uuid"] == gpu["uuid"]]
    if len(same) != 1 and gpu["index"] is not None:
        same = [entry for entry in links if entry["index"] == gpu["index"]]
    if len(same) == 1:
        gpu["nvlink"].update({name: same[0][name] for name in names})
