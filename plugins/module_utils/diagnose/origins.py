"""Where packages come from: NVIDIA's repository, the distribution, or another, as data/rules.yml tells them apart."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, List, Mapping, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host


def kind(host: Host, origin: str) -> Optional[str]:
    """nvidia, distribution, or the address itself; None for the node's own status file."""
    words = origin.split()
    if not words or words[0].startswith("/") or words[0].startswith("file:/var/lib/dpkg"):
        return None
    patterns: Mapping[str, str] = host.fact("rules", "origins") or {}
    return next((name for name, pattern in patterns.items() if re.search(pattern, origin)), words[0])


def origins(host: Host, name: str, version: Optional[str]) -> List[str]:
    """Kinds of origin that offer this version of a package."""
    rows = (host.get("packages", "policy", name) or {}).get("versions") or []
    found: List[str] = []
    for row in rows:
        if row.get("version") == version:
            found += [
                one for one in (kind(host, origin) for origin in row.get("origins") or []) if one and one not in found
            ]
    return found


def installed_origin(host: Host, name: str) -> Optional[str]:
    """The kind of origin of the installed version: as apt tells, else as the version's suffix tells."""
    version = host.dpkg.get(name)
    found = origins(host, name, version)
    if found:
        return found[0]
    suffixes: Mapping[str, str] = host.fact("rules", "version_suffixes") or {}
    return next((one for one, pattern in suffixes.items() if re.search(pattern, version or "")), None)


def policy(host: Host) -> Mapping[str, Any]:
    return host.get("packages", "policy") or {}
