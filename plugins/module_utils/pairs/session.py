"""Finds the bad node, link, card or switch group: rounds of pairs, then single cards, then growing sets.

    history = []
    while groups := next_round(fleet, history, seed):
        history.append([measure(group) for group in groups])     # all at the same time
    conclusion = conclude(fleet, history)

Both are functions of their arguments: every host that has the same history computes the same round.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.pairs import conclusion
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.growing import Growing
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.picture import look
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.rails import Rails
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.schedule import pairs
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.words import (
    Blame,
    Conclusion,
    Fleet,
    Group,
    Outcome,
    PairsError,
)

__all__ = ["Blame", "Conclusion", "Fleet", "Group", "Outcome", "PairsError", "conclude", "next_round"]


def next_round(fleet: Fleet, history: Sequence[Sequence[Outcome]], seed: int) -> Sequence[Group]:
    """Return the groups of the next round: disjoint hosts, to be run at the same time. Empty: finished.

    A round whose outcomes were lost is asked for again, but never more rounds than a fleet could need.
    """
    picture, _missed = look(fleet, history)
    if len(history) >= picture.most_rounds:
        return ()
    rails = Rails(picture, history)
    # Pairs tell who is proven; single cards need proven partners, and sets are made of proven hosts only.
    return pairs(picture, seed) or rails.groups(seed) or Growing(picture, history).groups()


def conclude(fleet: Fleet, history: Sequence[Sequence[Outcome]]) -> Conclusion:
    """Return what the rounds have shown so far; rounds that are missing leave hosts undecided, never guilty."""
    return conclusion.conclude(fleet, history)
