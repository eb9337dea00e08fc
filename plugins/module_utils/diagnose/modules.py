"""For which kernels a driver module exists, as DKMS and packages tell it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import List, NamedTuple, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import driver_packages, installed
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Evidence, evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Facts, Host


class Built(NamedTuple):
    """What is known about the driver's module for one kernel. `there` is None when nothing can tell."""

    there: Optional[bool]
    how: Optional[str]  # dkms | precompiled
    evidence: List[Evidence]


def dkms_rows(host: Host) -> List[Facts]:
    """DKMS's lines about the driver itself, not about its helpers."""
    pattern = str(host.fact("rules", "dkms_module") or "")
    return [row for row in host.get("packages", "dkms") or [] if re.match(pattern, str(row.get("module") or ""))]


def precompiled(host: Host) -> List[str]:
    return list(installed(host, "precompiled"))


def built_for(host: Host, kernel: str) -> Built:
    """Whether a driver module for this kernel exists."""
    rows, packages = dkms_rows(host), precompiled(host)
    arch = re.sub(r"\.(x86_64|aarch64|ppc64le)$", "", kernel)
    shown = [evidence("dkms", row.get("raw")) for row in rows[:3]]
    shown += [evidence("dpkg" if name in host.dpkg else "rpm", name) for name in packages[:3]]
    if any(row.get("kernel") == kernel and re.match("installed", str(row.get("state"))) for row in rows):
        return Built(True, "dkms", shown)
    if any(name.endswith(f"-{kernel}") or f"-{arch}-" in f"{name}-" for name in packages):
        return Built(True, "precompiled", shown)
    if rows:
        return Built(False, "dkms", shown)
    if packages:
        return Built(False, "precompiled", shown)
    if installed(host, "dkms") and host.answered("dkms") and host.get("packages", "dkms") == []:
        name = next(iter(installed(host, "dkms")))
        return Built(False, "dkms", [evidence("dkms", f"{name} is installed, dkms status is empty")])
    return Built(None, None, [])


def has_driver(host: Host) -> bool:
    return bool(host.driver_loaded or driver_packages(host) or dkms_rows(host) or precompiled(host))
