"""One network card at a time: whether a bad node is bad, or one of its cards."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from math import log
from typing import Dict, List, Optional, Set, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.picture import History, Picture
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.robust import Normal, normal
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.schedule import shuffled
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.words import Group, Outcome

#: Pairs of proven hosts that measure the same card beside the suspect, so that there is something to compare with.
_CONTROLS = 4
#: Outcomes of each card where all of them are bad.
_LOOKS = 2


class Rails:
    """The outcomes over single cards, of nodes that pairs have convicted."""

    def __init__(self, picture: Picture, history: History) -> None:
        self.picture = picture
        self.names = list(dict.fromkeys(picture.fleet.rails)) if len(set(picture.fleet.rails)) > 1 else []
        self.outcomes = [
            one
            for done in history
            for one in done
            if one.rail in self.names and len(set(one.group)) == 2 and picture.known.issuperset(one.group)
        ]
        self.rounds = sum(1 for done in history if any(one.rail in self.names for one in done))
        best: Dict[Tuple[str, Optional[str]], float] = {}
        numbers = [one for one in self.outcomes if one.error is None and one.gb_s is not None]
        for one in numbers:
            key = (next((host for host in one.group if host in picture.convicted), one.group[0]), one.rail)
            best[key] = max(best.get(key, 0.0), float(one.gb_s or 0))
        self.normal = normal(best.values(), [float(one.gb_s or 0) for one in numbers], picture.fleet.bounds)
        self.of_card: Dict[Tuple[str, str], List[Tuple[bool, Outcome]]] = {}
        for one in self.outcomes:
            for host in one.group:
                self.of_card.setdefault((host, str(one.rail)), []).append((self._good(one), one))
        hypotheses = max(1, len(picture.convicted)) * max(1, len(self.names))
        self.needed = log(hypotheses / float(picture.fleet.bounds["false_blame"]["value"]))

    def _good(self, outcome: Outcome) -> bool:
        if outcome.error is not None or outcome.gb_s is None or self.normal is None:
            return False
        return outcome.gb_s >= self.normal.bound

    def cards(self, host: str) -> Dict[str, List[Outcome]]:
        """The cards of a host that were measured and never good."""
        found = {}
        for name in self.names:
            seen = self.of_card.get((host, name), [])
            if seen and not any(good for good, _one in seen):
                found[name] = [one for _good, one in seen]
        return found

    def guilty(self, host: str) -> Dict[str, List[Outcome]]:
        """The cards that explain why the host is bad: often enough bad, beside others that are good, and as slow.

        The load is split evenly over the cards, so a card that holds the node up is as far below its like as the node
        is. Where it is nearer to what is normal, the node holds up the card.
        """
        bad = self.cards(host)
        if not self.measured(host) or len(bad) == len(self.names):
            return {}
        node = _share(self.picture.charges(host), self.picture.pool)
        return {
            name: seen
            for name, seen in bad.items()
            if self._weight(seen) >= self.needed and 2 * _share(seen, self.normal) <= node + 1
        }

    def measured(self, host: str) -> bool:
        return bool(self.names) and all((host, name) in self.of_card for name in self.names)

    def _weight(self, outcomes: List[Outcome]) -> float:
        return sum(map(self.picture.weight, outcomes))

    def _wanted(self, host: str) -> Optional[str]:
        """The card of this host that has to be measured next."""
        for name in self.names:
            if (host, name) not in self.of_card:
                return name
        bad = self.cards(host)
        if len(bad) == len(self.names):
            # All of them are slow: the node, unless the one that is not had a dip. Each is looked at again, the best
            # of them until it is sure.
            again = [name for name, seen in bad.items() if len(seen) < _LOOKS]
            best = max(bad, key=lambda name: _share(bad[name], self.normal))
            return again[0] if again else best if self._weight(bad[best]) < self.needed else None
        return next((name for name, seen in bad.items() if self._weight(seen) < self.needed), None)

    def groups(self, seed: int) -> List[Group]:
        """The next round over single cards; empty when nothing is to be learnt from them."""
        picture = self.picture
        enough = len(self.names) * (1 + picture.enough)
        if not self.names or not picture.convicted or self.rounds >= enough:
            return []
        free = shuffled(picture.sound, seed)
        made: List[Group] = []
        cards: Set[str] = set()
        for host in picture.convicted:
            name = self._wanted(host)
            if name is None or not free:
                continue
            met = {other for _good, one in self.of_card.get((host, name), []) for other in one.group}
            other = min(free, key=lambda one: (one in met, not picture.clear_way(host, one)))
            free.remove(other)
            made.append(Group(tuple(sorted((host, other))), name))
            cards.add(name)
        controls = list(zip(free[::2], free[1::2]))[:_CONTROLS]
        for number, two in enumerate(controls if made else []):
            made.append(Group(tuple(sorted(two)), sorted(cards)[number % len(cards)]))
        return made


def _share(outcomes: List[Outcome], reference: Optional[Normal]) -> float:
    """The best of them as a share of what is normal; 0 where all failed."""
    best = max((one.gb_s for one in outcomes if one.error is None and one.gb_s is not None), default=0.0)
    return best / reference.middle if reference else 0.0
