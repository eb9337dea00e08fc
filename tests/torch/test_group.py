"""group_run.py on real torch: two nodes on two loopback addresses; who hangs and what is shut is seen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.trainrig.gpu.plugins.module_utils.judge import groups

from tests.torch.torch_env import FILES, PYTHON, needs_torch

pytestmark = needs_torch
SIZES = "--collectives=all_reduce --min-bytes=1M --max-bytes=1M --iterations=20 --row-seconds=1 --backend=gloo"


def part(number, port, seconds, nodes=2, sizes=SIZES, watcher=None):
    """One node's account; `watcher` sees its process while it runs."""
    place = ["--host=127.0.0.1", f"--port={port}", f"--address=127.0.0.{number}", "--interface=lo"]
    job = [f"--nodes={nodes}", "--nproc=1", f"--id=test-{port}", f"--name=node-{number}", f"--options={sizes}"]
    command = [PYTHON, str(FILES / "group_run.py"), f"--seconds={seconds}", *place, *job]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if watcher:
        watcher(process)
    said, _nothing = process.communicate(timeout=seconds + 60)
    return json.loads(said.splitlines()[-1])


def both(port, seconds, **others):
    with ThreadPoolExecutor() as pool:
        first = pool.submit(part, 1, port, seconds)
        second = pool.submit(part, 2, port, seconds, **others)
        accounts = {"node-1": first.result(), "node-2": second.result()}
    return groups.Group(0, ("node-1", "node-2"), None, accounts)


def test_two_nodes_measure_together():
    group = both(29431, 120)
    assert groups.trouble(group, 2) is None and groups.bandwidth(group) > 0
    document = groups.document_of(group)
    assert document["hosts"] == ["node-1", "node-2"] and document["nodes"] == 2
    assert [fact["doing"] for fact in groups.progress(group)] == ["done", "done"]
    heard = {one["address"] for told in group.results.values() for one in told["run"]["listening"]}
    assert heard and all(address.startswith("127.0.0.") for address in heard)
    assert group.results["node-2"]["door"] == "reached"


def rank_below(pid):
    """The process of collectives.py that torchrun started somewhere below this one."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as stream:
                    words = stream.read().split(b"\0")
            except OSError:
                continue
            if any(word.endswith(b"collectives.py") for word in words[:4]) and b"--name=node-2" in words:
                return int(entry)
    return None


def test_a_stopped_rank_is_named_and_nothing_stays(tmp_path):
    def stop(process):
        while process.poll() is None:
            if pid := rank_below(process.pid):
                time.sleep(1)  # it imports torch, or has begun: either way the other waits
                os.kill(pid, signal.SIGSTOP)
                return
            time.sleep(0.05)

    # Long enough for the stop to fall into it.
    long = SIZES.replace("--iterations=20 --row-seconds=1", "--iterations=100000 --row-seconds=60")
    group = both(29432, 45, sizes=long, watcher=stop)
    (who, *_more) = groups.stuck(group, 2)
    assert "node-2" in who, groups.progress(group)
    assert groups.trouble(group, 2)
    for told in group.results.values():
        assert told["run"]["left_running"] == []
    assert rank_below(0) is None


def test_a_node_whose_store_is_not_there_is_told_and_in_time():
    told = part(2, 29433, 20)
    assert told["door"] == "refused" and told["elapsed_s"] < 60
    assert [one["kind"] for one in told["errors"]][-1] == "unreachable"
    assert "127.0.0.1 port 29433" in told["errors"][-1]["text"]


def test_a_job_that_ran_alone_is_not_the_one_that_was_asked_for():
    group = groups.Group(0, ("node-1", "node-2"), None, {"node-1": part(1, 29434, 60, nodes=1), "node-2": None})
    assert "asked for 2 ranks on 2 nodes, ran with 1 on 1" in groups.trouble(group, 2)
