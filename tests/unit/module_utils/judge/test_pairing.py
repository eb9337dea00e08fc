"""Rounds of groups: every host works out the same, what came back becomes outcomes, who is to blame is named."""

from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.judge import groups, pairing
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

HOSTS = ["node-1", "node-2", "node-3", "node-4"]
PLACES = {
    host: {"address": f"10.0.0.{number}", "interface": "eth0", "ranks": 8} for number, host in enumerate(HOSTS, 11)
}


def stage(told=None, **changes):
    told = told or {}
    values = {
        "name": "pairs", "places": PLACES, "told": {host: told.get(host, []) for host in HOSTS}, "seed": 7,
        "seconds": 600.0, "bounds": load("thresholds")["pairs"], "ranks_each": 1,
    }  # fmt: skip
    return pairing.Stage(**{**values, **changes})


def ranks_document(hosts, gb_s, ranks=None):
    row = {"collective": "all_reduce", "size_bytes": 1 << 24, "busbw_gb_s": gb_s}
    return {"rows": [row], "ranks": ranks or len(hosts), "nodes": len(hosts), "errors": []}


def healthy(own, asked, gb_s):
    hosts = asked["group"]
    progress = [{"rank": hosts.index(own), "host": own, "step": 6, "doing": "done", "state": None}]
    document = ranks_document(hosts, gb_s) if own == hosts[0] else None
    return {"document": document, "progress": progress, "errors": [], "run": {"tail": []}, "elapsed_s": 20.0}


def play(speed, **changes):
    """All rounds, as the role runs them: speed(own, asked) is the account of one node. Returns every host's record."""
    told = {host: [] for host in HOSTS}
    for _ in range(40):
        now = stage(told, **changes)
        steps = {host: pairing.step(host, now) for host in HOSTS}
        assert len({steps[host]["finished"] for host in HOSTS}) == 1
        if steps[HOSTS[0]]["finished"]:
            return {host: one["record"] for host, one in steps.items()}
        for host, one in steps.items():
            asked = one["asked"]
            kept = {"stage": now.name, "round": one["round"], "group": asked.get("group", []), "rail": None}
            told[host].append({**kept, "result": speed(host, asked) if asked else None})
    raise AssertionError("it never ends")


def slow_with(*bad):
    return lambda own, asked: healthy(own, asked, 1.0 if set(bad) & set(asked["group"]) else 10.0)


def test_a_healthy_pool_needs_few_rounds_and_blames_nobody():
    records = play(slow_with())
    assert len({str(one) for one in records.values()}) == 1, "every host has the same record"
    record = records["node-1"]
    assert record["apart"] == [] and not record["late"]
    blamed = [record["conclusion"][kind] for kind in ("nodes", "links", "rails", "switches", "sets", "undecided")]
    assert blamed == [[]] * 6
    assert all(group["gb_s"] == 10.0 for members in record["rounds"] for group in members)


def test_a_slow_node_is_named():
    (blame,) = play(slow_with("node-3"))["node-1"]["conclusion"]["nodes"]
    assert blame["hosts"] == ["node-3"] and blame["gb_s"] == 1.0


def test_all_pairs_of_a_round_run_at_once_and_each_has_its_own_name():
    now = stage()
    asked = {host: pairing.step(host, now)["asked"] for host in HOSTS}
    assert {tuple(one["group"]) for one in asked.values()} and all(one["nodes"] == 2 for one in asked.values())
    assert len({one["id"] for one in asked.values()}) == 2
    for host, one in asked.items():
        assert one["address"] == PLACES[host]["address"] and one["host"] == PLACES[one["group"][0]]["address"]
        assert one["members"] == ",".join(f"{PLACES[name]['address']}:1" for name in one["group"])


def test_the_fleet_is_one_round_with_everybody():
    step = pairing.step("node-2", stage(name="fleet", ranks_each=0))
    assert step["asked"]["group"] == HOSTS and step["asked"]["nproc"] == 8 and step["asked"]["id"].endswith("fleet-0-0")
    record = play(
        lambda own, asked: (
            {**healthy(own, asked, 1.0), "document": None}
            if own != HOSTS[0]
            else {**healthy(own, asked, 1.0), "document": ranks_document(HOSTS, 1.0, 32)}
        ),
        name="fleet",
        ranks_each=0,
    )["node-1"]
    assert [len(members) for members in record["rounds"]] == [1] and record["conclusion"] is None
    assert record["rounds"][0][0]["error"] is None


def test_no_round_begins_when_the_time_is_up():
    record = play(slow_with("node-3"), seconds=30.0)["node-1"]
    assert record["late"] and len(record["rounds"]) == 2, "20 s a round"


def test_two_jobs_that_each_ran_alone_are_no_result():
    def alone(own, asked):
        return {**healthy(own, asked, 10.0), "document": ranks_document([own], 10.0)}

    record = play(alone)["node-1"]
    assert "each alone" in record["rounds"][0][0]["error"]


def group(**results):
    return groups.Group(0, tuple(sorted(results)), None, results)


def seen(rank, step, doing="all_reduce of 16 bytes: first call", state="S"):
    return {"rank": rank, "step": step, "doing": doing, "state": state}


def account(*progress, errors=(), document=None):
    return {"progress": list(progress), "errors": list(errors), "document": document, "run": {}}


LATE = {"kind": "timeout", "text": "not done within 60 s"}


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ({"a": account(seen(0, 3)), "b": account(seen(1, 3, state="T"))}, ["rank 1 on b is stopped"]),
        ({"a": account(seen(0, 5)), "b": account(seen(1, 3))}, ["rank 1 on b came no further"]),
        ({"a": account(seen(0, 5)), "b": account()}, ["no rank of b was ever started"]),
        ({"a": account(seen(0, 5)), "b": None}, ["no rank of b was ever started"]),
        ({"a": account(seen(0, 5)), "b": account(seen(1, 5))}, []),
        ({"a": account(), "b": account()}, []),
    ],
)
def test_who_kept_the_others_waiting(results, words):
    found = groups.stuck(group(**results), 2)
    assert len(found) == len(words) and all(word in text for word, text in zip(words, found))


def test_a_shut_port_is_told_before_anything_else():
    shut = {"kind": "unreachable", "text": "10.0.0.11 port 29400: no answer"}
    one = group(a=account(errors=[LATE]), b=account(errors=[shut]))
    assert groups.trouble(one, 2) == "b cannot reach a at 10.0.0.11 port 29400: no answer"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, "ended without a result"),
        (ranks_document(["a", "b"], 1.0, ranks=3), "asked for 2 ranks on 2 nodes, ran with 3 on 2"),
        ({**ranks_document(["a", "b"], 1.0), "nodes": 1}, "ran with 2 on 1"),
        ({**ranks_document(["a", "b"], 1.0), "errors": ["rank 0 on a: boom"]}, "rank 0 on a: boom"),
    ],
)
def test_what_is_no_result(document, words):
    assert words in groups.trouble(group(a=account(seen(0, 6, "done"), document=document), b=account()), 2)


def test_hosts_that_cannot_talk_are_left_out_as_few_as_do():
    def outcome(one, other, error=None):
        return pairing.Outcome((one, other), None if error else 1.0, error)

    history = [[outcome("a", "b", "x"), outcome("c", "d")], [outcome("b", "c", "x"), outcome("a", "d")]]
    assert pairing.apart("abcd", history) == ["b"]
    assert pairing.apart("abcd", [*history, [outcome("b", "c"), outcome("a", "b")]]) == [], "the last meeting counts"
