"""The NVIDIA driver on the node: loaded module, its parameters, its devices, the libraries beside it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, pci_address, raw

_VERSION = r"[0-9]{2,4}(?:\.[0-9]{1,4}){1,3}"
_LIBRARY = re.compile(
    r"(?P<path>/\S*/)(?P<name>lib(?:nvidia-ml|cuda))\.so(?:\.(?P<suffix>[0-9.]+))?(?: -> (?P<target>\S+))?$"
)
_OTHER_ARCHITECTURE = re.compile(r"/(?:i386-linux-gnu|lib32|i686-linux-gnu)/")


def nvidia_version(reading: Reading) -> Facts:
    for line in reading.lines:
        match = re.search(r"NVRM version:\s*(.*?)\s(" + _VERSION + r")\s", line + " ")
        if match:
            return {
                "nvidia.driver.module": match[2],
                "nvidia.driver.module_flavour": "open" if "Open Kernel Module" in match[1] else "proprietary",
                "nvidia.driver.module_raw": raw(line),
            }
    reading.unreadable("no line `NVRM version:`")
    return {}


def nvidia_params(reading: Reading) -> Facts:
    params = {}
    for line in reading.lines:
        match = re.match(r"(\w+):\s*(.*)$", line)
        if match:
            params[match[1]] = match[2].strip().strip('"')
    if not params and reading.text.strip():
        reading.unreadable("no `Name: value` line")
        return {}
    return {"nvidia.driver.params": params}


def _addresses(reading: Reading) -> list[str] | None:
    found = []
    for line in reading.lines:
        address = pci_address(line)
        if address:
            found.append(address)
        elif line.strip():
            reading.note(f"not a PCI address: {line[:80]}")
    if not found and reading.text.strip():
        reading.unreadable("no PCI address")
        return None
    return found


def nvidia_gpus(reading: Reading) -> Facts:
    found = _addresses(reading)
    return {} if found is None else {"nvidia.proc_gpus": found}


def nvidia_nvswitch(reading: Reading) -> Facts:
    found = _addresses(reading)
    return {} if found is None else {"nvidia.nvswitches": found}


def nvidia_libs(reading: Reading) -> Facts:
    lines = [raw(line) for line in reading.lines if "/" in line and not line.startswith("ls: ")]
    links: dict[str, dict[str, str]] = {"libnvidia-ml": {}, "libcuda": {}}
    files: dict[str, dict[str, str]] = {"libnvidia-ml": {}, "libcuda": {}}
    for line in lines:
        match = _LIBRARY.search(line)
        if not match or "/compat/" in match["path"] or _OTHER_ARCHITECTURE.search(match["path"]):
            continue
        version = re.search(r"\.so\.(" + _VERSION + ")$", match["target"] or "")
        if match["suffix"] == "1" and version:
            links[match["name"]][version[1]] = line
        elif match["suffix"] and re.fullmatch(_VERSION, match["suffix"]):
            files[match["name"]][match["suffix"]] = line
    facts: Facts = {
        "nvidia.driver.library_files": lines,
        "nvidia.driver.uninstaller": any(line.split(" -> ")[0].endswith("/nvidia-uninstall") for line in lines),
    }
    # What libnvidia-ml.so.1 points to is what is loaded; without the links, a single file leaves no doubt.
    found = next(
        (kind for kind in (links["libnvidia-ml"], files["libnvidia-ml"], links["libcuda"], files["libcuda"]) if kind),
        {},
    )
    if len(found) == 1:
        version_text, line = next(iter(found.items()))
        facts.update({"nvidia.driver.library": version_text, "nvidia.driver.library_raw": line})
    elif found:
        reading.note(f"libraries of several drivers side by side: {', '.join(sorted(found))}")
    return facts


def fabricmanager(reading: Reading) -> Facts:
    match = re.search(r"\bversion\b[^0-9\n]{0,20}(" + _VERSION + r")", reading.text, re.I)
    if not match:
        reading.unreadable("no version")
        return {}
    return {"nvidia.fabricmanager_version": match[1]}
