"""The named predicates of the rules in data/coherence.yml. Each answers None where a side is not known."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.profile import runs_on
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.wanted import meets

Predicate = Callable[[Any, Any], Optional[bool]]


@lru_cache(maxsize=4096)
def _parts(version: str) -> Tuple[int, ...]:
    return numbers(version)


def _at_least(value: Any, floor: Any) -> bool:
    return _parts(str(value)) >= _parts(str(floor))


def _at_most(value: Any, ceiling: Any) -> bool:
    return _parts(str(value)) <= _parts(str(ceiling))


def _outside(value: Any, bounds: Any) -> bool:
    """Not within [first, last], both included; what follows the third number does not count."""
    return not _parts(bounds[0]) <= _parts(str(value))[:3] <= _parts(bounds[1])


def _runs_on(compiled: Any, capability: Any) -> bool:
    return runs_on(compiled, str(capability))


PREDICATES: Mapping[str, Predicate] = {
    "is": lambda value, other: bool(value == other),
    "is_not": lambda value, other: bool(value != other),
    "at_least": _at_least,
    "at_most": _at_most,
    "among": lambda value, others: value in others,
    "outside": _outside,
    "meets": lambda value, wish: meets(str(value), str(wish)),
    "runs_on": _runs_on,
}


def holds(name: str, value: Any, operand: Any) -> Optional[bool]:
    """What a predicate says; None where a side is not known (an empty list of alternatives is known)."""
    if value is None or operand is None:
        return None
    return PREDICATES[name](value, operand)
