"""Who is measured with whom in the next round of pairs."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from random import Random
from typing import Dict, Iterable, List, Optional, Set, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.picture import (
    BETWEEN,
    INSIDE,
    Picture,
    pair_limit,
    partner,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.words import Group

#: Rounds of everybody that a pool without a floor needs to know what is normal.
_EVEN, _UNEVEN = 2, 4
#: Pairs of proven hosts beside the suspects.
_CONTROLS = 4
#: Pairs that tell whether one switch group or all that lies between them is slow.
_AGAIN = 2


def shuffled(hosts: Iterable[str], seed: int) -> List[str]:
    """The same order wherever it is asked for."""
    order = sorted(hosts)
    Random(str(seed)).shuffle(order)
    return order


def pairs(picture: Picture, seed: int) -> List[Group]:
    """Return the next round of pairs; empty when nothing more can be learnt from pairs."""
    if len(picture.hosts) < 2 or picture.pair_rounds >= pair_limit(len(picture.hosts)):
        return []
    order = shuffled(picture.hosts, seed)
    if not picture.outcomes:
        return _matching(picture, order)
    return _Round(picture, order).groups()


def _matching(picture: Picture, order: List[str]) -> List[Group]:
    """All hosts, inside their switch group as far as that goes."""
    waiting: Dict[Optional[str], List[str]] = {}
    rest, groups = [], []
    for host in order:
        name = picture.named.get(host)
        waiting.setdefault(name if name in picture.groups else None, []).append(host)
    for hosts in waiting.values():
        groups += [Group(tuple(sorted(two))) for two in zip(hosts[::2], hosts[1::2])]
        rest += hosts[len(hosts) // 2 * 2 :]
    return groups + [Group(tuple(sorted(two))) for two in zip(rest[::2], rest[1::2])]


class _Round:
    """One round under way: every host is in at most one pair."""

    def __init__(self, picture: Picture, order: List[str]) -> None:
        self.picture = picture
        self.order = order
        self.taken: Set[str] = set()
        self.made: List[Group] = []
        self.seen = {pair: len(marks) for pair, marks in picture.of_pair.items()}

    def groups(self) -> List[Group]:
        self._links_again()
        self._never_left()
        self._groups_again()
        self._trust(len(self.picture.sound) // 4)
        self._suspects()
        self._trust(_CONTROLS + 2 * len(self.picture.suspects))
        if self.picture.pair_rounds == 1 and len(self.picture.groups) > 1:
            self._across()
        elif self.picture.fleet.floor_gb_s is None:
            self._anew()
        return self.made

    def _take(self, one: str, other: str) -> None:
        self.taken.update((one, other))
        self.made.append(Group(tuple(sorted((one, other)))))

    def _free(self, hosts: Iterable[str]) -> List[str]:
        wanted = set(hosts)
        return [host for host in self.order if host in wanted and host not in self.taken]

    def _links_again(self) -> None:
        """A pair of sound hosts that was never good is measured again: a link, or a dip."""
        picture = self.picture
        for pair, weight in sorted(picture.bad_pairs.items(), key=lambda item: sorted(item[0])):
            if picture.tangled or pair & self.taken or len(picture.of_pair[pair]) > picture.enough:
                continue
            one, other = sorted(pair)
            if not picture.around(pair):
                self._around(one, other) or self._around(other, one)
            elif weight < picture.needed:
                self._take(one, other)

    def _around(self, one: str, other: str) -> bool:
        """Measure a host that is good with one of them with the other."""
        third = [host for host in self._free(self.picture.good_with(one)) if not self._met(host, other)]
        if third:
            self._take(third[0], other)
        return bool(third)

    def _groups_again(self) -> None:
        """A switch group that nothing good came out of is measured with hosts of groups that do cross."""
        picture = self.picture
        for name in sorted(picture.uncrossed):
            missing = picture.needed - sum(map(picture.weight, picture.crossings(name)))
            members = [host for host in picture.groups[name] if host in picture.sound] or picture.groups[name]
            others = [
                host
                for host in picture.sound
                if picture.named.get(host, name) != name
                and (not picture.crossed or picture.named[host] in picture.crossed)
            ]
            for host in self._free(members):
                if missing <= 0 and picture.convicted_group(name):
                    break
                found = self._unseen(host, self._free(others))
                if found:
                    self._take(host, found)
                    missing -= picture.weight(picture.of_host[found][0][1])

    def _never_left(self) -> None:
        """Switch groups that the round across did not touch; and where no way is good, ways without what all share."""
        picture = self.picture
        if picture.pair_rounds < 2 or len(picture.groups) < 2:
            return
        proven = {name: [host for host in hosts if host in picture.sound] for name, hosts in picture.groups.items()}
        for name in proven:
            if name not in picture.left_well | picture.uncrossed:
                others = [host for other in proven if other != name for host in proven[other]]
                for two in list(zip(self._free(proven[name]), self._free(others)))[:1]:
                    self._take(*two)
        apart = [name for name in proven if name not in picture.common and self._free(proven[name])]
        if picture.narrow and picture.common and len(apart) > 1:
            for two in list(zip(self._free(proven[apart[0]]), self._free(proven[apart[1]])))[:_AGAIN]:
                self._take(*two)

    def _suspects(self) -> None:
        """Hosts that nothing good is known of, with proven hosts; where none is left, among each other."""
        picture = self.picture
        left = []
        for host in sorted(self._free(picture.suspects), key=lambda host: len(picture.of_host[host])):
            if host in self.taken or self._done(host) or self._among(host) or self._at_home(host):
                continue
            if picture.charges(host) and not (picture.missing(host).weight or picture.missing(host).inside):
                continue  # waits for other suspects
            found = self._partner(host, self._free(picture.sound))
            if found:
                self._take(host, found)
            else:
                left.append(host)
        for host in left:
            if host not in self.taken:
                fresh = [other for other in left if other not in self.taken and other != host]
                found = self._unseen(host, fresh)
                if found and (not picture.sound or not self._met(host, found)):
                    self._take(host, found)

    def _trust(self, most: int) -> None:
        """Where a switch that nobody named may lie between, hosts that testify have to be good with two others."""
        picture = self.picture
        if not picture.suspects or all(picture.named.get(host) in picture.groups for host in picture.hosts):
            return
        free = self._free(picture.sound)
        doubtful = {host for host in free if not picture.trusted(host)}
        others = sorted(free, key=lambda host: host not in doubtful)
        for host in others[: len(doubtful)]:
            if most <= 0:
                break
            if host in self.taken:
                continue
            for other in others:
                if other != host and other not in self.taken and not self._met(host, other):
                    self._take(host, other)
                    most -= 1
                    break

    def _among(self, host: str) -> bool:
        """Suspects whose switch is not known, with each other: good together, they share one."""
        picture = self.picture
        if len(picture.charges(host)) < 2 or not picture.missing(host).among:
            return False
        others = [other for other in self._free(picture.unsound) if other != host]
        if others:
            self._take(host, min(others, key=lambda other: self._met(host, other)))
        return bool(others)

    def _lost(self, host: str) -> bool:
        """Nothing good left the host's switch group, and nothing good is known inside."""
        return self.picture.named.get(host) in self.picture.uncrossed and not self.picture.own_sound(host)

    def _at_home(self, host: str) -> bool:
        """A host of a switch group that nothing good is known of is measured inside once more."""
        picture = self.picture
        if not picture.lacks_home(host) or not (self._lost(host) or len(picture.charges(host)) > 1):
            return False
        mates = [other for other in self._free(picture.groups[picture.named[host]]) if other != host]
        if mates:
            self._take(host, min(mates, key=lambda other: self._met(host, other)))
        return bool(mates)

    def _done(self, host: str) -> bool:
        picture = self.picture
        if len(picture.of_host[host]) >= picture.enough:
            return True
        if picture.tangled and host not in picture.named:
            return True
        if picture.sound:
            return self._lost(host) and not picture.lacks_home(host)
        return picture.raw(host) >= picture.needed

    def _partner(self, host: str, free: List[str]) -> Optional[str]:
        """The proven host that says most: first of another switch, then of the own; one not met yet, if there is."""
        picture = self.picture
        met = {partner(one, host) for _mark, one in picture.of_host[host]} & picture.sound
        lacks_inside = picture.missing(host).inside and bool(picture.own_sound(host))
        wanted = INSIDE if met and lacks_inside else BETWEEN

        def rank(other: str) -> Tuple[bool, int, bool, bool]:
            return (
                picture.pair_rounds > 1 and not picture.clear_way(host, other),
                self._met(host, other),
                picture.hidden(host, other) and not picture.trusted(other),
                picture.relation(host, other) != wanted,
            )

        if met and lacks_inside:
            inside = [other for other in free if picture.relation(host, other) == INSIDE]
            return min(inside, key=rank) if inside else None
        return min(free, key=rank) if free else None

    def _unseen(self, host: str, others: List[str]) -> Optional[str]:
        return min(others, key=lambda other: self._met(host, other)) if others else None

    def _met(self, one: str, other: str) -> int:
        return self.seen.get(frozenset((one, other)), 0)

    def _across(self) -> None:
        """Everybody who is free, with somebody of another switch group: half a turn around the groups in a row."""
        picture = self.picture
        free = self._free(picture.named)
        rank = {host: number for number, host in enumerate(self.order)}
        free.sort(key=lambda host: (picture.named[host], rank[host]))
        half = len(free) // 2
        for one, other in zip(free[:half], free[len(free) - half :]):
            if picture.relation(one, other) == BETWEEN:
                self._take(one, other)

    def _anew(self) -> None:
        """Without a floor the pool tells what is normal; one outcome of each host is too little, more so in an uneven
        pool.
        """
        pool = self.picture.pool
        if self.picture.pair_rounds >= (_UNEVEN if pool and pool.uneven else _EVEN):
            return
        free = self._free(self.picture.hosts)
        half = len(free) // 2
        for number, host in enumerate(free):
            for other in free[number + half :] + free[number + 1 : number + half]:
                if host not in self.taken and other not in self.taken and other != host and not self._met(host, other):
                    self._take(host, other)
                    break
