"""The operating system, its kernel and boot, the node's identity."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import shlex

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, boolean, number

_ARCHITECTURES = re.compile(r"^(?:x86_64|aarch64|ppc64le|i[3-6]86|armv[0-9]\w*|riscv64|s390x|loongarch64)$")
_UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", re.I)


def os_release(reading: Reading) -> Facts:
    values: dict[str, str] = {}
    for line in reading.lines:
        match = re.match(r"\s*([A-Z][A-Z0-9_]*)=(.*)$", line)
        if not match:
            continue
        try:
            words = shlex.split(match[2], comments=True)
        except ValueError:
            reading.note(f"unbalanced quotes: {line[:80]}")
            continue
        values[match[1]] = " ".join(words)
    if not values:
        reading.unreadable("no NAME=value line")
        return {}
    return {
        "os.id": values.get("ID") or None,
        "os.version_id": values.get("VERSION_ID") or None,
        "os.codename": values.get("VERSION_CODENAME") or None,
        "os.id_like": values.get("ID_LIKE", "").split(),
    }


def uname(reading: Reading) -> Facts:
    words = reading.text.split()
    if len(words) < 4 or words[0] != "Linux":
        reading.unreadable("not the line of uname -a")
        return {}
    # Machine, processor and platform stand before the last word; processor and platform may be left out.
    architecture = next((word for word in reversed(words[3:]) if _ARCHITECTURES.match(word)), None)
    return {"os.kernel": words[2], "os.arch": architecture}


def cmdline(reading: Reading) -> Facts:
    return {"boot.cmdline": reading.text.strip() or None}


def modules(reading: Reading) -> Facts:
    loaded: dict[str, list[str]] = {}
    for line in reading.lines:
        match = re.match(r"(\w+) [0-9]+ -?[0-9]+ (\S+)", line)
        if match:
            loaded[match[1]] = [name for name in match[2].split(",") if re.match(r"\w+$", name)]
        elif line.strip():
            reading.note(f"not a module line: {line[:80]}")
    if not loaded and reading.text.strip():
        reading.unreadable("no module line")
        return {}
    return {"boot.modules": loaded}


def boot_id(reading: Reading) -> Facts:
    text = reading.text.strip()
    if not _UUID.match(text):
        reading.unreadable("not a boot id")
        return {}
    return {"boot.boot_id": text.lower()}


def kernels(reading: Reading) -> Facts:
    found: list[str] = []
    default = None
    for line in reading.lines:
        match = re.match(r"(\* )?\s*([0-9]+\.[0-9]+\S*)\s*$", line)
        if match:
            found.append(match[2])
            default = match[2] if match[1] else default
        elif line.strip():
            reading.note(f"not a kernel version: {line[:80]}")
    if not found and reading.text.strip():
        reading.unreadable("no kernel version")
        return {}
    return {"boot.kernels": found, "boot.default_kernel": default}


def identity(reading: Reading) -> Facts:
    machine_id = (reading.section("/etc/machine-id") or "").strip()
    clock = number(reading.section("date -u +%s.%N"))
    synchronized = re.search(
        r"^NTPSynchronized=(\w+)", reading.section("timedatectl show -p NTPSynchronized") or "", re.M
    )
    if machine_id and not re.match(r"[0-9a-f]{32}$", machine_id):
        reading.note("/etc/machine-id holds no machine id")
        machine_id = ""
    return {
        "identity": {
            "machine_id": machine_id or None,
            "clock_unix_s": clock,
            "ntp_synchronized": boolean(synchronized[1]) if synchronized else None,
        }
    }
