"""Tells which installed packages belong to the driver and its companions, by the patterns of data/families.yml."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Dict, List, Mapping, Optional, Pattern, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import driver_part, upstream

#: From this priority on apt keeps a version even when it has to downgrade (apt_preferences(5)).
OUTRANKS = 1000


def belongs(host: Host, family: str, name: str) -> bool:
    """Whether a package name is of a family. Patterns match from the start of the name."""
    return member(host.fact("families", family) or {}, name)


def member(row: Mapping[str, Any], name: str) -> bool:
    """The same for a row of data/families.yml."""
    inside, outside = _either(tuple(row.get("is") or ())), _either(tuple(row.get("not") or ()))
    return bool(inside and inside.match(name) and not (outside and outside.match(name)))


@lru_cache(maxsize=None)
def _either(patterns: Tuple[str, ...]) -> Optional[Pattern[str]]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns)) if patterns else None


def installed(host: Host, family: str) -> Dict[str, str]:
    """Installed packages of a family, name -> version, deb and rpm alike, in order of names."""
    if family not in host.families:
        found = {**(host.get("packages", "rpm") or {}), **host.dpkg}
        host.families[family] = {name: str(found[name]) for name in sorted(found) if belongs(host, family, name)}
    return host.families[family]


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
    for name in ("held", "versionlock"):
        if host.get("packages", name) is not None:
            return [str(one) for one in host.get("packages", name)]
    return None


def by_hold(host: Host, names: Mapping[str, str]) -> Tuple[List[str], List[str]]:
    """Split packages into held and free. A pin to an exact version by package or preference holds too."""
    holds = {name.split(":")[0] for name in held(host) or []}
    pins = _pinned(host)
    locks = [str(one) for one in host.get("packages", "versionlock") or []]
    kept = [
        name
        for name, version in names.items()
        if (name in holds if name in host.dpkg else any(_locks(lock, name, version) for lock in locks))
        or any(_pins(pin, name, version) for pin in pins)
    ]
    return kept, [name for name in names if name not in kept]


def _pinned(host: Host) -> List[Tuple[str, str]]:
    """(package pattern, version pattern) of preferences that outrank every other version."""
    found: List[Tuple[str, str]] = []
    for name in installed(host, "pinning"):
        exact = name.rsplit("-", 1)[1]
        if exact.count(".") >= 1:
            found.append(("*", f"{exact}*"))
    for row in host.get("packages", "apt_pins") or []:
        version = re.match(r"version\s+(.+)", str(row.get("pin") or ""))
        if version and (row.get("priority") or 0) >= OUTRANKS:
            found += [(str(package), version.group(1)) for package in row.get("packages") or []]
    return found


def _locks(lock: str, name: str, version: str) -> bool:
    """Whether an entry of dnf's versionlock keeps this package: a pattern over name, version and architecture."""
    bare = version.split(":", 1)[-1]
    versions, ends = (version, f"0:{bare}", bare), ("", ".x86_64", ".aarch64", ".noarch")
    return any(_glob(lock, f"{name}-{one}{end}") for one in versions for end in ends)


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
