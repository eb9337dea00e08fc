"""trainrig.gpu.nccl_result through Ansible: what it returns, and what it says of a file it cannot read."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests" / "cases" / "logs"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "ANSIBLE_LOCALHOST_WARNING": "false",
}
PLAY = """
- hosts: localhost
  gather_facts: false
  check_mode: true
  tasks:
    - trainrig.gpu.nccl_result: {log: LOGS/new_two_nodes.txt, ranks: 8, hosts: 2}
      register: healthy
    - trainrig.gpu.nccl_result: {log: LOGS/new_two_nodes.txt, ranks: 16}
      register: other_job
    - trainrig.gpu.nccl_result: {log: LOGS/nccl_inside_a_row.txt, declared: {nodes: 2, rdma: true, interface: eth0}}
      register: over_rdma
    - trainrig.gpu.nccl_result: {log: LOGS/new_two_nodes.txt, declared: {nodes: 2, rdma: true}}
      register: no_path
    - trainrig.gpu.nccl_result: {log: LOGS/died_then_well.txt}
      register: died
    - trainrig.gpu.nccl_result: {log: OUT/bytes}
      register: bytes
    - trainrig.gpu.nccl_result: {log: OUT/none}
      ignore_errors: true # it has to fail, and the test reads why
      register: missing
    - trainrig.gpu.nccl_result: {log: LOGS/rccl.txt, declared: {rmda: true}}
      ignore_errors: true # it has to fail, and the test reads why
      register: misspelt
    - ansible.builtin.copy:
        content: >-
          {{ {'healthy': healthy, 'other_job': other_job, 'over_rdma': over_rdma, 'no_path': no_path, 'died': died,
          'bytes': bytes, 'missing': missing, 'misspelt': misspelt} | to_json }}
        dest: OUT/results.json
      check_mode: false
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    out = tmp_path_factory.mktemp("nccl_result")
    (out / "bytes").write_bytes(b"\xff\xfe\x00 two processes \x80 wrote at once\n")
    (out / "play.yml").write_text(PLAY.replace("OUT", str(out)).replace("LOGS", str(LOGS)))
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(out / "play.yml")]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, dict[str, Any]] = json.loads((out / "results.json").read_text())
    return found


def rules(result: dict[str, Any]) -> list[str]:
    return [one["rule"] for one in result["findings"]]


def test_a_healthy_log(results: dict[str, dict[str, Any]]) -> None:
    told = results["healthy"]
    names = {"rows", "ranks", "hosts", "nccl_version", "errors", "transports", "complete", "verdict"}
    assert set(told) >= names and told["changed"] is False
    assert (told["verdict"], told["ranks"], told["hosts"], told["nccl_version"]) == ("pass", 8, 2, "2.27.6")
    assert told["rows"][0] == {
        "collective": "all_reduce",
        "size_bytes": 268435456,
        "count": 67108864,
        "dtype": "float",
        "redop": "sum",
        "placement": "out_of_place",
        "time_us": 2210.55,
        "algbw_gb_s": 121.43,
        "busbw_gb_s": 212.51,
        "wrong": 0,
    }
    assert rules(told) == []


def test_a_good_run_of_another_job_fails(results: dict[str, dict[str, Any]]) -> None:
    told = results["other_job"]
    assert (told["verdict"], told["errors"]) == ("fail", ["all_reduce: 8 ranks, 16 asked for"])


def test_the_path_is_judged_where_it_is_declared(results: dict[str, dict[str, Any]]) -> None:
    assert (results["over_rdma"]["transports"], rules(results["over_rdma"])) == ({"NET/IB": 1}, [])
    assert rules(results["no_path"]) == ["verify.path_not_shown"]


def test_why_a_job_failed_is_said(results: dict[str, dict[str, Any]]) -> None:
    assert (results["died"]["verdict"], rules(results["died"])) == ("fail", ["verify.log_peer_gone"])
    assert results["died"]["findings"][0]["action"]["text"]


def test_what_cannot_be_read(results: dict[str, dict[str, Any]]) -> None:
    assert (results["bytes"]["verdict"], results["bytes"]["rows"]) == ("unreadable", [])
    assert "log: cannot read" in results["missing"]["msg"] and "No such file" in results["missing"]["msg"]
    assert "To fix it" in results["missing"]["msg"]
    assert "declared: rmda: there is no such key" in results["misspelt"]["msg"]
