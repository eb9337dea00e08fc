"""What the pairs that were measured say of each host, pair and switch group."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from math import ceil, lgamma, log, log2
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Set, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.robust import Normal, normal
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.words import Fleet, Outcome, PairsError

History = Sequence[Sequence[Outcome]]
GOOD, PLAIN, BAD = "good", "plain", "bad"
INSIDE, BETWEEN, UNKNOWN = "inside", "between", "unknown"

#: How often a host whose switch is not known is measured with other suspects before it is convicted.
_AMONG = 2
#: With how many others a host is good that testifies against one whose switch is not known.
_TRUSTED = 2
#: How often a host is measured inside a switch group of which nothing good is known.
_AT_HOME = 2
#: Outcomes of a host beyond those that a conviction needs: with partners that turn out to say nothing.
_SPARE = 5


class Missing(NamedTuple):
    """What a conviction lacks: weight, an outcome inside the host's switch group, outcomes with other suspects."""

    weight: bool
    inside: bool
    among: bool


def pair_limit(hosts: int) -> int:
    """The most rounds of pairs: 2 log2 N + 4."""
    return int(2 * log2(hosts) + 4) if hosts > 1 else 0


class Picture:
    """The evidence. A pair is as fast as its slowest part, so one good outcome proves both hosts and the way between.

    A bad one proves nothing by itself: it charges a host only when the partner is proven good elsewhere, and one-off
    dips happen. So evidence adds up: each bad outcome counts -log of how often a healthy pair has one, and what was
    never good once is convicted when the sum exceeds log(hosts / false blame).
    """

    def __init__(self, fleet: Fleet, history: History, use_floor: bool = True) -> None:
        if not fleet.bounds:
            raise PairsError("Fleet.bounds is empty. To fix it: hand over the key pairs of data/thresholds.yml.")
        self.fleet = fleet
        self.hosts = sorted(set(fleet.hosts))
        self.known = frozenset(self.hosts)
        self.floor = fleet.floor_gb_s if use_floor else None
        self.named = {host: fleet.switches[host] for host in self.hosts if fleet.switches.get(host)}
        members: Dict[str, List[str]] = {}
        for host, name in self.named.items():
            members.setdefault(name, []).append(host)
        #: A switch with one host cannot be told from the host.
        self.groups = {name: hosts for name, hosts in sorted(members.items()) if len(hosts) > 1}
        self.rounds = [
            [one for one in done if one.rail is None and len(set(one.group)) == 2 and self.known.issuperset(one.group)]
            for done in history
        ]
        self.pair_rounds = sum(1 for done in self.rounds if done)
        self.outcomes = [one for done in self.rounds for one in done]
        self.needed = log(max(2, len(self.hosts)) / self._value("false_blame"))
        self._slow, self._broken = -log(self._value("dips")), -log(self._value("failures"))
        #: More outcomes than this say nothing new of a host.
        self.enough = ceil(self.needed / self._slow) + _SPARE
        #: Whatever gets lost on the way, no search is longer: pairs, single cards with their second looks, sets.
        growing = ceil(log2(max(2, len(self.hosts)))) + 2 * self.enough
        self.most_rounds = pair_limit(len(self.hosts)) + len(fleet.rails) * (1 + self.enough) + growing
        self._references()
        self._marks()

    def _value(self, name: str) -> float:
        return float(self.fleet.bounds[name]["value"])

    def relation(self, one: str, other: str) -> str:
        if one not in self.named or other not in self.named:
            return UNKNOWN
        return INSIDE if self.named[one] == self.named[other] else BETWEEN

    def weight(self, outcome: Outcome) -> float:
        return self._slow if outcome.error is None and outcome.gb_s is not None else self._broken

    # what is normal

    def _references(self) -> None:
        numbers = [one for one in self.outcomes if one.error is None and one.gb_s is not None]
        self.pool = self._normal(numbers)
        #: Pairs of different switch groups may be slower by design: then all of them are. Hosts that are proven good
        #: tell by how much.
        self.between: Optional[Normal] = None
        if self.pool and self.groups:
            proven = {host for one in numbers if float(one.gb_s or 0) >= self.pool.bound for host in one.group}
            across = [one for one in numbers if self.relation(*one.group) == BETWEEN and proven.issuperset(one.group)]
            slow = all(float(one.gb_s or 0) < self.pool.bound for one in across)
            if slow and 2 * len({host for one in across for host in one.group}) >= len(proven):
                self.between = self._normal(across)

    def _normal(self, outcomes: List[Outcome]) -> Optional[Normal]:
        best: Dict[str, float] = {}
        for one in outcomes:
            for host in one.group:
                best[host] = max(best.get(host, 0.0), float(one.gb_s or 0))
        return normal(best.values(), [float(one.gb_s or 0) for one in outcomes], self.fleet.bounds)

    def bound(self, one: str, other: str) -> Optional[float]:
        """What the outcome of this pair is held against."""
        if self.floor is not None:
            return self.floor
        if self.pool is None:
            return None
        if self.between is None or self.relation(one, other) == INSIDE:
            return self.pool.bound
        return min(self.between.bound, self.pool.bound)

    def mark(self, outcome: Outcome) -> str:
        """Bad: below what is normal for pairs like it. Plain: normal for them, but too slow to prove a host."""
        if outcome.error is not None or outcome.gb_s is None:
            return BAD
        bound = self.bound(*outcome.group)
        if bound is not None and outcome.gb_s < bound:
            return BAD
        return PLAIN if self.floor is None and self.pool and outcome.gb_s < self.pool.bound else GOOD

    # who is good

    def _marks(self) -> None:
        self.of_host: Dict[str, List[Tuple[str, Outcome]]] = {host: [] for host in self.hosts}
        self.of_pair: Dict[FrozenSet[str], List[Tuple[str, Outcome]]] = {}
        self.sound: Set[str] = set()
        self.crossed: Set[str] = set()
        for one in self.outcomes:
            mark = self.mark(one)
            for host in one.group:
                self.of_host[host].append((mark, one))
            self.of_pair.setdefault(frozenset(one.group), []).append((mark, one))
            if mark == GOOD:
                self.sound.update(one.group)
            if mark != BAD and self.relation(*one.group) == BETWEEN:
                self.crossed.update(self.named[host] for host in one.group)
        #: Groups that were left towards proven hosts, and nothing that left them was good.
        self.uncrossed = {
            self.named[host]
            for one in self.outcomes
            if self.relation(*one.group) == BETWEEN
            for host in one.group
            if self.named[host] in self.groups and partner(one, host) in self.sound
        } - self.crossed
        #: Groups that proven hosts were measured from towards proven hosts of others.
        ways = [
            {self.named[host] for host in one.group}
            for one in self.outcomes
            if self.relation(*one.group) == BETWEEN and self.sound.issuperset(one.group)
        ]
        self.left_well = {name for way in ways for name in way}
        #: The one group, or the two, that all of these ways have in common.
        self.common = set.intersection(*ways) if ways else set()
        #: Whether no way between groups is as good as what stays inside.
        self.narrow = bool(self.uncrossed and not self.crossed) or bool(
            self.between and self.pool and self.between.middle < self.pool.bound
        )
        self.unsound = [host for host in self.hosts if host not in self.sound and self.of_host[host]]
        self.bad_pairs = self._bad_pairs()
        self.tangled = self._tangled()
        self.convicted = [host for host in self.hosts if self._guilty(host)]
        self.suspects = [host for host in self.hosts if host not in self.sound and host not in set(self.convicted)]

    def left(self, one: str, other: str) -> Set[str]:
        """The switch groups that the way between two hosts leaves for sure."""
        if self.relation(one, other) != BETWEEN:
            return set()
        return {self.named[host] for host in (one, other) if self.named[host] in self.groups}

    def clear_way(self, one: str, other: str) -> bool:
        """Whether nothing but the two hosts and their own link can be what is bad."""
        relation = self.relation(one, other)
        if relation == INSIDE:
            return True
        if self.uncrossed and not self.crossed:
            return False
        if relation == BETWEEN:
            return self.left(one, other) <= self.crossed
        return not {self.named.get(one), self.named.get(other)} & self.uncrossed

    def hidden(self, one: str, other: str) -> bool:
        """Whether a switch that nobody named may lie between two hosts."""
        return self.relation(one, other) != INSIDE and not self.left(one, other)

    def trusted(self, host: str) -> bool:
        """Good with two others: one alone may share a switch with it that the rest is badly connected to."""
        return len(self.good_with(host)) >= min(_TRUSTED, len(self.sound) - 1)

    def charges(self, host: str) -> List[Outcome]:
        """The bad outcomes that speak against a host."""
        return [
            one
            for mark, one in self.of_host[host]
            if mark == BAD
            and partner(one, host) in self.sound
            and self.clear_way(*one.group)
            and (not self.hidden(*one.group) or self.trusted(partner(one, host)))
            and not (self.tangled and self.relation(*one.group) != INSIDE)
        ]

    def missing(self, host: str) -> Missing:
        """What a conviction of this host still lacks."""
        charges = self.charges(host)
        by: Dict[str, float] = {}
        for one in charges:
            by[partner(one, host)] = by.get(partner(one, host), 0.0) + self.weight(one)
        partners = set(by)
        own = self.own_sound(host)
        # Half of it without the partner that charges most: that may be a bad link.
        total = sum(by.values())
        light = total < self.needed or 2 * (total - max(by.values())) < self.needed
        # Hosts that are good with each other and bad with the rest share a switch that nobody named.
        among = 0
        if self.named.get(host) not in self.groups:
            others = {other for other in self.unsound if other != host}
            met = [one for _mark, one in self.of_host[host] if partner(one, host) in others]
            among = _AMONG - len(met) if others else 0
        if own:
            return Missing(light, not partners & own, among > 0)
        return Missing(light, self.lacks_home(host), among > 0)

    def lacks_home(self, host: str) -> bool:
        """Nothing good is known of the host's switch group: there may have been a dip inside, so once is not enough."""
        mates = self.groups.get(self.named.get(host, ""), [])
        inside = [one for _mark, one in self.of_host[host] if self.relation(*one.group) == INSIDE]
        return bool(mates) and not self.own_sound(host) and len(inside) < _AT_HOME

    def own_sound(self, host: str) -> Set[str]:
        name = self.named.get(host)
        return (set(self.groups.get(name, ())) & self.sound) - {host} if name else set()

    def _guilty(self, host: str) -> bool:
        return host not in self.sound and bool(self.charges(host)) and not any(self.missing(host))

    # links and switch groups

    def _bad_pairs(self) -> Dict[FrozenSet[str], float]:
        """Pairs of sound hosts of which no outcome was ever good, and the weight of that."""
        found = {}
        for pair, marks in self.of_pair.items():
            if pair <= self.sound and all(mark == BAD for mark, _one in marks) and self.clear_way(*pair):
                found[pair] = sum(self.weight(one) for _mark, one in marks)
        return found

    def _tangled(self) -> bool:
        """Whether so many pairs of good hosts are bad that it is how the hosts are connected, and not single links.

        Chance alone makes k of n pairs bad with less than (n over k) times each one's own probability.
        """
        few = int(self._value("links"))
        again = [pair for pair, weight in self.bad_pairs.items() if 2 * weight >= self.needed]
        total, bad = len(self.of_pair), len(self.bad_pairs)
        chances = lgamma(total + 1) - lgamma(bad + 1) - lgamma(total - bad + 1)
        once = sum(self.weight(self.of_pair[pair][0][1]) for pair in self.bad_pairs)
        return len(again) > few or (bad > few and once - chances >= self.needed)

    def around(self, pair: FrozenSet[str]) -> bool:
        """Whether a way around over a third host is good. Else a switch may be bad, also one that nobody named."""
        one, other = sorted(pair)
        return self.relation(one, other) == INSIDE or bool(self.good_with(one) & self.good_with(other))

    def good_with(self, host: str) -> Set[str]:
        return {partner(one, host) for mark, one in self.of_host[host] if mark == GOOD}

    def bad_links(self) -> List[FrozenSet[str]]:
        """Pairs of sound hosts that are bad each time, and nothing else explains it."""
        if self.tangled:
            return []
        found = [pair for pair, weight in self.bad_pairs.items() if weight >= self.needed and self.around(pair)]
        return sorted(found, key=sorted)

    def crossings(self, name: str) -> List[Outcome]:
        """The bad outcomes that speak against what connects a switch group: with hosts of groups that do cross."""
        found = []
        inside = [host for host in self.groups[name] if host in self.sound]
        for host in inside or self.groups[name]:
            for mark, one in self.of_host[host]:
                other = partner(one, host)
                left = self.left(host, other)
                if (
                    mark == BAD
                    and other in self.sound
                    and name in left
                    and not (self.crossed and left - {name} - self.crossed)
                ):
                    found.append(one)
        return found

    def convicted_group(self, name: str) -> bool:
        against = self.crossings(name)
        hosts = {host for one in against for host in one.group if self.named.get(host) == name}
        return sum(map(self.weight, against)) >= self.needed and len(hosts) > 1

    def raw(self, host: str) -> float:
        """The weight of all that was bad with a host, whoever the partner was."""
        return sum(self.weight(one) for mark, one in self.of_host[host] if mark == BAD)


def partner(outcome: Outcome, host: str) -> str:
    return outcome.group[1] if outcome.group[0] == host else outcome.group[0]


def look(fleet: Fleet, history: History) -> Tuple[Picture, bool]:
    """Return the evidence, and whether the floor was given up because most hosts never reach it.

    Then it tells nobody apart, and the pairs are compared with each other.
    """
    picture = Picture(fleet, history)
    few = 2 * len(picture.sound) < len(picture.hosts)
    if picture.floor is None or not few or not picture.outcomes or len(picture.hosts) < 3:
        return picture, False
    tired = picture.pair_rounds >= pair_limit(len(picture.hosts))
    if tired or all(picture.raw(host) >= picture.needed for host in picture.hosts if host not in picture.sound):
        return Picture(fleet, history, use_floor=False), True
    return picture, False
