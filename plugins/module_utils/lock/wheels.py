"""Which wheels a machine gets from a resolved set of packages: by file name, for the hashes and sizes of a lock."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.markers import evaluate
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import (
    normalise_name,
    normalise_version,
    numbers,
)


class Wheel(NamedTuple):
    """One file that an index offers, or that data/torch.yml knows the hash of (then without address and size)."""

    package: str
    version: str
    file: str
    sha256: str
    url: Optional[str]
    size: Optional[int]


def marker_environment(python: str, platform: str) -> Dict[str, str]:
    """What markers see on a Linux machine with this Python (3.12) and platform (linux-x86_64)."""
    system, _sep, machine = platform.partition("-")
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": system.capitalize(),
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": system,
    }


def fits(file: str, python: str, platform: str) -> bool:
    """Can this wheel be installed there? By its tags: python, ABI, platform."""
    parts = file[: -len(".whl")].split("-")
    if not file.endswith(".whl") or len(parts) < 5:
        return False
    return any(_python_fits(tag, parts[-2], python) for tag in parts[-3].split(".")) and any(
        _platform_fits(tag, platform) for tag in parts[-1].split(".")
    )


def _python_fits(tag: str, abi: str, python: str) -> bool:
    exact = "cp" + python.replace(".", "")
    if tag in ("py3", "py2.py3", "py" + python.replace(".", "")):
        return True
    if tag == exact:
        return any(part in (exact, "abi3", "none") for part in abi.split("."))
    # The stable ABI serves later Pythons too.
    return tag.startswith("cp3") and tag[3:].isdigit() and "abi3" in abi and int(tag[3:]) <= numbers(python)[1]


def _platform_fits(tag: str, platform: str) -> bool:
    machine = platform.partition("-")[2]
    return tag == "any" or (tag.startswith(("manylinux", "linux_")) and tag.endswith(f"_{machine}"))


def offered(pylock: Mapping[str, Any]) -> List[Wheel]:
    """Every wheel of a resolution in pylock.toml's form."""
    found: List[Wheel] = []
    for package in pylock.get("packages", []):
        for entry in package.get("wheels", []):
            address = entry.get("url") or entry.get("path") or ""
            found.append(
                Wheel(
                    normalise_name(package["name"]),
                    normalise_version(package["version"]),
                    entry.get("name") or address.rsplit("/", 1)[-1].split("#")[0].replace("%2B", "+"),
                    entry["hashes"]["sha256"],
                    address,
                    entry.get("size"),
                )
            )
    return found


def known(rows: Mapping[str, Mapping[str, Any]], package: str, version: str) -> List[Wheel]:
    """The wheels of this package and version whose hashes data/torch.yml knows."""
    found: List[Wheel] = []
    for file, row in rows.items():
        parts = file.split("-")
        if normalise_name(parts[0]) == package and normalise_version(parts[1]) == version:
            found.append(Wheel(package, version, file, str(row["sha256"]), None, None))
    return found


def contradictions(wheels: Sequence[Wheel], facts: Sequence[Wheel]) -> List[str]:
    """Files that an index offers with another hash than the data knows."""
    by_file = {wheel.file: wheel.sha256 for wheel in facts}
    return [
        f"{wheel.file} has sha256 {wheel.sha256} in the index and {by_file[wheel.file]} in data/torch.yml"
        for wheel in wheels
        if by_file.get(wheel.file, wheel.sha256) != wheel.sha256
    ]


def selected(pylock: Mapping[str, Any], wheels: Sequence[Wheel], python: str, platform: str) -> Dict[str, List[Wheel]]:
    """package -> the wheels this machine could get for it; [] where there is none."""
    environment = marker_environment(python, platform)
    chosen: Dict[str, List[Wheel]] = {}
    for package in pylock.get("packages", []):
        if not evaluate(package.get("marker", ""), environment):
            continue
        name, version = normalise_name(package["name"]), normalise_version(package["version"])
        chosen[name] = [
            wheel
            for wheel in wheels
            if wheel.package == name and wheel.version == version and fits(wheel.file, python, platform)
        ]
    return chosen
