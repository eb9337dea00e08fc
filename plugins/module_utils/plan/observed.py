"""The facts of a machine that a layer may declare to depend on (``observed:`` in data/layers.yml).

When one of them changes, the layer is dirty: a new kernel needs a driver module, a new GPU
another environment. Each name is a function of the Observation, and of data/ where that says what does not count.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

Observation = Mapping[str, Any]


def _section(observation: Observation, name: str) -> Mapping[str, Any]:
    value = observation.get(name)
    return value if isinstance(value, Mapping) else {}


def _gpu_pci_ids(observation: Observation) -> Optional[List[str]]:
    gpus = _section(observation, "nvidia").get("gpus")
    return None if gpus is None else sorted(str(gpu.get("pci_id")) for gpu in gpus)


def _driver(observation: Observation) -> Optional[str]:
    driver = _section(_section(observation, "nvidia"), "driver")
    version: Optional[str] = driver.get("module")
    return version


def _operating_system(observation: Observation) -> str:
    facts = _section(observation, "os")
    return " ".join(str(facts.get(key)) for key in ("id", "version_id", "arch"))


def _kernels(observation: Observation, locked: Iterable[str]) -> List[str]:
    """Installed kernels, those left out that the lock itself names: their packages are looked at anyway.

    None was seen before the first one is installed: that the locked one is there then is no change either.
    """
    found = _section(observation, "boot").get("kernels")
    return sorted(set(found or ()) - set(locked))


def _secure_boot(observation: Observation) -> Optional[bool]:
    answer: Optional[bool] = _section(observation, "boot").get("secure_boot")
    return answer


def _topology(observation: Observation) -> Optional[Mapping[str, Any]]:
    """How GPUs and adapters of the node are connected."""
    found = _section(observation, "nvidia").get("topology")
    return {key: found.get(key) for key in ("gpus", "nics")} if isinstance(found, Mapping) else None


def _interfaces(observation: Observation, local_interfaces: str) -> Optional[Dict[str, str]]:
    """Name -> state and addresses, of those over which other nodes may be reached.

    What comes and goes by itself is left out: interfaces of containers, privacy addresses.
    """
    links = _section(observation, "network").get("addresses")
    if links is None:
        return None
    found = {}
    for link in links:
        name = str(link.get("ifname"))
        infos = [
            one for one in link.get("addr_info") or [] if one.get("scope") == "global" and not one.get("temporary")
        ]
        if infos and not re.match(local_interfaces, name):
            state = "down" if link.get("operstate") == "DOWN" else "up"
            shown = sorted(f"{one.get('local')}/{one.get('prefixlen')}" for one in infos)
            found[name] = " ".join([state, *shown])
    return found


OBSERVED: Dict[str, Callable[[Observation], Any]] = {
    "gpu_pci_ids": _gpu_pci_ids,
    "driver": _driver,
    "operating_system": _operating_system,
    "secure_boot": _secure_boot,
    "topology": _topology,
}
#: Those that take the pattern of names of interfaces over which no other node is reached (data/rules.yml).
OF_NETWORK: Dict[str, Callable[[Observation, str], Any]] = {"interfaces": _interfaces}
#: Those that take the releases of the kernels that the host's lock names.
OF_LOCK: Dict[str, Callable[[Observation, Iterable[str]], Any]] = {"kernels": _kernels}
_KERNEL = "linux-image-"


def observed(
    observation: Observation,
    names: Iterable[str],
    local_interfaces: str,
    packages: Iterable[Mapping[str, Any]] = (),
) -> Dict[str, Any]:
    """The named facts of this observation. An unknown name is a mistake in data/layers.yml: ``KeyError``.

    ``packages``: rows of the host's locked system.
    """
    locked = [str(row["name"])[len(_KERNEL) :] for row in packages if str(row["name"]).startswith(_KERNEL)]

    def fact(name: str) -> Any:
        if name in OF_NETWORK:
            return OF_NETWORK[name](observation, local_interfaces)
        return OF_LOCK[name](observation, locked) if name in OF_LOCK else OBSERVED[name](observation)

    return {name: fact(name) for name in names}
