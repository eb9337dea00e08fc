"""The table of rules: which function judges which id. What an id means to people is in data/rules.yml."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, TypeVar

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Evidence

if TYPE_CHECKING:
    from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host, Pool


class Hit:
    """A rule fired. What is left out is taken from the rule's row in data/rules.yml."""

    def __init__(
        self,
        summary: str,
        evidence: Optional[List[Evidence]] = None,
        severity: Optional[str] = None,
        action: Optional[str] = None,
        cause: Optional[str] = None,
        host: Optional[str] = None,
        say: Optional[str] = None,
        **values: Any,
    ) -> None:
        """``host``: the odd one, for rules over a pool. ``say``: another text of the row's `texts` than its `next`.

        ``cause``: the finding's own, taken as it is. ``values`` fill the {names} in the row's texts.
        """
        self.summary = summary
        self.evidence = evidence or []
        self.severity = severity
        self.action = action
        self.cause = cause
        self.host = host
        self.say = say
        self.values = values


HostRule = Callable[["Host"], Iterator[Hit]]
PoolRule = Callable[["Pool"], Iterator[Hit]]
HOST_RULES: Dict[str, HostRule] = {}
POOL_RULES: Dict[str, PoolRule] = {}
_H = TypeVar("_H", bound=HostRule)
_P = TypeVar("_P", bound=PoolRule)


def host_rule(rule: str) -> Callable[[_H], _H]:
    """Register a function that judges one host."""

    def register(function: _H) -> _H:
        _new(rule)
        HOST_RULES[rule] = function
        return function

    return register


def pool_rule(rule: str) -> Callable[[_P], _P]:
    """Register a function that judges what trains together."""

    def register(function: _P) -> _P:
        _new(rule)
        POOL_RULES[rule] = function
        return function

    return register


def _new(rule: str) -> None:
    if rule in HOST_RULES or rule in POOL_RULES:
        raise ValueError(f"rule {rule} is registered twice")
