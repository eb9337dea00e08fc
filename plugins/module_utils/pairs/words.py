"""The names of the search for a bad node: what is measured, of whom, and what comes out."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence, Tuple


class Outcome(NamedTuple):
    """What one group measured. Neither a number nor an error counts as an error: it brought nothing."""

    group: Tuple[str, ...]
    gb_s: Optional[float]
    error: Optional[str] = None
    rail: Optional[str] = None


class Group(NamedTuple):
    """Hosts that run together, over all their network cards or over the one that is named."""

    hosts: Tuple[str, ...]
    rail: Optional[str] = None


class Fleet(NamedTuple):
    """Who is measured, and what is known before. ``bounds`` is the key pairs of data/thresholds."""

    hosts: Sequence[str]
    switches: Mapping[str, str] = {}  # host -> its switch group; a host that is missing: unknown
    rails: Sequence[str] = ()  # network cards that every node has, by the name that all share
    floor_gb_s: Optional[float] = None  # of two nodes
    bounds: Mapping[str, Any] = {}


class Blame(NamedTuple):
    """One thing that is bad, or that could not be told apart, and the outcomes that say so."""

    what: str  # node | link | rail | switch | set | undecided
    hosts: Tuple[str, ...]
    cause: str
    outcomes: Tuple[Outcome, ...]
    rail: Optional[str] = None
    switches: Tuple[str, ...] = ()
    gb_s: Optional[float] = None  # the best that was seen of it; None: nothing but errors
    expected_gb_s: Optional[float] = None  # what it was held against


class Conclusion(NamedTuple):
    """What the rounds have shown, whenever they end."""

    nodes: Tuple[Blame, ...]
    links: Tuple[Blame, ...]
    rails: Tuple[Blame, ...]
    switches: Tuple[Blame, ...]
    sets: Tuple[Blame, ...]  # hosts that are good in pairs and bad together
    undecided: Tuple[Blame, ...]
    not_measured: Tuple[str, ...]
    sound: Tuple[str, ...]  # proven by a good pair
    middle_gb_s: Optional[float]  # median of the good pairs
    bound_gb_s: Optional[float]  # what pairs were held against
    floor_missed: bool  # most hosts never reached the floor, so pairs were compared with each other
    whole: Optional[Outcome]  # the largest set that was measured well
    isolated_after: int  # rounds of pairs
    rounds: int  # with those of single rails and growing sets
    limit: int  # most rounds of pairs
    notes: Tuple[str, ...]


class PairsError(ValueError):
    """A fleet that cannot be searched."""
