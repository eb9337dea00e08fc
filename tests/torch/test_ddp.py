"""The DDP smoke on real torch: the healthy one passes as a whole; each planted fault is found for what it is."""

import copy
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.torch.torch_env import FAULT, FILES, ddp_options, judged, needs_torch, script, stage

pytestmark = needs_torch
ddp_check = script("ddp_check")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The role's stage, unabridged."""
    return stage(
        tmp_path_factory.mktemp("whole"), "ddp", [str(FILES / "ddp_check.py"), "--nproc=2", "--backend=gloo"], 240
    )


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """The healthy runs that the faulty ones are compared with."""
    check = ddp_check.Check(ddp_options(), tmp_path_factory.mktemp("references"))
    return check.start("one", 1, ["--emulate-ranks=2"]), check.start("unbroken", 2, [])


def faulty(monkeypatch, directory, fault):
    monkeypatch.setenv("SIMULATED_FAULT", fault)
    monkeypatch.setenv("SIMULATED_FAULT_SCRIPT", str(FILES / "ddp_smoke.py"))
    return ddp_check.Check(ddp_options(smoke=FAULT), directory)


def rules_of(document, whole):
    """Judge the whole healthy document with the faulty run's parts in its place."""
    joined = {**copy.deepcopy(whole["document"]), **json.loads(json.dumps(document)), "complete": True}
    result, rules = judged(ddp={"run": whole["run"], "document": joined})
    return set(rules), result["measurements"][0]


def test_healthy(whole):
    result, rules = judged(ddp=whole)
    assert rules == {}
    (smoke,) = result["measurements"]
    assert smoke["status"] == "pass" and smoke["gradients_equal"] and smoke["resumed"] and smoke["loss_falls"]
    assert smoke["samples_per_s"] > 0 and smoke["scaling_efficiency"] > 0
    assert whole["run"]["left_running"] == []
    inner = whole["document"]["runs"].values()
    assert {one["address"] for run in [whole["run"], *inner] for one in run["listening"]} == {"127.0.0.1"}


def test_the_kill_was_real(whole):
    resume = whole["document"]["resume"]
    assert resume["killed"]["pid"] > 0 and resume["restarts"] >= 1
    assert "exitcode: -9" in "\n".join(whole["document"]["runs"]["killed"]["tail"])
    assert 0 < resume["resumed_at_step"] <= resume["killed"]["after_step"] + resume["checkpoint_every"]


def test_padding_is_exercised_and_accounted_for(whole):
    assert [row["repeats_by_rule"] for row in whole["document"]["indices"]] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("fault", "rules"),
    [
        ("gradient", {"verify.gradients_differ"}),
        ("drift", {"verify.gradients_differ"}),
        ("still", {"verify.gradients_differ", "verify.loss_not_falling"}),
        ("same_shard", {"verify.gradients_differ", "verify.indices_incomplete"}),
    ],
)
def test_fault_in_training(fault, rules, whole, references, tmp_path, monkeypatch):
    check = faulty(monkeypatch, tmp_path, fault)
    check.compare(references[0], check.start("unbroken", 2, []))
    check.document["resume"] = whole["document"]["resume"]
    found, smoke = rules_of(check.document, whole)
    assert found == rules
    assert smoke["status"] == "fail" and not smoke["gradients_equal"]


@pytest.mark.parametrize(
    ("fault", "rules"),
    [
        ("wrong_step", {"verify.not_resumed"}),
        ("no_momentum", {"verify.resume_differs"}),
        ("forgets", {"verify.not_resumed"}),
    ],
)
def test_fault_in_resuming(fault, rules, whole, references, tmp_path, monkeypatch):
    check = faulty(monkeypatch, tmp_path, fault)
    check.kill_and_compare(references[1])
    kept = {"resume": check.document["resume"]}
    found, smoke = rules_of(kept, whole)
    assert found == rules
    assert smoke["resumed"] is False and smoke["gradients_equal"]


def test_the_time_budget_holds(tmp_path):
    command = [str(FILES / "ddp_check.py"), "--nproc=2", "--backend=gloo", "--budget=3"]
    late = stage(tmp_path, "ddp", command, 60)
    _result, rules = judged(ddp=late)
    assert rules == {"verify.timeout": "fail"}
    assert late["run"]["rc"] == 1 and late["run"]["left_running"] == []


def two_nodes(directory, *options, fault="", seconds=120):
    """Both parts of a job over two nodes, on two loopback addresses of this machine."""

    def part(number):
        (directory / f"node-{number}").mkdir()
        place = ["--host=127.0.0.1", f"--address=127.0.0.{number}", "--interface=lo", "--port=29417"]
        job = ["--nproc=1", "--nodes=2", "--all-ranks=2", "--backend=gloo", "--seed=5", f"--budget={seconds}"]
        command = [str(FILES / "ddp_check.py"), *job, *place, "--throughput-seconds=0", *options]
        return stage(directory / f"node-{number}", "nodes", command, seconds + 20, fault)

    with ThreadPoolExecutor() as pool:
        found = list(pool.map(part, (1, 2)))
    for number, one in enumerate(found, 1):
        one["asked"] = {"nodes": 2, "ranks": 2, "backend": "gloo", "address": f"127.0.0.{number}", "reason": None}
    return found


def test_a_job_over_two_nodes(tmp_path):
    for part in two_nodes(tmp_path):
        result, rules = judged(nodes=part)
        assert rules == {}
        (smoke,) = result["measurements"]
        assert smoke["status"] == "pass" and smoke["gradients_equal"] and smoke["loss_falls"]
        assert (smoke["nodes"], smoke["ranks"], smoke["resumed"]) == (2, 2, True)
        assert part["document"]["resume"]["killed"]["rank"] in (0, 1), "each node knows which one it was"
        assert part["run"]["left_running"] == []
        inner = part["document"]["runs"].values()
        heard = {one["address"] for run in inner for one in run["listening"]}
        assert heard and all(address.startswith("127.0.0.") for address in heard), "bound, never 0.0.0.0"


def test_a_fault_on_one_of_two_nodes_is_seen_on_both(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMULATED_FAULT_SCRIPT", str(FILES / "ddp_smoke.py"))
    for part in two_nodes(tmp_path, f"--smoke={FAULT}", fault="gradient"):
        result, rules = judged(nodes=part)
        assert rules == {"verify.gradients_differ": "fail"}
        assert result["measurements"][0]["status"] == "fail"


def test_a_node_that_waits_in_vain_ends_in_time(tmp_path):
    place = ["--host=127.0.0.1", "--address=127.0.0.1", "--interface=lo", "--port=29418"]
    job = ["--nproc=1", "--nodes=2", "--all-ranks=2", "--backend=gloo", "--seed=5", "--budget=30"]
    alone = stage(tmp_path, "nodes", [str(FILES / "ddp_check.py"), *job, *place, "--throughput-seconds=0"], 60)
    _result, rules = judged(nodes=alone)
    assert set(rules) <= {"verify.timeout", "verify.stage_failed"} and rules, "torchrun's patience is as long"
    assert alone["run"]["left_running"] == []
