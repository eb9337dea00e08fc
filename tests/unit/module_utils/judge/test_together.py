"""Which hosts of a pool train together, and by which addresses."""

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.together import APART, LEFT_OUT, Run, plan


def observed(*addresses):
    """Interfaces eth0, eth1, ... with one address each."""
    links = []
    for number, text in enumerate(addresses):
        address, _, length = text.partition("/")
        info = {"scope": "global", "local": address, "prefixlen": int(length)}
        links.append({"ifname": f"eth{number}", "operstate": "UP", "addr_info": [info]})
    return {"network": {"addresses": links}}


def fleet(**changes):
    """Three hosts on one private network, behind public addresses."""
    hosts = ["c", "a", "b"]
    values = {
        "members": hosts,
        "ready": {name: {"ranks": 8, "backend": "nccl", "seed": number} for number, name in enumerate(hosts, 1)},
        "observations": {name: observed(f"203.0.113.{ord(name)}/24", f"10.0.0.{ord(name)}/16") for name in hosts},
        "declared": {},
        "at_once": 50,
        "playing": 3,
    }
    return Run(**{**values, **changes})


def test_all_get_the_same_job_and_each_its_own_place():
    parts = {name: plan(name, fleet()) for name in "abc"}
    assert all(part["wanted"] and part["joins"] and part["reason"] is None for part in parts.values())
    assert parts["c"]["asked"] == {
        "nodes": 3, "ranks": 24, "backend": "nccl", "seed": 2, "host": "10.0.0.97", "address": "10.0.0.99",
        "interface": "eth1",
    }  # fmt: skip
    assert all(part["places"] == parts["a"]["places"] for part in parts.values())
    assert parts["a"]["places"]["c"] == {
        "address": "10.0.0.99", "interface": "eth1", "ranks": 8, "network": "10.0.0.0/16", "said": None,
    }  # fmt: skip
    own = ("address", "interface")
    shared = [{key: value for key, value in part["asked"].items() if key not in own} for part in parts.values()]
    assert shared == [shared[0]] * 3


def test_a_pool_of_one_has_no_such_job():
    nothing = {"wanted": False, "joins": False, "reason": None, "asked": {}, "places": {}}
    assert plan("a", fleet(members=["a"])) == nothing


def test_a_host_whose_own_stages_failed_takes_no_part_and_is_named_to_the_others():
    ready = {name: one for name, one in fleet().ready.items() if name != "a"}
    nothing = {"wanted": True, "joins": False, "reason": None, "asked": {}, "places": {}}
    assert plan("a", fleet(ready=ready)) == nothing
    part = plan("b", fleet(ready=ready))
    assert part["joins"] and part["asked"]["nodes"] == 2 and part["asked"]["host"] == "10.0.0.98"
    assert part["reason"] == {"rule": LEFT_OUT, "text": "without a"}
    alone = plan("b", fleet(ready={"b": ready["b"]}))
    assert not alone["joins"] and alone["reason"] == {"rule": LEFT_OUT, "text": "without a, c"}


def test_the_declared_address_is_taken_where_all_have_one():
    declared = {name: f"203.0.113.{ord(name)}" for name in "abc"}
    assert plan("b", fleet(declared=declared))["asked"]["interface"] == "eth0"
    assert plan("b", fleet(declared={"b": declared["b"]}))["asked"]["interface"] == "eth1"


def test_gpus_on_some_only_meet_over_gloo():
    ready = {**fleet().ready, "a": {"ranks": 2, "backend": "gloo", "seed": 5}}
    asked = plan("b", fleet(ready=ready))["asked"]
    assert (asked["backend"], asked["ranks"]) == ("gloo", 18)


PUBLIC = {name: observed(f"8.8.8.{ord(name)}/24") for name in "abc"}
FAR = {name: observed(f"10.{ord(name)}.0.1/24") for name in "abc"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observations": FAR}, "share no network"),
        ({"observations": {}}, "share no network"),
        ({"observations": PUBLIC}, "is public"),
        ({"declared": {"a": "10.0.0.97", "b": "10.0.0.98", "c": "10.9.9.9"}}, "10.9.9.9: c has no interface"),
        ({"at_once": 2}, "forks: 2"),
    ],
)
def test_why_there_is_no_job(changes, words):
    part = plan("a", fleet(**changes))
    assert not part["joins"] and part["reason"]["rule"] == APART and words in part["reason"]["text"]
