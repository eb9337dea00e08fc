"""For which systems an inventory needs system packages locked: by its declaration, or by what was seen on its nodes."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Container, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import minor
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.document import said
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem

#: What a platform code of NVIDIA's repositories is made of, by os-release's ID: the version with or without its dot.
_MACHINES = {"x86_64": "x86_64", "aarch64": "sbsa"}
_MAJOR_ONLY = ("rhel", "rocky", "almalinux", "centos", "debian")
_SAME_AS = {"rocky": "rhel", "almalinux": "rhel", "centos": "rhel"}


class Host(NamedTuple):
    """What is known of a host. `stack`: its declaration; `observation`: None where it could not be reached."""

    name: str
    pool: str
    groups: Sequence[str]
    stack: Mapping[str, Any]
    observation: Optional[Mapping[str, Any]]


class Wish(NamedTuple):
    """What one system is for. `platform`: debian13-x86_64; `gpus`: models; `installed`: seen on its nodes."""

    pool: str
    platform: str
    gpus: Tuple[str, ...]
    installed: Mapping[str, Any]
    stack: Mapping[str, Any]


def wanted(hosts: Sequence[Host], layers: Container[str]) -> Tuple[List[Wish], List[Problem]]:
    """One wish for each pool and platform: of a declaration that names platforms, else of hosts in the group of a layer
    that installs system packages (`layers`).
    """
    found: Dict[Tuple[str, str], Wish] = {}
    problems: List[Problem] = []
    for host in hosts:
        declared = [str(name) for name in host.stack.get("platforms") or []]
        for platform in declared:
            gpus = tuple(sorted({str(name) for name in host.stack.get("gpus") or []}))
            problems += _added(found, Wish(host.pool, platform, gpus, {}, host.stack), host)
        if declared or not any(group in layers for group in host.groups):
            continue
        seen = platform_of(host.observation or {})
        if host.observation is None or seen is None:
            text = "the host could not be reached, so its platform and GPUs are not known"
            fix = "make it reachable, or declare trainrig_stack.platforms and gpus"
            problems.append(_problem(host.name, "trainrig_stack.platforms", text, fix))
            continue
        nvidia = host.observation.get("nvidia") or {}
        gpus = tuple(sorted({gpu["model"] for gpu in nvidia.get("gpus") or [] if gpu.get("model")}))
        problems += _added(found, Wish(host.pool, seen, gpus, _installed(host.observation), host.stack), host)
    return [found[key] for key in sorted(found)], problems


def platform_of(observation: Mapping[str, Any]) -> Optional[str]:
    """The code of NVIDIA's repository paths: ubuntu2404-x86_64."""
    system = observation.get("os") or {}
    name, version, machine = (
        system.get("id"),
        str(system.get("version_id") or ""),
        _MACHINES.get(str(system.get("arch"))),
    )
    if not name or not version or not machine:
        return None
    digits = version.split(".")[0] if name in _MAJOR_ONLY else version.replace(".", "")
    return f"{_SAME_AS.get(name, name)}{digits}-{machine}"


def _added(found: Dict[Tuple[str, str], Wish], wish: Wish, host: Host) -> List[Problem]:
    """Joins what hosts of one pool and platform have; they have to be declared alike."""
    key = (wish.pool, wish.platform)
    other = found.setdefault(key, wish)
    if said(other.stack) != said(wish.stack):
        text = f"hosts of pool {wish.pool} on {wish.platform} are declared differently"
        return [_problem(host.name, "trainrig_stack", text, "declare them alike, or put them in pools of their own")]
    # What is on one node and not on the others is nothing to keep.
    installed = wish.installed if wish.installed == other.installed else {}
    found[key] = other._replace(gpus=tuple(sorted({*other.gpus, *wish.gpus})), installed=installed)
    return []


def _installed(observation: Mapping[str, Any]) -> Dict[str, Any]:
    """What resolve asks of a node (declaration.INSTALLED); unknown is left out."""
    driver = (observation.get("nvidia") or {}).get("driver") or {}
    known = {
        "driver": driver.get("module"),
        "library": driver.get("library"),
        "module": driver.get("module_flavour"),
        "pythons": [minor(str(row["version"])) for row in observation.get("interpreters") or []] or None,
    }
    return {key: value for key, value in known.items() if value is not None}


def profiles(systems: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """The wheel profiles that resolved systems mean, one for each pool, machine and build of PyTorch."""
    found: Dict[Tuple[str, ...], Dict[str, Any]] = {}
    for system in systems:
        resolution = system["resolution"]
        torch, machine = resolution["pytorch"], "aarch64" if system["platform"].endswith("-sbsa") else "x86_64"
        key = (system["pool"], machine, torch["version"], torch["variant"])
        row = found.setdefault(key, {"pytorch": torch["version"], "variant": torch["variant"], "python": []})
        row.update(pool=system["pool"], platform=f"linux-{machine}")
        if resolution["python"] not in row["python"]:
            row["python"].append(resolution["python"])
    taken: List[str] = []
    for (pool, machine, version, variant), row in found.items():
        parts = [variant, *([machine] if machine != "x86_64" else []), *([pool] if pool != "default" else [])]
        name = "-".join(parts)
        row["name"] = name if name not in taken else "-".join([*parts, version])
        taken.append(row["name"])
    return [{"name": row.pop("name"), **row} for row in found.values()]


def _problem(host: str, key: str, text: str, fix: str) -> Problem:
    return {"rule": "lock.system", "where": f"host {host}", "key": key, "value": "", "text": text, "fix": fix}
