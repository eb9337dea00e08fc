"""PCI devices as lspci prints them: identity, link state, access control."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import (
    Facts,
    Reading,
    integer,
    pci_address,
    raw,
)

_ADDRESS = r"(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_NUMBERED = re.compile(
    "^" + _ADDRESS + r" (?P<class_name>[^\[\]]{1,60}) \[(?P<pci_class>[0-9a-f]{4})\]: (?P<name>.*?) ?"
    r"\[(?P<id>[0-9a-f]{4}:[0-9a-f]{4})\](?: \(rev (?P<revision>[0-9a-f]{2})\))?"
)
# Without -nn: a device that the list of names lacks is printed by its number, others have no number at all.
_NAMED = re.compile(
    "^" + _ADDRESS + r" (?P<class_name>[A-Z0-9][^:\[]{1,60}): (?P<name>.*?)(?: \(rev (?P<revision>[0-9a-f]{2})\))?"
    r"(?: \(prog-if .*)?$"
)
_CLASSES = {
    "VGA compatible controller": "0300",
    "3D controller": "0302",
    "Display controller": "0380",
    "Ethernet controller": "0200",
    "Infiniband controller": "0207",
    "Bridge": "0680",
    "PCI bridge": "0604",
    "Non-Volatile memory controller": "0108",
    "Processing accelerators": "1200",
}
_VENDORS = {"NVIDIA Corporation": "10de", "Mellanox Technologies": "15b3"}
_LINK = re.compile(r"Speed ([0-9.]+)GT/s(?: \([\w ]+\))?, Width x([0-9]+)")


def _device(line: str) -> dict[str, Any] | None:
    match = _NUMBERED.match(line)
    if match:
        found: dict[str, Any] = match.groupdict()
    else:
        match = _NAMED.match(line)
        if not match:
            return None
        found = match.groupdict()
        vendor, _device_word, number = found["name"].partition(" Device ")
        known = vendor in _VENDORS and re.fullmatch("[0-9a-f]{4}", number)
        found["id"] = f"{_VENDORS[vendor]}:{number}" if known else ""
        found["pci_class"] = _CLASSES.get(found["class_name"], "")
    found["address"] = pci_address(found["address"])
    details = ("driver", "numa_node", "link_speed_gt_s", "link_speed_max_gt_s", "link_width", "link_width_max", "acs")
    return {**found, **dict.fromkeys(details), "driver_modules": [], "raw": raw(line)}


def lspci(reading: Reading) -> Facts:
    devices = [device for device in map(_device, reading.lines) if device]
    if not devices and reading.text.strip():
        reading.unreadable("no line of lspci")
        return {}
    if any(not device["id"] for device in devices):
        reading.note("devices without numbers: this is lspci without -nn")
    return {"join.lspci": devices}


def lspci_vv(reading: Reading) -> Facts:
    devices: list[dict[str, Any]] = []
    for line in reading.lines:
        device = _device(line) if line[:1] not in ("", " ", "\t") else None
        if device:
            devices.append(device)
        elif devices and line[:1] in (" ", "\t"):
            _detail(devices[-1], line.strip())
    if not devices and reading.text.strip():
        reading.unreadable("no line of lspci")
        return {}
    if "<access denied>" in reading.text:
        reading.note("capabilities are hidden without root: no link state, no access control")
    return {"join.lspci_vv": devices}


def _detail(device: dict[str, Any], line: str) -> None:
    name, colon, value = line.partition(":")
    if not colon:
        return
    value = value.strip()
    if name == "Kernel driver in use":
        device["driver"] = value or None
    elif name == "Kernel modules":
        device["driver_modules"] = [module.strip() for module in value.split(",") if module.strip()]
    elif name == "NUMA node":
        device["numa_node"] = integer(value)
    elif name in ("LnkCap", "LnkSta"):
        match = _LINK.search(value)
        if match:
            suffix = "_max" if name == "LnkCap" else ""
            device[f"link_speed{suffix}_gt_s"] = (
                float(match[1]) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", match[1]) else None
            )
            device[f"link_width{suffix}"] = integer(match[2])
    elif name == "ACSCtl":
        device["acs"] = {flag: sign == "+" for flag, sign in re.findall(r"(\w+)([+-])", value)}


def join(facts: Facts, _observation: dict[str, Any]) -> Facts:
    """One list of both probes, by address. The detailed one adds, the plain one names."""
    plain, detailed = facts.get("lspci"), facts.get("lspci_vv")
    if plain is None and detailed is None:
        return {}
    merged: dict[str, dict[str, Any]] = {}
    for device in [*(detailed or []), *(plain or [])]:
        known = merged.get(device["address"])
        if known is None:
            merged[device["address"]] = dict(device)
            continue
        for name in ("pci_class", "id", "name", "class_name", "revision"):
            known[name] = device[name] or known[name]
        known["raw"] = device["raw"]
    return {"pci": [merged[address] for address in sorted(merged)]}
