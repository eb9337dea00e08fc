"""Fuzz of the search for a bad node: random fleets with known faults, measured by a simulator of its own.

    tests/fuzz/fleets.py --count 10000 [--seed N]

The reference knows nothing of the inference: it draws capacities of nodes, cards, links and switches, measures with
noise, dips and failed runs, and compares what was blamed with what it broke. Nothing healthy may be blamed, what is
broken must be found, and rounds keep within 2 log2 N + 4. The seed is printed; one fleet runs again with --only.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import math
import random
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.session import (  # noqa: E402
    Conclusion,
    Fleet,
    Group,
    Outcome,
    conclude,
    next_round,
)
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load  # noqa: E402

BOUNDS = load("thresholds")["pairs"]
KINDS = (
    "healthy",
    "healthy",
    "healthy",
    "slow node",
    "slow node",
    "failing node",
    "nodes",
    "paired",
    "link",
    "rail",
    "uplink",
    "switch",
    "narrow spine",
)


class Truth(NamedTuple):
    """What the simulator broke."""

    kind: str
    fleet: Fleet
    nodes: dict[str, float]  # host -> share of the capacity that is left; 0: every run with it fails
    links: dict[frozenset[str], float]
    rails: dict[tuple[str, str], float]
    uplinks: dict[str, float]  # switch group -> share that is left of what leaves it
    inner: dict[str, float]  # switch group -> share that is left of everything in it
    switches: dict[str, str]  # where the hosts really are; the fleet may know less
    spine: float  # what the fabric between groups is built for
    base: float
    sigma: float
    dips: float
    failures: float


def draw(chance: random.Random, most: int, seed: int) -> Truth:
    count = min(most, max(2, round(2 ** chance.uniform(1, math.log2(most)))))
    hosts = [f"node-{number}" for number in range(count)]
    base = chance.choice((12.0, 46.0, 380.0, 480.0))
    kind = chance.choice(KINDS)
    switches, known = {}, {}
    if kind in ("uplink", "switch", "narrow spine") or chance.random() < 0.4:
        size = chance.choice((2, 4, 8, 16, 32, 64))
        switches = {host: f"leaf-{number // size}" for number, host in enumerate(hosts)}
        share = chance.choice((1, 1, 1, 1, 1, 0.9, 0.5, 0))
        known = {host: name for host, name in switches.items() if chance.random() < share}
    rails = [f"mlx5_{number}" for number in range(chance.choice((2, 4, 8)))] if kind == "rail" else []
    if kind == "slow node" and chance.random() < 0.3:
        rails = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    floor = base * chance.uniform(0.7, 0.85) if chance.random() < 0.5 else None
    truth = Truth(
        kind=kind,
        fleet=Fleet(hosts, known, rails, floor, BOUNDS),
        nodes={},
        links={},
        rails={},
        uplinks={},
        inner={},
        switches=switches,
        spine=chance.uniform(0.3, 0.6) if kind == "narrow spine" else 1.0,
        base=base,
        sigma=chance.uniform(0.002, 0.03),
        dips=chance.uniform(0, 0.02),
        failures=chance.uniform(0, 0.001),
    )
    _break(truth, chance, seed)
    return truth


def _break(truth: Truth, chance: random.Random, seed: int) -> None:
    hosts, left = list(truth.fleet.hosts), chance.uniform(0.1, 0.6)
    if truth.kind == "slow node":
        truth.nodes[chance.choice(hosts)] = left
    elif truth.kind == "failing node":
        truth.nodes[chance.choice(hosts)] = 0.0
    elif truth.kind == "nodes":
        for host in chance.sample(hosts, max(1, chance.randrange(1 + len(hosts) // 6))):
            truth.nodes[host] = chance.choice((0.0, chance.uniform(0.1, 0.6)))
    elif truth.kind == "paired":
        for host in chance.choice(next_round(truth.fleet, [], seed)).hosts:
            truth.nodes[host] = left
    elif truth.kind == "link":
        two = chance.choice(next_round(truth.fleet, [], seed)).hosts
        truth.links[frozenset(two)] = chance.choice((0.0, left))
    elif truth.kind == "rail":
        truth.rails[chance.choice(hosts), chance.choice(truth.fleet.rails)] = left
    elif truth.kind in ("uplink", "switch"):
        name = chance.choice(sorted(set(truth.switches.values())))
        (truth.uplinks if truth.kind == "uplink" else truth.inner)[name] = left


def capacity(truth: Truth, group: Group) -> float:
    """The slowest part of a ring over the group; 0: the run fails."""
    rails = truth.fleet.rails
    used = [group.rail] if group.rail else rails
    shares = [1.0 if len(group.hosts) == 2 else 0.8]
    named = truth.switches
    for host in group.hosts:
        # The load is split evenly over the cards, so the slowest of them holds all of them up.
        cards = min((truth.rails.get((host, rail), 1.0) for rail in used), default=1.0)
        cards /= len(rails) if group.rail else 1
        shares += [truth.nodes.get(host, 1.0), cards, truth.inner.get(named.get(host, ""), 1.0)]
    for one, other in zip(group.hosts, (*group.hosts[1:], group.hosts[0])):
        shares.append(truth.links.get(frozenset((one, other)), 1.0))
        if named.get(one) != named.get(other):
            shares.append(truth.spine)
            shares += [truth.uplinks.get(named.get(host, ""), 1.0) for host in (one, other)]
    return truth.base * min(shares)


def measure(truth: Truth, group: Group, chance: random.Random) -> Outcome:
    able = capacity(truth, group)
    if not able or chance.random() < truth.failures:
        return Outcome(group.hosts, None, chance.choice(("timed out", "connection refused")), group.rail)
    able *= math.exp(chance.gauss(0, truth.sigma))
    if chance.random() < truth.dips:
        able *= chance.uniform(0.2, 0.9)
    return Outcome(group.hosts, able, None, group.rail)


def search(truth: Truth, seed: int, chance: random.Random) -> tuple[list[list[Outcome]], Conclusion]:
    history: list[list[Outcome]] = []
    while True:
        groups = next_round(truth.fleet, history, seed)
        if not groups:
            return history, conclude(truth.fleet, history)
        members = [host for group in groups for host in group.hosts]
        if len(members) != len(set(members)) or not set(members) <= set(truth.fleet.hosts):
            raise AssertionError(f"round {len(history) + 1}: a host twice, or one of another fleet: {members}")
        history.append([measure(truth, group, chance) for group in groups])
        if len(history) > 400:
            raise AssertionError("the search does not end")


def wrong(truth: Truth, history: list[list[Outcome]], found: Conclusion) -> list[str]:
    """What the conclusion says that is not so, and what it does not say."""
    problems = _blamed(truth, history, found)
    hosts, known = truth.fleet.hosts, truth.fleet.switches
    undecided = {host for one in found.undecided for host in one.hosts}
    bad = set(truth.nodes) | {host for host, _card in truth.rails}
    if found.not_measured:
        problems.append(f"not measured: {found.not_measured}")
    if len(hosts) <= 3 or 4 * len(bad) > len(hosts):
        return problems  # too few are good to tell anything for sure
    nodes = {one.hosts[0] for one in found.nodes}
    cards = {(one.hosts[0], one.rail) for one in found.rails}
    through = {host for one in found.switches for host in one.hosts}
    nodes |= undecided & alone(truth)  # the node, or what connects its switch
    problems += [f"bad node not found: {host}" for host in sorted(set(truth.nodes) - nodes - through)]
    problems += [
        f"bad card not found: {card}"
        for card in sorted(set(truth.rails) - cards)
        if card[0] not in undecided & alone(truth)
    ]
    if truth.links and {frozenset(one.hosts) for one in found.links} != set(truth.links):
        problems.append(f"bad link not found: {sorted(map(sorted, truth.links))}")
    shares = truth.spine == 1 and not truth.uplinks and not truth.inner
    problems += [f"healthy node left undecided: {host}" for host in sorted(undecided - bad) if shares]
    groups = real_groups(truth)
    if set(truth.uplinks) <= set(groups) and len(groups) > 2 and len(known) == len(hosts):
        said = {name for one in found.switches for name in one.switches}
        problems += [f"bad switch group not found: {name}" for name in sorted(set(truth.uplinks) - said)]
    return problems


def alone(truth: Truth) -> set[str]:
    """Hosts with no other at their switch."""
    names = list(truth.switches.values())
    return {host for host, name in truth.switches.items() if names.count(name) == 1}


def real_groups(truth: Truth) -> dict[str, set[str]]:
    """The switch groups that can be told from their hosts: two of them are known to be in it."""
    members: dict[str, set[str]] = {}
    for host, name in truth.fleet.switches.items():
        members.setdefault(name, set()).add(host)
    return {name: hosts for name, hosts in members.items() if len(hosts) > 1}


def _blamed(truth: Truth, history: list[list[Outcome]], found: Conclusion) -> list[str]:
    """Everything that was blamed and is not bad."""
    problems = []
    groups = real_groups(truth)
    broken = set(truth.uplinks) | set(truth.inner)
    # A slow card makes its node slow; without the cards' names that is all there is to see. And one host alone at a
    # bad switch, as far as is known, cannot be told from it.
    bad = set(truth.nodes) | {host for host, _card in truth.rails if not truth.fleet.rails}
    bad |= {host for host, name in truth.switches.items() if name in broken and name not in groups}
    bad |= alone(truth) if broken or truth.spine < 1 else set()
    if len(truth.fleet.switches) < len(truth.fleet.hosts):
        bad |= {host for host, name in truth.switches.items() if name in truth.inner}
        bad |= {host for host, name in truth.switches.items() if name in broken and host not in truth.fleet.switches}
    problems += [f"healthy node blamed: {one.hosts[0]}" for one in found.nodes if one.hosts[0] not in bad]
    for one in found.rails:
        if (one.hosts[0], one.rail) not in truth.rails:
            problems.append(f"healthy card blamed: {one.hosts[0]} {one.rail}")
    for one in found.links:
        if frozenset(one.hosts) not in truth.links:
            problems.append(f"healthy link blamed: {one.hosts}")
    for one in found.switches:
        names = set(one.switches)
        all_bad = all(host in truth.nodes for host in one.hosts)  # cannot be told from a bad switch
        everywhere = truth.spine < 1 or (names == set(groups) and len(names - broken) < 2)
        if not names <= broken and not all_bad and not everywhere:
            problems.append(f"healthy switch group blamed: {sorted(names)}")
    for one in found.sets:
        sizes = {outcome.group for done in history for outcome in done if len(outcome.group) == len(one.hosts)}
        best = max([0.8 * truth.base] if len(sizes) < 2 else [capacity(truth, Group(group)) for group in sizes])
        if capacity(truth, Group(one.hosts)) > 0.9 * best:
            problems.append(f"healthy set blamed: {one.hosts}")
    return problems


def bound(count: int) -> int:
    return int(2 * math.log2(count) + 4)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--count", type=int, default=10000)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--hosts", type=int, default=1024, help="largest fleet")
    options.add_argument("--only", type=int, default=None, help="the number of one fleet of this seed")
    given = options.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {given.count} fleets of 2 to {given.hosts} hosts", flush=True)
    begun, failed = time.monotonic(), 0
    used: dict[str, list[tuple[int, int, int]]] = {}
    for number in [given.only] if given.only is not None else range(given.count):
        chance = random.Random(f"{seed}/{number}")
        truth = draw(chance, given.hosts, number % 7)
        history, found = search(truth, number % 7, chance)
        problems = wrong(truth, history, found)
        count = len(truth.fleet.hosts)
        used.setdefault(truth.kind, []).append((count, found.isolated_after, found.rounds))
        if found.isolated_after > bound(count):
            problems.append(f"{found.isolated_after} rounds of pairs, allowed are {bound(count)}")
        if given.only is not None:
            print(truth, *history, found, sep="\n")
        for problem in problems:
            print(f"fleet {number} of seed {seed}, {count} hosts, {truth.kind}: {problem}")
        failed += bool(problems)
    for kind, rows in sorted(used.items()):
        worst = max(rows, key=lambda row: row[1] / bound(row[0]))
        tight = f"{worst[1]} of {bound(worst[0])} at {worst[0]} hosts"
        print(
            f"{kind:13} {len(rows):5} fleets: rounds of pairs {max(row[1] for row in rows):3} at most, nearest to the "
            f"bound {tight}; with cards and growing sets {max(row[2] for row in rows)} at most"
        )
    print(f"{given.count} fleets in {time.monotonic() - begun:.0f} s: {failed} with a wrong answer")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
