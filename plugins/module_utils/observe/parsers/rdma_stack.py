"""The software around RDMA: OFED, what the kernel shows of devices, RoCE settings, adapter firmware settings."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.observe import sections
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.rdma import Seen
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.unread import Unread
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, raw
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.schema import RdmaStack

_BDF = re.compile(r"\b([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b", re.IGNORECASE)
_LINK = re.compile(r"(?<!\S)(\S{1,64}) -> (\S{1,1000})$")


def rdma_stack(reading: Reading) -> Facts:
    """The sections of the probe; one that is missing stays None."""
    if all(section.rc for section in reading.sections.values()):
        return {}
    stack: RdmaStack = {
        "ofed": _one(reading, "ofed_info -s").rstrip(":") or None,
        "ofed_kernel_source": _one(reading, "readlink /usr/src/ofa_kernel/default") or None,
        "memory_peers": _names(reading, "ls -1 /sys/kernel/mm/memory_peers"),
        "class_devices": _names(reading, "ls -1 /sys/class/infiniband"),
        "char_devices": _names(reading, "ls -1 /dev/infiniband"),
        "qos": {},
    }
    for name, section in reading.sections.items():
        command = re.match(r"(mlnx_qos -i|cma_roce_tos -d) (\S{1,64})", name)
        if command and section.rc:
            reading.note(f"{name} failed: {section.text.strip()[:120]}")
        elif command:
            entry = stack["qos"].setdefault(command[2], {"trust": None, "pfc": None, "roce_tos": None, "raw": None})
            entry.update(_mlnx_qos(section.text) if command[1].startswith("mlnx") else _roce_tos(name, section.text))
    return {"rdma.stack": stack, "join.rdma_stack": _sysfs_devices(reading)}


_COUNTER = re.compile(r"([A-Za-z0-9_.:-]{1,64}/[0-9]{1,3}) (\w{1,64}) ([0-9]{1,20})$")


def rdma_counters(reading: Reading) -> Facts:
    """`mlx5_0/1 link_downed 0`; a port with several interfaces counts all of them together."""
    found: dict[str, dict[str, int]] = {}
    unread = Unread(reading)
    for line in reading.lines:
        row = _COUNTER.match(line.strip())
        if row:
            port = found.setdefault(row[1], {})
            port[row[2]] = port.get(row[2], 0) + int(row[3])
        elif line.strip():
            unread.add(line)
    return {"rdma.counters": found} if unread.close(bool(found)) else {}


def _sysfs_devices(reading: Reading) -> Seen | None:
    """What the kernel tells of each device: the PCI address, and whether it is a virtual function."""
    listing = reading.section("ls -l /sys/class/infiniband")
    if listing is None:
        return None
    virtual = _names(reading, "virtual functions")
    seen: Seen = {}
    for line in listing.split("\n"):
        link = _LINK.search(line)
        addresses = _BDF.findall(link[2]) if link else []
        if link:
            seen[link[1]] = {
                "ports": {},
                "pci_address": addresses[-1].lower() if addresses else None,
                "virtual": None if virtual is None else link[1] in virtual,
            }
    return seen


def _one(reading: Reading, name: str) -> str:
    return next((line.strip() for line in (reading.section(name) or "").split("\n") if line.strip()), "")


def _names(reading: Reading, name: str) -> list[str] | None:
    text = reading.section(name)
    return None if text is None else [line.strip() for line in text.split("\n") if line.strip()]


def _roce_tos(name: str, text: str) -> dict[str, Any]:
    tos = re.search(r"(?:^|[^0-9.])([0-9]{1,3})$", text.strip())
    return {"roce_tos": int(tos[1]) if tos else None, "raw": raw(f"{name}: {text.strip()}")}


def _mlnx_qos(text: str) -> dict[str, Any]:
    """Trust state and the priorities with flow control, `pfc: [3]`."""
    trust: str | None = None
    pfc: list[int] | None = None
    evidence: list[str] = []
    inside = False
    for line in text.split("\n"):
        plain = re.sub(r"\s+", " ", line.strip())
        said = re.match(r"Priority trust state: ?(\S{1,20})", plain)
        enabled = re.match(r"enabled:? ((?:[01] ?){1,8})$", plain)
        if said:
            trust = said[1].lower()
            evidence.append(plain)
        elif plain.lower().startswith("pfc configuration"):
            inside = True
        elif enabled and inside:
            pfc = [number for number, bit in enumerate(enabled[1].split()) if bit == "1"]
            evidence.append(f"pfc {plain}")
            inside = False
    return {"trust": trust, "pfc": pfc, "raw": raw(" | ".join(evidence)) or None}


_DEVICE = re.compile(r"mlx(?:config|fwmanager)?\b.{0,40}? -d (\S{1,100})")
_HEAD = re.compile(r"(Device type|Name|Description|Device):\s*(.*)$")
_SETTING = re.compile(r"([A-Z][A-Z0-9_]{1,80}(?:\[[0-9.]{1,12}\])?)\s{2,}(\S.*)$")


def mlxconfig(reading: Reading) -> Facts:
    """`mlxconfig -d DEV q`, one section a device: device -> setting -> value (that of the next boot)."""
    found: dict[str, dict[str, str]] = {}
    unread = Unread(reading)
    blocks = reading.sections or {"": sections.Section(reading.text)}
    for name, section in blocks.items():
        if section.rc:
            unread.add(f"{name}: {section.text}")
            continue
        asked = _DEVICE.search(name)
        current: dict[str, str] = {}
        for line in section.text.split("\n"):
            # A star stands before a setting that changes with the next boot.
            title, setting = _HEAD.match(line), _SETTING.match(line.lstrip(" \t*"))
            if line.startswith("Device #"):
                current = {}
            elif title:
                current[title[1]] = title[2].strip()
                if title[1] == "Device":
                    found[asked[1] if asked else current["Device"]] = current
            elif setting:
                current[setting[1]] = re.split(r"\s{2,}", setting[2].strip())[-1]
            elif line.strip() and not re.match(r"\s*(-{3,}|Configurations:|The '\*')", line):
                unread.add(line)
    return {"rdma.mlxconfig": found} if unread.close(bool(found)) else {}
