"""Tells which installed packages belong to the driver and its companions, by the patterns of data/families.yml."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import driver_part, upstream


def belongs(host: Host, family: str, name: str) -> bool:
    """Whether a package name is of a family. Patterns match from the start of the name."""
    row = host.fact("families", family) or {}
    if not any(re.match(pattern, name) for pattern in row.get("is") or []):
        return False
    return not any(re.match(pattern, name) for pattern in row.get("not") or [])


def installed(host: Host, family: str) -> Dict[str, str]:
    """Installed packages of a family, name -> version, deb and rpm alike, in order of names."""
    found = {**(host.get("packages", "rpm") or {}), **host.dpkg}
    return {name: str(found[name]) for name in sorted(found) if belongs(host, family, name)}


def driver_packages(host: Host) -> Dict[str, str]:
    """Packages built from a driver version: name -> package version."""
    return {name: version for name, version in installed(host, "driver").items() if driver_part(version)}


def package_driver(host: Host, family: str = "driver_itself") -> Optional[Tuple[str, str]]:
    """The installed driver as its packages tell it: (name, driver version)."""
    rows = installed(host, family)
    found = [(name, part) for name, part in ((name, driver_part(rows[name])) for name in rows) if part]
    return found[0] if found else None


def library(host: Host) -> Optional[Tuple[str, str]]:
    """The version of the driver's user space, all components, and the probe that told: files first, then packages."""
    if host.library_version:
        return host.library_version, "nvidia_libs"
    found = package_driver(host, "library")
    return (found[1], "dpkg" if found[0] in host.dpkg else "rpm") if found else None


def held(host: Host) -> Optional[List[str]]:
    """Packages on hold, None when this was not asked or cannot be known."""
    if host.get("packages", "held") is not None:
        return [str(name) for name in host.get("packages", "held")]
    return None


def by_hold(host: Host, names: Mapping[str, str]) -> Tuple[List[str], List[str]]:
    """Split packages into held and free. A pin to an exact version by package or preference holds too."""
    holds = {name.split(":")[0] for name in held(host) or []}
    pins = _pinned(host)
    kept = [name for name, version in names.items() if name in holds or any(_pins(pin, name, version) for pin in pins)]
    return kept, [name for name in names if name not in kept]


def _pinned(host: Host) -> List[Tuple[str, str]]:
    """(package pattern, version pattern) of preferences that outrank every other version."""
    found: List[Tuple[str, str]] = []
    for name in installed(host, "pinning"):
        exact = name.rsplit("-", 1)[1]
        if exact.count(".") >= 1:
            found.append(("*", f"{exact}*"))
    for place, text in (host.get("packages", "apt_config") or {}).items():
        if "preferences" not in str(place):
            continue
        for stanza in re.split(r"\n\s*\n", str(text)):
            fields = dict(re.findall(r"(?m)^(Package|Pin|Pin-Priority)\s*:\s*(.+?)\s*$", stanza))
            version = re.match(r"version\s+(.+)", fields.get("Pin", ""))
            priority = re.match(r"-?[0-9]+", fields.get("Pin-Priority", ""))
            if version and priority and int(priority.group()) >= 1000:
                found += [(package, version.group(1)) for package in fields.get("Package", "").split()]
    return found


def _pins(pin: Tuple[str, str], name: str, version: str) -> bool:
    package, pattern = pin
    return _glob(package, name) and (_glob(pattern, version) or _glob(pattern, upstream(version) or ""))


def _glob(pattern: str, text: str) -> bool:
    if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            return re.search(pattern[1:-1], text) is not None
        except re.error:
            return False
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), text) is not None
