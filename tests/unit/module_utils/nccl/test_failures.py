"""What launchers, NCCL, torch, MPI and SSH say: each text is the right finding, and a healthy log is silent."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import ACTIONS
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.rules_logs import RULES
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.failure_texts import TABLE
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.failures import failures
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT

from tests.support import simulated_logs

LOGS = ROOT / "tests" / "cases" / "logs"
SAID = yaml.safe_load((ROOT / "tests" / "cases" / "failures" / "texts.yml").read_text(encoding="utf-8"))
CASES = [(rule, line) for rule, lines in SAID.items() for line in lines]


def watchdog(rank):
    return SAID["log_watchdog"][0].replace("ank3", f"ank{rank}").replace("ank 3", f"ank {rank}")


def test_every_rule_is_said_and_has_a_text():
    named = {f"verify.{name}" for name in SAID}
    assert named == {name for name in RULES if name.startswith("verify.log_")} == {one.rule for one in TABLE}


@pytest.mark.parametrize(("rule", "line"), CASES)
def test_a_line_is_its_rule(rule, line):
    (found,) = failures(["# nThread 1", line, "more output"], "gpu-a")
    assert (found["rule"], found["severity"], found["host"]) == (f"verify.{rule}", "fail", "gpu-a")
    assert (
        " ".join(line.split())[:40].lstrip("# ") in found["evidence"][0]["text"]
        or "NCCL WARN" in line
        or "rank" in line
    )
    whole = found["summary"] + found["cause"] + found["action"]["text"]
    assert found["summary"] and found["cause"] and found["action"]["text"] and "{" not in whole
    assert found["action"]["kind"] in ACTIONS and found["layer"] == found["phase"] == "verify"


@pytest.mark.parametrize(
    "lead", ["[1,3]<stdout>:", "[prterun-gpu-a-7@1,3]<stderr>: ", " 3: ", "2026-01-01T10:00:00.123Z "]
)
@pytest.mark.parametrize("rule", ["log_gpu_counts", "log_library", "log_rdma"])
def test_a_launchers_prefix_hides_nothing(rule, lead):
    assert [one["rule"] for one in failures([lead + SAID[rule][0]], None)] == [f"verify.{rule}"]


def test_a_cause_is_told_and_what_follows_from_it_is_not():
    lines = [
        SAID["log_no_interface"][0],
        "gpu-a: Test NCCL failure common.cu:1311 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '",
        " .. gpu-a pid 4100: Test failure common.cu:1133",
        "mpirun detected that one or more processes exited with non-zero status, thus causing",
    ]
    assert [one["rule"] for one in failures(lines, None)] == ["verify.log_no_interface"]
    assert [one["rule"] for one in failures(lines[1:], None)] == ["verify.log_system"]
    assert [one["rule"] for one in failures(lines[2:], None)] == ["verify.log_test_failed"]


def test_ranks_are_gathered_also_where_two_wrote_at_once():
    lines = (LOGS / "torchrun_watchdog.txt").read_text(encoding="utf-8").splitlines()
    (found,) = failures(lines, None)
    assert found["rule"] == "verify.log_watchdog"
    assert found["summary"] == "ALLREDUCE number 2 did not end within 90000 ms (ranks 5, 1)"
    many = failures([watchdog(rank) for rank in range(64)], None)
    assert many[0]["summary"].endswith("(ranks 0, 1, 2, 3, 4, 5, 6, 7 and 56 more)")
    assert len(many[0]["evidence"]) == 4


def test_hosts_are_gathered():
    lines = [f" .. gpu-{name} pid 4104: Test failure common.cu:547" for name in "abab"]
    assert failures(lines, None)[0]["summary"] == "the test program failed on gpu-a, gpu-b"


def test_what_nccl_only_informs_of_is_no_failure():
    lines = [
        "gpu-a:1:9 [0] NCCL INFO socketPollConnect: connect to 10.0.0.5<1> returned Connection refused, retrying",
        "gpu-a:1:9 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        "gpu-a:1:9 [0] NCCL INFO NET/IB : No device found.",
    ]
    assert failures(lines, None) == []


def test_healthy_logs_are_silent():
    for number in range(40):
        assert failures(simulated_logs.healthy(f"silent {number}").lines, None) == []
    for name in ("new_two_nodes", "five_collectives", "rccl", "hccl", "old_not_validated", "per_iteration"):
        assert failures((LOGS / f"{name}.txt").read_text(encoding="utf-8").splitlines(), None) == []
