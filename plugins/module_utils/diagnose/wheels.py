"""What a PyTorch build runs on: its compiled architectures against a GPU. Facts from data/torch.yml."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import numbers


def parse_arch(text: str) -> Optional[Tuple[int, int, bool]]:
    """``sm_90a``, ``compute_120`` (PTX) or ``12.0+PTX`` as (major, minor, PTX); None for anything else."""
    match = re.fullmatch(r"(sm|compute)_([0-9]+)([0-9])[a-z]?", text.strip())
    if match:
        return int(match.group(2)), int(match.group(3)), match.group(1) == "compute"
    match = re.fullmatch(r"([0-9]+)\.([0-9])[a-z]?(\+PTX)?", text.strip())
    return (int(match.group(1)), int(match.group(2)), bool(match.group(3))) if match else None


def runs_on(archs: List[str], capability: str) -> Optional[bool]:
    """Whether code for these architectures runs on a GPU: same major and no newer minor, or older PTX."""
    want = numbers(capability)
    have = [arch for arch in map(parse_arch, archs) if arch]
    if len(want) < 2 or not have:
        return None
    major, minor = want[:2]
    for arch_major, arch_minor, ptx in have:
        if arch_major == major and arch_minor <= minor:
            return True
        if ptx and (arch_major, arch_minor) <= (major, minor):
            return True
    return False


def line(host: Host, version: Optional[str]) -> Mapping[str, Any]:
    """The release line of a torch version (`2.6.0` -> `2.6`), empty when it is not known."""
    parts = numbers(version)
    found = host.fact("torch", "lines", ".".join(map(str, parts[:2]))) if len(parts) >= 2 else None
    return found if isinstance(found, Mapping) else {}


def lines(host: Host) -> List[str]:
    return sorted(host.fact("torch", "lines") or {}, key=numbers)


def default_variant(host: Host, version: Optional[str]) -> Optional[str]:
    return next(
        (name for name, row in line(host, version).items() if isinstance(row, Mapping) and row.get("default")), None
    )


def variants(host: Host, version: Optional[str]) -> List[str]:
    return [name for name, row in line(host, version).items() if isinstance(row, Mapping)]


def pinned_nccl(host: Host, version: Optional[str], variant: Optional[str]) -> Optional[str]:
    """The NCCL that a build pins."""
    row = line(host, version).get(variant or "")
    return row.get("nccl") if isinstance(row, Mapping) else None
