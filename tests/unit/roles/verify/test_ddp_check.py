"""The comparisons of ddp_check.py, on records written by hand."""

import argparse
import json
import math

import pytest

from tests.unit.roles.verify.scripts import script

ddp_check = script("ddp_check")
environment = script("environment")


def run(directory, ranks):
    """Records: {rank: [event, ...]}."""
    directory.mkdir(exist_ok=True)
    for rank, events in ranks.items():
        text = "".join(json.dumps(event) + "\n" for event in events)
        (directory / f"rank-{rank}.jsonl").write_text(text)
    return ddp_check.Run(directory).read()


def step(number, indices=(), epoch=0, loss=1.0, **more):
    return {"event": "step", "step": number, "epoch": epoch, "indices": list(indices), "loss": loss, **more}


@pytest.mark.parametrize(
    ("left", "right", "relative"),
    [
        ([1.0, -4.0], [1.0, -4.0], 0.0),
        ([1.0, -4.0], [1.0, -4.5], 0.125),
        ([0.0], [0.5], 0.5),
        ([1.0], [1.0, 2.0], None),
        ([], [], None),
        ([math.nan], [1.0], None),
        ([1.0], [math.inf], None),
    ],
)
def test_difference(left, right, relative):
    assert ddp_check.difference(left, right)["relative"] == relative


def test_every_sample_once(tmp_path):
    many = run(tmp_path, {0: [step(1, [0, 2])], 1: [step(1, [1, 3])]})
    (row,) = ddp_check.indices(many, 2, 4)
    assert (row["visited"], row["missing"], row["repeats"], row["repeats_by_rule"]) == (4, 0, 0, 0)


def test_padding_by_rule(tmp_path):
    many = run(tmp_path, {0: [step(1, [0, 2])], 1: [step(1, [1, 0])]})
    (row,) = ddp_check.indices(many, 2, 3)
    assert (row["missing"], row["repeats"], row["repeats_by_rule"]) == (0, 1, 1)


def test_a_lost_sample_and_one_seen_twice(tmp_path):
    many = run(tmp_path, {0: [step(1, [0, 2])], 1: [step(1, [1, 1])]})
    (row,) = ddp_check.indices(many, 2, 4)
    assert (row["missing"], row["missing_examples"], row["repeats"]) == (1, [3], 1)


def test_epochs_are_counted_apart(tmp_path):
    many = run(tmp_path, {0: [step(1, [0, 1], 0), step(2, [0, 0], 1)]})
    assert [row["missing"] for row in ddp_check.indices(many, 1, 2)] == [0, 1]


def test_a_repeated_step_counts_once_and_as_it_was_last(tmp_path):
    many = run(tmp_path, {0: [step(1, [0], loss=1.0), step(2, [1], loss=2.0), step(2, [1], loss=3.0)]})
    assert many.losses() == [1.0, 3.0]
    assert ddp_check.indices(many, 1, 2)[0]["repeats"] == 0


def test_half_a_line_of_a_killed_worker_is_left_out(tmp_path):
    run(tmp_path, {0: [step(1)]})
    with (tmp_path / "rank-0.jsonl").open("a") as stream:
        stream.write('{"event": "st')
    assert list(ddp_check.Run(tmp_path).read().steps()) == [1]


def test_the_worst_pair_of_ranks_counts(tmp_path):
    trained = {"event": "trained", "parameters": [1.0]}
    many = run(tmp_path, {0: [step(1), trained], 1: [step(1), trained], 2: [step(1), {**trained, "parameters": [1.5]}]})
    assert ddp_check.equality(many, many)["parameters_between_ranks"]["relative"] == 0.5
    (tmp_path / "rank-2.jsonl").write_text(json.dumps(step(1)) + "\n")
    many = ddp_check.Run(tmp_path).read()
    assert ddp_check.equality(many, many)["parameters_between_ranks"]["relative"] is None


def test_resume_reads_the_last_start(tmp_path):
    start = {"event": "start", "pid": 1}
    events = [
        {**start, "restart": 0, "resumed_at_step": 0},
        step(1),
        {**start, "restart": 1, "resumed_at_step": 1},
        step(2),
    ]
    broken = run(tmp_path / "broken", {0: events})
    unbroken = run(tmp_path / "unbroken", {0: [{**start, "restart": 0, "resumed_at_step": 0}, step(1), step(2)]})
    facts = ddp_check.resume({"rank": 0}, broken, unbroken, 1, 1)
    assert (facts["restarts"], facts["resumed_at_step"], facts["losses"]["relative"]) == (1, 1, 0.0)
    assert ddp_check.resume(None, unbroken, unbroken, 1, 1)["resumed_at_step"] is None


TORCH = {"device_count": 0, "backends": ["gloo"], "error": None}


@pytest.mark.parametrize(
    ("torch", "cores", "ranks", "backend", "expected"),
    [
        ({}, 64, 0, "auto", (True, 2, "gloo")),
        ({}, 1, 0, "auto", (True, 1, "gloo")),
        ({"device_count": 8, "backends": ["gloo", "nccl"]}, 64, 0, "auto", (True, 8, "nccl")),
        ({"device_count": 8, "backends": ["gloo", "nccl"]}, 64, 4, "auto", (True, 4, "nccl")),
        ({"device_count": 8, "backends": ["gloo", "nccl"]}, 64, 0, "gloo", (True, 2, "gloo")),
        ({"device_count": 1, "backends": ["gloo"]}, 64, 0, "auto", (True, 2, "gloo")),
        ({"error": "ImportError"}, 64, 0, "auto", (False, 2, "gloo")),
    ],
)
def test_plan(torch, cores, ranks, backend, expected):
    plan = environment.plan({"torch": {**TORCH, **torch}, "cores": cores}, ranks, backend)
    assert (plan["usable"], plan["ranks"], plan["backend"]) == expected


def test_a_job_over_nodes_has_a_launcher_of_its_own_and_one_process_has_not(tmp_path):
    options = argparse.Namespace(
        nproc=8, nodes=2, all_ranks=16, budget=60.5, seed=7, host="10.0.0.11", port=29400, address="10.0.0.12",
        interface="eth1",
    )  # fmt: skip
    check = ddp_check.Check(options, tmp_path)
    assert (check.ranks, check.batch) == (16, 4)
    name, *words = check.launcher(True, "unbroken")
    assert name.endswith("/nodes_torchrun.py")
    place = ["--host=10.0.0.11", "--port=29400", "--address=10.0.0.12", "--interface=eth1", "--patience=61"]
    assert words == [*place, "--", "--nnodes=2", "--rdzv-id=7-unbroken"]
    assert [word.rpartition("/")[2] for word in check.launcher(False, "one")] == ["loopback_torchrun.py"]


@pytest.mark.parametrize("left_out", ["--all-ranks=16", "--host=a", "--address=b", "--interface=c", "--seed=1"])
def test_a_job_over_nodes_needs_the_whole_place(monkeypatch, capsys, left_out):
    words = ["--nproc=8", "--nodes=2", "--all-ranks=16", "--host=a", "--address=b", "--interface=c", "--seed=1"]
    monkeypatch.setattr("sys.argv", ["ddp_check.py", *[word for word in words if word != left_out]])
    with pytest.raises(SystemExit):
        ddp_check.parse()
    assert "--nodes needs" in capsys.readouterr().err
