"""Growing sets: four hosts, eight, and so on up to all, to see that what works in pairs works as a whole."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Dict, FrozenSet, List, Optional, Set, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import natural
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.picture import History, Picture
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.robust import Normal, normal
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.words import Group, Outcome

Members = Tuple[str, ...]
#: Two hosts are a pair; sets double from here on.
_FIRST = 4


class Growing:
    """The sets of proven hosts. A bad set that is part of a good one had a dip, so sets grow on without a second look;
    only when the whole stays bad are the smallest bad sets measured again.
    """

    def __init__(self, picture: Picture, history: History) -> None:
        self.picture = picture
        self.left_out = self._left_out()
        #: Neighbours stay neighbours as the sets grow: by switch group, then by name.
        self.order = sorted(
            picture.sound - self.left_out, key=lambda host: (picture.named.get(host, ""), natural(host))
        )
        self.measured: Dict[FrozenSet[str], List[Outcome]] = {}
        for one in (one for done in history for one in done):
            if one.rail is None and len(set(one.group)) > 2:
                self.measured.setdefault(frozenset(one.group), []).append(one)
        self.stages = self._stages()
        self.normals: Dict[bool, Normal] = {}  # of the largest sets so far, across switch groups or inside
        self.bounds: Dict[Members, Optional[float]] = {}
        for stage in self.stages:
            self._reference(stage)

    def _left_out(self) -> Set[str]:
        """Sound hosts that would make every set slow for a reason that is known: one end of a link, a switch group."""
        picture = self.picture
        out = {sorted(pair)[1] for pair in picture.bad_links()}
        if picture.crossed:
            for name in picture.uncrossed:
                out |= set(picture.groups[name])
        return out

    def _stages(self) -> List[List[Members]]:
        count, size, stages = len(self.order), _FIRST, []
        while size < count:
            starts = range(0, count - size + 1, size)
            stages.append([tuple(self.order[at : at + size]) for at in starts])
            size *= 2
        if count > 2:
            stages.append([tuple(self.order)])
        if self.picture.uncrossed and not self.picture.crossed:
            # Nothing between the switch groups is good: only sets inside them can be.
            stages = [[one for one in stage if not self._across(one)] for stage in stages]
        return [stage for stage in stages if stage]

    def _across(self, members: Members) -> bool:
        names = {self.picture.named.get(host) for host in members}
        return len(names) > 1 or (None in names and bool(self.picture.groups))

    def _reference(self, stage: List[Members]) -> None:
        """Sets of one size are held against each other; a single one against the size before."""
        best = {}
        for members in stage:
            numbers = [one.gb_s for one in self.seen(members) if one.error is None and one.gb_s is not None]
            if numbers:
                best[members] = max(numbers)
        kinds: Dict[bool, List[Members]] = {}
        for members in best:
            kinds.setdefault(self._across(members), []).append(members)
        for across, same in kinds.items():
            found = normal([best[one] for one in same], [best[one] for one in same], self.picture.fleet.bounds)
            bound = found.bound if found and len(same) > 1 else self._from_smaller(across)
            # How the hosts are connected is known to be uneven: then only what fails is bad.
            uneven = self.picture.tangled or (across and self.picture.narrow)
            self.bounds.update(dict.fromkeys(same, None if uneven else bound))
            if found:
                self.normals[across] = found

    def _from_smaller(self, across: bool) -> Optional[float]:
        """What a single set is held against: a share of the sets before, and of what the switches lose between them."""
        share = float(self.picture.fleet.bounds["least_share_when_growing"]["value"])
        if across in self.normals:
            return self.normals[across].middle * share
        inside, between = self.picture.pool, self.picture.between
        if not self.normals or (across and not (inside and between)):
            return None
        loss = min(1.0, between.middle / inside.middle) if inside and between else 1.0
        return self.normals[not across].middle * share * loss

    def seen(self, members: Members) -> List[Outcome]:
        return self.measured.get(frozenset(members), [])

    def good(self, members: Members) -> bool:
        bound = self.bounds.get(members)
        return any(
            one.error is None and one.gb_s is not None and (bound is None or one.gb_s >= bound)
            for one in self.seen(members)
        )

    def _proven(self, members: Members) -> bool:
        own = set(members)
        return any(own <= set(other) and self.good(other) for stage in self.stages for other in stage)

    def _weight(self, members: Members) -> float:
        return sum(map(self.picture.weight, self.seen(members)))

    def guilty(self) -> List[Members]:
        """The smallest sets that were never good, often enough."""
        for stage in self.stages:
            bad = [
                one
                for one in stage
                if self.seen(one) and not self._proven(one) and self._weight(one) >= self.picture.needed
            ]
            if bad:
                return bad
        return []

    def whole(self) -> Optional[Outcome]:
        """The best outcome of the largest set that is good."""
        for stage in reversed(self.stages):
            for members in stage:
                if self.good(members):
                    return max(self.seen(members), key=lambda one: one.gb_s or 0)
        return None

    def groups(self) -> List[Group]:
        """The next round of sets; empty when the whole is good or its fault is named."""
        for stage in self.stages:
            if not any(self.seen(one) for one in stage):
                return [Group(one) for one in stage]
        if not self.stages or self.good(self.stages[-1][0]):
            return []
        whole = self.stages[-1][0]
        if self._weight(whole) < self.picture.needed:
            return [Group(whole)]
        for stage in self.stages:
            bad = [one for one in stage if not self._proven(one)]
            if bad:
                return [Group(one) for one in bad if self._weight(one) < self.picture.needed]
        return []
