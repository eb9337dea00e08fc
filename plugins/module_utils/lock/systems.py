"""For which systems an inventory needs system packages locked: by its declaration, or by what was seen on its nodes."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Container, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import minor
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.document import said
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, listed

_MACHINES = {"x86_64": "x86_64", "aarch64": "sbsa"}
_RHEL = ("rhel", "rocky", "almalinux", "ol", "centos")
#: Codes of data/packages.yml by what /etc/os-release says: ID, and how VERSION_ID begins (all of it, or up to a dot).
#: Derivatives have kernels and archives of their own: whoever means the platform they come from declares it.
_CODES = (
    *(("ubuntu", version, f"ubuntu{version.replace('.', '')}") for version in ("20.04", "22.04", "24.04", "26.04")),
    *(("debian", version, f"debian{version}") for version in ("12", "13")),
    *((name, version, f"rhel{version}") for name in _RHEL for version in ("8", "9", "10")),
    ("amzn", "2023", "amzn2023"),
    ("azurelinux", "3", "azl3"),
    ("fedora", "44", "fedora44"),
    ("sles", "15", "sles15"),
    ("sles", "16", "suse16"),
    ("opensuse-leap", "15", "opensuse15"),
    ("opensuse-leap", "16", "suse16"),
    ("kylin", "V10", "kylin10"),
    ("kylin", "V11", "kylin11"),
    *(("openEuler", version, "openeuler") for version in ("20.03", "22.03", "24.03")),
)
#: What is kept as one: a driver, its libraries and the kind of its module.
_DRIVER = ("driver", "library", "module")


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
        unknown = _unknown(host.observation)
        problems += [_problem(host.name, "trainrig_stack.platforms", text, fix) for text, fix in unknown]
        if host.observation is None or unknown:
            continue
        gpus = tuple(sorted({gpu["model"] for gpu in _gpus(host.observation)}))
        platform = str(platform_of(host.observation))
        problems += _added(found, Wish(host.pool, platform, gpus, _installed(host.observation), host.stack), host)
    return [found[key] for key in sorted(found)], problems


def platform_of(observation: Mapping[str, Any]) -> Optional[str]:
    """The code of NVIDIA's repository paths, ubuntu2404-x86_64; None where data/packages.yml knows no such platform."""
    system = observation.get("os") or {}
    name, version = system.get("id"), str(system.get("version_id") or "")
    code = next((code for id_, begins, code in _CODES if id_ == name and f"{version}.".startswith(f"{begins}.")), None)
    machine = _MACHINES.get(str(system.get("arch")))
    return f"{code}-{machine}" if code and machine else None


def _unknown(observation: Optional[Mapping[str, Any]]) -> List[Tuple[str, str]]:
    """What is not known of a host and has to be: [(what, fix)]."""
    declare = "declare trainrig_stack.platforms and gpus"
    if observation is None:
        text = "the host could not be reached, so its platform and GPUs are not known"
        return [(text, f"make it reachable, or {declare}")]
    system = observation.get("os") or {}
    name, version, arch = (system.get(key) for key in ("id", "version_id", "arch"))
    found = []
    if not name or not version:
        what = f"VERSION_ID, as {name} testing and rolling releases do" if name else "ID"
        found.append((f"its /etc/os-release names no {what}, so its platform is not known", declare))
    if arch not in _MACHINES:
        text = f"its architecture is {arch or 'not known'}; system packages are known for {listed(_MACHINES)}"
        found.append((text, "take it out of the groups of layers that install system packages"))
    if not found and not platform_of(observation):
        known = listed(dict.fromkeys(f"{id_} {begins}" for id_, begins, _code in _CODES))
        text = f"{name} {version} is no platform of data/packages.yml; known are {known}"
        found.append((text, f"{declare} where it takes packages of one of these, or take it out of the groups"))
    models = dict.fromkeys((gpu.get("name"), gpu.get("pci_id")) for gpu in _gpus(observation) if not gpu.get("model"))
    for parts in models:
        text = f"the model of a GPU is not known: {' '.join(filter(None, parts)) or 'it tells no PCI id'}"
        found.append((text, f"{declare}, or add it to data/gpus.yml"))
    return found


def _gpus(observation: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    return list((observation.get("nvidia") or {}).get("gpus") or [])


def _added(found: Dict[Tuple[str, str], Wish], wish: Wish, host: Host) -> List[Problem]:
    """Joins what hosts of one pool and platform have; they have to be declared alike."""
    key = (wish.pool, wish.platform)
    other = found.setdefault(key, wish)
    if said(other.stack) != said(wish.stack):
        text = f"hosts of pool {wish.pool} on {wish.platform} are declared differently"
        return [_problem(host.name, "trainrig_stack", text, "declare them alike, or put them in pools of their own")]
    if wish.stack.get("driver") == "keep" and _of(_DRIVER, wish) != _of(_DRIVER, other):
        text = (
            f"keep, and hosts of pool {wish.pool} on {wish.platform} have different drivers: {_driver(wish)} here, "
            f"{_driver(other)} on those before it"
        )
        fix = "name the driver that all are to have, or put the hosts in pools of their own"
        return [_problem(host.name, "trainrig_stack.driver", text, fix)]
    # What is on one node and not on the others is nothing to keep.
    common = {
        name: value
        for names in (_DRIVER, ("pythons",))
        if _of(names, wish) == _of(names, other)
        for name, value in _of(names, wish).items()
    }
    found[key] = other._replace(gpus=tuple(sorted({*other.gpus, *wish.gpus})), installed=common)
    return []


def _of(names: Sequence[str], wish: Wish) -> Dict[str, Any]:
    return {name: wish.installed[name] for name in names if name in wish.installed}


def _driver(wish: Wish) -> str:
    """The driver of a node, for people."""
    version, library, module = (wish.installed.get(name) for name in _DRIVER)
    return " ".join(filter(None, [version or "none", module, library and f"with libraries {library}"]))


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
