"""The machine: CPU, NUMA, memory, disks, virtualisation, kernel settings."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, integer, present, raw

#: What `systemd-detect-virt` calls a container.
_CONTAINERS = frozenset(
    [
        "openvz",
        "lxc",
        "lxc-libvirt",
        "systemd-nspawn",
        "docker",
        "podman",
        "rkt",
        "wsl",
        "proot",
        "pouch",
        "container-other",
    ]
)
_UNITS = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5}


def cpu(reading: Reading) -> Facts:
    text = reading.section("lscpu")
    values: dict[str, str] = {}
    for line in (text or "").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            values.setdefault(name.strip(), value.strip())
    governor = present(
        next((part.text for name, part in reading.sections.items() if name.endswith("scaling_governor")), None)
    )
    if "CPU(s)" not in values and governor is None:
        reading.unreadable("no CPU(s) line")
        return {}
    sockets = integer(values.get("Socket(s)")) or integer(values.get("Cluster(s)"))
    each = integer(values.get("Core(s) per socket")) or integer(values.get("Core(s) per cluster"))
    return {
        "machine.cpu": {
            "model": present(values.get("Model name")),
            "vendor": present(values.get("Vendor ID")),
            "sockets": sockets,
            "cores": sockets * each if sockets and each else None,
            "threads": integer(values.get("CPU(s)")),
            "threads_per_core": integer(values.get("Thread(s) per core")),
            "numa_nodes": integer(values.get("NUMA node(s)")),
            "governor": governor,
            "hypervisor": present(values.get("Hypervisor vendor")),
            "virtualization_type": present(values.get("Virtualization type")),
        }
    }


def numa(reading: Reading) -> Facts:
    nodes: dict[int, dict[str, Any]] = {}
    for line in reading.lines:
        match = re.match(r"node ([0-9]{1,5}) (cpus|size):(.*)$", line)
        if not match:
            continue
        node = nodes.setdefault(int(match[1]), {"node": int(match[1]), "cpus": None, "memory_mib": None})
        if match[2] == "cpus":
            # numactl prints single numbers, sysfs prints ranges; both are kept as ranges.
            node["cpus"] = _ranges(match[3])
        else:
            node["memory_mib"] = integer(match[3])
    if not nodes:
        if re.search(r"No NUMA (?:support )?available", reading.text, re.I):
            return {"machine.numa": []}
        reading.unreadable("no NUMA node")
        return {}
    return {"machine.numa": [nodes[number] for number in sorted(nodes)]}


def _ranges(text: str) -> str | None:
    """`0 1 2 8` as `0-2,8`; ranges stay as they are; nothing for a node without CPUs."""
    if re.search(r"[-,]", text) or not text.strip():
        return text.strip() or None
    numbers = sorted({int(word) for word in text.split() if re.fullmatch(r"[0-9]{1,6}", word)})
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts) or None


def virt(reading: Reading) -> Facts:
    kind = reading.text.strip()
    if not re.fullmatch(r"[a-z][a-z0-9-]{1,30}", kind):
        reading.unreadable("not an answer of systemd-detect-virt")
        return {}
    # `none` comes with status 1, and is an answer.
    reading.rc = 0
    return {"machine.virt": kind, "machine.container": kind in _CONTAINERS}


def memory(reading: Reading) -> Facts:
    values = {match[1]: int(match[2]) for match in re.finditer(r"^(\w+):\s+([0-9]{1,15}) kB$", reading.text, re.M)}
    if "MemTotal" not in values:
        reading.unreadable("no MemTotal line")
        return {}
    available = values.get("MemAvailable")
    return {
        "machine.memory_mib": values["MemTotal"] // 1024,
        "machine.memory_available_mib": None if available is None else available // 1024,
    }


def disks(reading: Reading) -> Facts:
    facts: Facts = {}
    text = reading.section("lsblk -J")
    if text is not None:
        try:
            tree = json.loads(text)["blockdevices"]
            facts["machine.block_devices"] = [_device(entry) for entry in tree if isinstance(entry, dict)]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reading.note(f"lsblk -J: {type(error).__name__}: {error}")
    text = reading.section("df -kP")
    if text is not None:
        facts["machine.filesystems"] = _filesystems(text)
    if not facts:
        reading.unreadable("neither lsblk nor df can be read")
    return facts


def _device(entry: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    mounts = entry.get("mountpoints")
    if not isinstance(mounts, list):
        mounts = [entry.get("mountpoint")]
    children = entry.get("children")
    return {
        "name": str(entry.get("name")),
        "type": entry.get("type"),
        "size_mib": _mebibytes(entry.get("size")),
        "read_only": entry.get("ro") in (True, 1, "1"),
        "mounts": [mount for mount in mounts if isinstance(mount, str)],
        "children": [_device(child, depth + 1) for child in children if isinstance(child, dict)]
        if isinstance(children, list) and depth < 8
        else [],
    }


def _mebibytes(size: Any) -> int | None:
    if isinstance(size, bool) or not isinstance(size, (int, str)):
        return None
    match = re.fullmatch(r"([0-9]{1,20}(?:[.,][0-9]+)?)([BKMGTP]?)", str(size).strip())
    return int(float(match[1].replace(",", ".")) * _UNITS[match[2]] // 1024**2) if match else None


def _filesystems(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.split("\n"):
        match = re.match(r"(\S.*?)\s+([0-9]{1,18})\s+(-?[0-9]{1,18})\s+(-?[0-9]{1,18})\s+(?:[0-9]+%|-)\s+(/.*)$", line)
        if match:
            found.append(
                {
                    "device": match[1],
                    "mount": match[5],
                    "size_mib": int(match[2]) // 1024,
                    "available_mib": int(match[4]) // 1024,
                }
            )
    return found


def shm(reading: Reading) -> Facts:
    found = _filesystems(reading.text)
    if not found:
        reading.unreadable("no line of df")
        return {}
    line = next(line for line in reversed(reading.lines) if line.strip())
    # df names the file system that holds /dev/shm; when that is not mounted itself it is not shared memory.
    own = found[-1]["mount"] == "/dev/shm"
    if not own:
        reading.note(f"/dev/shm is not a file system of its own: it lies in {found[-1]['mount']}")
    return {
        "machine.shm_mib": found[-1]["size_mib"] if own else None,
        "machine.shm_available_mib": found[-1]["available_mib"] if own else None,
        "machine.shm_raw": raw(line),
    }


def sysctl(reading: Reading) -> Facts:
    values = {}
    for line in reading.lines:
        match = re.match(r"([a-z][\w./-]+)\s*=\s*(.*)$", line)
        if match:
            values[match[1]] = " ".join(match[2].split())
    if not values and reading.text.strip():
        reading.unreadable("no `name = value` line")
        return {}
    return {"machine.sysctl": values}
