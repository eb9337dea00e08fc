"""What the rounds have shown: who is bad, what could not be told apart, what was not measured."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Dict, Iterable, List, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import natural
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.growing import Growing
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.picture import (
    BAD,
    BETWEEN,
    History,
    Picture,
    look,
    pair_limit,
    partner,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.rails import Rails
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.words import Blame, Conclusion, Fleet, Outcome


def conclude(fleet: Fleet, history: History) -> Conclusion:
    """Return what the rounds have shown so far."""
    picture, missed = look(fleet, history)
    rails, growing = Rails(picture, history), Growing(picture, history)
    switches = _switches(picture)
    named = {host for one in switches if one.cause.startswith(_ALL) for host in one.hosts}
    pool = picture.pool.bound if picture.pool else None
    bound = picture.floor if picture.floor is not None else pool
    return Conclusion(
        nodes=_nodes(picture, rails),
        links=_links(picture),
        rails=_rails(picture, rails),
        switches=switches,
        sets=_sets(growing),
        undecided=_undecided(picture, missed, named),
        not_measured=_sorted(host for host in picture.hosts if not picture.of_host[host]),
        sound=_sorted(picture.sound),
        middle_gb_s=picture.pool.middle if picture.pool else None,
        bound_gb_s=bound,
        floor_missed=missed,
        whole=growing.whole(),
        isolated_after=picture.pair_rounds,
        rounds=len(history),
        limit=pair_limit(len(picture.hosts)),
        notes=tuple(_notes(picture, growing, missed)),
    )


#: How the cause begins when a whole switch group is bad, inside as well as outwards.
_ALL = "every host of the switch group"


def _sorted(hosts: Iterable[str]) -> Tuple[str, ...]:
    return tuple(sorted(hosts, key=natural))


def _best(outcomes: Iterable[Outcome]) -> Optional[float]:
    return max((one.gb_s for one in outcomes if one.error is None and one.gb_s is not None), default=None)


def _how(outcomes: Iterable[Outcome]) -> str:
    """Slow, or worse."""
    kinds = {one.error is None and one.gb_s is not None for one in outcomes}
    if len(kinds) > 1:
        return "slow or failing"
    return "slow" if True in kinds else "failing"


def _nodes(picture: Picture, rails: Rails) -> Tuple[Blame, ...]:
    found = []
    for host in picture.convicted:
        if rails.guilty(host):
            continue
        charges = picture.charges(host)
        others = _sorted({partner(one, host) for one in charges})
        cause = f"{_how(charges)} with {', '.join(others)}, which are good with others"
        if rails.measured(host):
            bad = len(rails.cards(host))
            cause += "; each of its network cards alone is good" if not bad else "; so are its network cards alone"
        bound = picture.bound(*charges[-1].group)
        found.append(Blame("node", (host,), cause, tuple(charges), gb_s=_best(charges), expected_gb_s=bound))
    return tuple(found)


def _rails(picture: Picture, rails: Rails) -> Tuple[Blame, ...]:
    found = []
    for host in picture.convicted:
        for name, seen in rails.guilty(host).items():
            bound = rails.normal.bound if rails.normal else None
            cause = f"{_how(seen)} over {name} alone, good over the other cards of the node"
            found.append(Blame("rail", (host,), cause, tuple(seen), name, gb_s=_best(seen), expected_gb_s=bound))
    return tuple(found)


def _links(picture: Picture) -> Tuple[Blame, ...]:
    found = []
    for pair in picture.bad_links():
        seen = tuple(one for _mark, one in picture.of_pair[pair])
        hosts = _sorted(pair)
        cause = f"{_how(seen)} with each other each time, both good with others"
        found.append(Blame("link", hosts, cause, seen, gb_s=_best(seen), expected_gb_s=picture.bound(*hosts)))
    return tuple(found)


def _switches(picture: Picture) -> Tuple[Blame, ...]:
    guilty = [name for name in sorted(picture.uncrossed) if picture.convicted_group(name)]
    found = []
    told = len(picture.groups) == 2 or not picture.common
    if len(guilty) > 1 and not picture.crossed and told:
        seen = [one for name in guilty for one in picture.crossings(name)]
        cause = f"{_how(seen)} between all of the switch groups, good inside them: what connects them, or one of two"
        found.append(_switch(picture, tuple(guilty), cause, list(dict.fromkeys(seen))))
    elif not guilty and picture.floor is None and len(picture.groups) > 1 and told:
        slower = _slower_between(picture)
        if slower:
            found.append(slower)
    for name in guilty:
        seen, good_inside = picture.crossings(name), picture.sound & set(picture.groups[name])
        if not picture.crossed and (good_inside or any(map(picture.lacks_home, picture.groups[name]))):
            continue  # what lies between the switches may be as bad
        if good_inside:
            cause = f"{_how(seen)} with every other switch group, good inside"
        else:
            cause = f"{_ALL} is {_how(seen)} with every host: the switch, or what they share"
        found.append(_switch(picture, (name,), cause, seen))
    return tuple(found)


def _switch(picture: Picture, names: Tuple[str, ...], cause: str, seen: List[Outcome]) -> Blame:
    hosts = _sorted(host for name in names for host in picture.groups[name])
    bound = picture.bound(*seen[-1].group)
    return Blame("switch", hosts, cause, tuple(seen), switches=names, gb_s=_best(seen), expected_gb_s=bound)


def _slower_between(picture: Picture) -> Optional[Blame]:
    """All pairs between groups equally slow: without a floor only the pairs inside the groups tell."""
    inside, between = picture.pool, picture.between
    if not inside or not between or between.middle >= inside.bound or not set(picture.groups) <= picture.left_well:
        return None
    seen = [one for one in picture.outcomes if picture.relation(*one.group) == BETWEEN]
    cause = (
        f"between switch groups {between.middle:.4g} GB/s, inside them {inside.middle:.4g}: fewer or slower links "
        "between the switches, by design or by a fault"
    )
    names = tuple(picture.groups)
    return _switch(picture, names, cause, seen)._replace(what="undecided", expected_gb_s=inside.bound)


def _sets(growing: Growing) -> Tuple[Blame, ...]:
    found = []
    for members in growing.guilty():
        seen = tuple(growing.seen(members))
        cause = f"{_how(seen)} together each time; pairs and smaller sets of them are good"
        bound = growing.bounds.get(members)
        found.append(Blame("set", members, cause, seen, gb_s=_best(seen), expected_gb_s=bound))
    return tuple(found)


def _undecided(picture: Picture, missed: bool, named: Iterable[str]) -> Tuple[Blame, ...]:
    waiting = [host for host in picture.suspects if picture.of_host[host] and host not in set(named)]
    seen: Dict[Outcome, None] = {}
    for host in waiting:
        seen.update(dict.fromkeys(one for mark, one in picture.of_host[host] if mark == BAD))
    bad = tuple(seen)
    if missed and not picture.convicted and not waiting:
        text = "most hosts never reach the floor and none stands out: something that they share"
        worst = tuple(one for one in picture.outcomes if (one.gb_s or 0) < (picture.fleet.floor_gb_s or 0))
        return (_open(picture, _sorted(picture.hosts), text, worst),)
    if picture.tangled:
        pairs = list(picture.bad_pairs)
        text = f"{len(pairs)} pairs are bad, their hosts good with others: how they are connected, no single links"
        seen_in = tuple(one for pair in pairs for _mark, one in picture.of_pair[pair])
        return (_open(picture, _sorted({host for pair in pairs for host in pair}), text, seen_in),)
    if not bad and not picture.bad_pairs:
        return ()
    if len(picture.hosts) == 2:
        text = f"{_how(bad)}: one of the two or the link between them; two nodes alone cannot tell"
        return (_open(picture, _sorted(waiting), text, bad),)
    if not picture.sound:
        text = f"every pair is {_how(bad)}: most of them, or something that all of them share"
        return (_open(picture, _sorted(waiting), text, bad),)
    found = []
    for pair, weight in sorted(picture.bad_pairs.items(), key=lambda item: sorted(item[0])):
        if weight >= picture.needed and not picture.around(pair):
            text = (
                "bad with each other each time, good with others, but no others in common: the link, or their switches"
            )
            found.append(_open(picture, _sorted(pair), text, tuple(one for _mark, one in picture.of_pair[pair])))
    for host in waiting:
        own = tuple(one for mark, one in picture.of_host[host] if mark == BAD)
        if own:
            text = f"{_how(own)}, and not measured often enough with hosts that are proven good"
            if host in picture.named and picture.named[host] not in picture.groups:
                text = f"{_how(own)}, alone at its switch as far as is known: the node, or what connects the switch"
            found.append(_open(picture, (host,), text, own))
    return tuple(found)


def _open(picture: Picture, hosts: Tuple[str, ...], cause: str, seen: Tuple[Outcome, ...]) -> Blame:
    bound = (
        picture.fleet.floor_gb_s
        if picture.fleet.floor_gb_s is not None
        else picture.pool.bound
        if picture.pool
        else None
    )
    return Blame("undecided", hosts, cause, seen, gb_s=_best(seen), expected_gb_s=bound)


def _notes(picture: Picture, growing: Growing, missed: bool) -> List[str]:
    notes = []
    if missed:
        notes.append(
            f"most hosts never reach the floor, {picture.fleet.floor_gb_s:g} GB/s; pairs are held against each other"
        )
    if picture.floor is None and not missed and len(picture.hosts) == 2 and picture.outcomes:
        notes.append("two nodes and no floor: there is nothing to compare their speed with")
    if growing.left_out:
        notes.append(f"not in the growing sets, for what is known of them: {', '.join(_sorted(growing.left_out))}")
    return notes
