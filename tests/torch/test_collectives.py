"""collectives.py on real torch: healthy passes; wrong results, hangs and open ports do not."""

import json
import os
import subprocess
import time

import pytest

from tests.torch.torch_env import FAULT, FILES, PYTHON, collectives, judged, needs_torch, script

pytestmark = needs_torch
NAMES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    return collectives(tmp_path_factory.mktemp("healthy"))


def test_healthy(healthy):
    result, rules = judged(collectives=healthy)
    assert rules == {}
    document = healthy["document"]
    assert [(row["collective"], row["size_bytes"]) for row in document["rows"]] == [
        (name, size) for name in NAMES for size in (4096, 16384, 65536)
    ]
    assert document["complete"] and document["hosts"] == [document["hosts"][0]] * 2
    assert {one["status"] for one in result["measurements"]} == {"pass"}


def test_sizes_and_counts_are_nccl_tests_own(healthy):
    """all_reduce and broadcast: count is the whole buffer; the others: what one rank contributes or keeps."""
    counts = {row["collective"]: row["count"] for row in healthy["document"]["rows"] if row["size_bytes"] == 65536}
    assert counts == {
        "all_reduce": 16384,
        "broadcast": 16384,
        "all_gather": 8192,
        "reduce_scatter": 8192,
        "all_to_all": 8192,
    }


def test_only_loopback_was_listened_on(healthy):
    heard = {one["address"] for one in healthy["run"]["listening"]}
    assert heard == {"127.0.0.1"}


def test_one_flipped_bit_is_found_in_every_collective(tmp_path):
    stage = collectives(tmp_path, fault="corrupt")
    result, rules = judged(collectives=stage)
    assert rules == {"verify.collective_wrong": "fail"}
    wrong = {(row["collective"], row["size_bytes"]): row["wrong_by_rank"] for row in stage["document"]["rows"]}
    for name in NAMES:
        assert wrong[name, 4096] == [0, 0]
        assert wrong[name, 16384] == [0, 1], name
        assert wrong[name, 65536] == [0, 0]
    assert stage["run"]["rc"] == 0, "a wrong result is measured, it does not stop the sweep"
    assert [one["status"] for one in result["measurements"]].count("fail") == len(NAMES)


def test_a_silent_rank_is_given_up(tmp_path):
    stage = collectives(tmp_path, fault="hang", options=["--timeout=4"])
    _result, rules = judged(collectives=stage)
    assert rules == {"verify.stage_failed": "fail", "verify.log_worker_died": "fail"}
    assert not stage["run"]["timed_out"] and stage["run"]["left_running"] == []
    assert stage["document"]["errors"], "it says what happened"
    assert {row["collective"] for row in stage["document"]["rows"]} == {"all_reduce", "all_gather"}, (
        "what was measured stays"
    )


def test_a_hang_is_bounded_and_leaves_no_process(tmp_path):
    bounded = script("bounded")
    marks = []
    original = bounded.members
    bounded.members = lambda mark: marks.append(mark) or original(mark)
    command = [
        PYTHON,
        str(FILES / "loopback_torchrun.py"),
        "--nproc-per-node=2",
        str(FAULT),
        str(FILES / "collectives.py"),
    ]
    environment = {**os.environ, "SIMULATED_FAULT": "hang"}
    begin = time.monotonic()
    outcome = bounded.run([*command, "--backend=gloo", "--max-bytes=4K"], 12, tmp_path / "log", env=environment)
    assert outcome.timed_out and outcome.rc == 124
    assert time.monotonic() - begin < 60
    assert marks and original(marks[-1]) == []
    _result, rules = judged(collectives={"run": vars(outcome), "document": None})
    assert rules == {"verify.timeout": "fail"}


def test_a_torch_that_cannot_bind_its_store_is_told(tmp_path):
    """An older torch: TCPStore without master_listen_fd. The job runs, the open port becomes a warning.

    In bfloat16, whose 8 significant bits the exact check respects too.
    """
    launcher = tmp_path / "simulated_old_torch.py"
    launcher.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(FILES)!r})\n"
        "import torch.distributed as dist\n"
        "class OldStore(dist.TCPStore):\n"
        "    def __init__(self, *arguments, **options):\n"
        "        if 'master_listen_fd' in options: raise TypeError('unexpected keyword argument')\n"
        "        super().__init__(*arguments, **options)\n"
        "dist.TCPStore = OldStore\n"
        "import loopback_torchrun\n"
        "loopback_torchrun.main(sys.argv[1:])\n"
    )
    stage = collectives(tmp_path, launcher=[str(launcher)], options=["--dtype=bfloat16"])
    _result, rules = judged(collectives=stage)
    assert rules == {"verify.port_open": "warn"}
    assert {row["dtype"] for row in stage["document"]["rows"]} == {"bfloat16"}


def test_environment(tmp_path):
    output = tmp_path / "environment.json"
    done = subprocess.run(
        [PYTHON, str(FILES / "environment.py"), f"--output={output}"], capture_output=True, text=True, check=True
    )
    document = json.loads(output.read_text())
    plan = json.loads(done.stdout)
    # A seed for what several nodes have to draw alike; a new one each time.
    assert plan.pop("seed") > 0
    assert plan["usable"] and document["torch"]["error"] is None
    if not document["torch"]["device_count"]:
        assert plan == {"usable": True, "ranks": min(2, document["cores"]), "backend": "gloo"}
    installed = {package["name"]: package["version"] for package in document["packages"]}
    assert installed["torch"] == document["torch"]["version"]
