"""The facts of a machine that a layer may declare to depend on (``observed:`` in data/layers.yml).

When one of them changes, the layer is dirty: a new kernel needs a driver module, a new GPU
another environment. Each name is a function of the Observation and nothing else.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

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


OBSERVED: Dict[str, Callable[[Observation], Any]] = {
    "gpu_pci_ids": _gpu_pci_ids,
    "driver": _driver,
    "operating_system": _operating_system,
}


def observed(observation: Observation, names: Iterable[str]) -> Dict[str, Any]:
    """The named facts of this observation. An unknown name is a mistake in data/layers.yml: ``KeyError``."""
    return {name: OBSERVED[name](observation) for name in names}
