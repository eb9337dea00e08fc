"""What changed between two looks at one node: events that are new, counters that rose, and what they may rise by."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import SEVERITIES

_SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0}

Facts = Mapping[str, Any]


class Looks(NamedTuple):
    """Observations of one node (what trainrig.gpu.observe returns) and the data to judge by."""

    before: Facts
    during: Sequence[Facts]  # taken while the load ran; may hold no more than some probes
    after: Facts
    host: Optional[str]
    rules: Facts  # data/rules.yml
    xids: Facts  # data/xids.yml
    health: Facts  # data/health.yml

    @property
    def rebooted(self) -> bool:
        """Whether counters began anew in between. A boot id that is not known on one side tells nothing."""
        was, now = (at(look, "boot", "boot_id") for look in (self.before, self.after))
        return bool(was and now and was != now)

    @property
    def seconds(self) -> Optional[float]:
        """Time between the two looks by the node's own clock; None where it is not known or was set back."""
        was, now = (at(look, "identity", "clock_unix_s") for look in (self.before, self.after))
        return now - was if was is not None and now is not None and now >= was else None

    def fresh(self, kind: str, names: Sequence[str]) -> Optional[List[Tuple[Dict[str, Any], int]]]:
        """The events of the kernel log that are new, and how many of each; None where a log could not be read."""
        before, after = (at(look, "kernel_log", kind) for look in (self.before, self.after))
        return fresh(before, after, names, self.rebooted)


def at(tree: Any, *names: str) -> Any:
    """The value under nested names; None where one is missing."""
    for name in names:
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree


def rise(was: Optional[int], now: Optional[int], anew: bool = False) -> Optional[int]:
    """How far a counter rose. None: not known. ``anew``: it began at 0 in between (a reboot).

    One that is lower than before began anew too (a reset GPU, a driver loaded again): all that it shows is new.
    """
    if now is None or (was is None and not anew):
        return None
    return now if anew or was is None or now < was else now - was


def fresh(
    before: Optional[List[Dict[str, Any]]], after: Optional[List[Dict[str, Any]]], names: Sequence[str], anew: bool
) -> Optional[List[Tuple[Dict[str, Any], int]]]:
    """The events that are new and how many of each; None where one of the logs is not known.

    ``names`` say what makes two entries the same event. An old log may lose its beginning: then the count falls or
    stands still, and the time of the last one tells that at least one is new.
    """
    if after is None or (before is None and not anew):
        return None
    old = {} if anew else {tuple(event.get(name) for name in names): event for event in before or []}
    found = []
    for event in after:
        known = old.get(tuple(event.get(name) for name in names))
        count = int(event.get("count") or 1)
        if known is None:
            found.append((event, count))
        elif count > int(known.get("count") or 1):
            found.append((event, count - int(known.get("count") or 1)))
        elif event.get("last") != known.get("last"):
            found.append((event, 1))
    return found


def exceeds(risen: int, row: Facts, seconds: Optional[float]) -> bool:
    """Whether a rise is more than a row of data/health.yml allows in that time.

    A time that is shorter than the unit, or not known, is given the allowance of one whole unit.
    """
    unit = _SECONDS.get(str(row["per"]))
    times = 1.0 if unit is None or seconds is None else max(1.0, seconds / unit)
    return risen > float(row["allowed"]) * times


def gravest(rows: Iterable[Facts]) -> Optional[Facts]:
    """The row of the worst severity."""
    return min(rows, key=lambda row: SEVERITIES.index(str(row["severity"])), default=None)
