"""trainrig.gpu.resolve and playbooks/resolve.yml through Ansible: arguments, what comes back, how it ends."""

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
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "ANSIBLE_LOCALHOST_WARNING": "false",
    "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
    "COLUMNS": "160",
}
PLAY = """
- hosts: localhost
  gather_facts: false
  module_defaults:
    trainrig.gpu.resolve: {platform: ubuntu2404-x86_64, today: "2026-11-30", gpus: [H100_SXM5_80]}
  tasks:
    - trainrig.gpu.resolve: {stack: {driver: "535"}}
      register: warned
    - trainrig.gpu.resolve: {stack: {driver: "570", variant: cu130}}
      register: refused
    - trainrig.gpu.resolve: {stack: {fabric_manager: off}, installed: {nvswitch: false}}
      register: switched_off
    - trainrig.gpu.resolve: {stack: {drvier: "580", pytorch: 2.10}}
      register: impossible
      ignore_errors: true
    - ansible.builtin.copy:
        content: >-
          {{ {'warned': warned, 'refused': refused, 'switched_off': switched_off, 'impossible': impossible} | to_json }}
        dest: OUT/results.json
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("resolve")
    (out / "play.yml").write_text(PLAY.replace("OUT", str(out)))
    done = run("ansible-playbook", str(out / "play.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((out / "results.json").read_text())


def test_a_set_that_works_comes_back_whole(results: Any) -> None:
    found = results["warned"]
    assert (found["ok"], found["changed"], found["conflicts"], found["alternatives"]) == (True, False, [], [])
    assert found["resolution"]["driver"] == {"version": "535.309.01", "branch": "535", "module": "proprietary"}
    assert [one["rule"] for one in found["cautions"]] == ["driver.end_of_life"]
    assert "driver.end_of_life" in str(found["warnings"])


def test_not_ok_is_a_normal_return(results: Any) -> None:
    found = results["refused"]
    assert (found["ok"], found["failed"], found["resolution"]) == (False, False, None)
    assert [one["rule"] for one in found["conflicts"]] == ["driver.below_build"]
    assert {"driver": "580.178.04"} in [one["changes"] for one in found["alternatives"]]


def test_off_may_be_written_bare(results: Any) -> None:
    assert results["switched_off"]["resolution"]["fabric_manager"] is None


def test_what_is_impossible_fails_with_every_reason(results: Any) -> None:
    found = results["impossible"]
    assert found["failed"]
    assert "did you mean driver" in found["msg"]
    assert "quote it" in found["msg"]


def test_the_playbook_answers_what_if_and_ends_non_zero_on_a_refusal() -> None:
    given = [
        "-e",
        "platform=ubuntu2404-x86_64",
        "-e",
        "gpus=H100_SXM5_80",
        "-e",
        "today=2026-11-30",
        "-e",
        "driver=570",
    ]
    done = run("ansible-playbook", "playbooks/resolve.yml", "-i", "inventories/prod", *given, "-e", "variant=cu130")
    assert done.returncode != 0
    assert "This set does not work." in done.stdout
    assert "cu130 needs driver 580.65.06 or newer" in done.stdout
    assert "What would work:" in done.stdout
    assert done.stdout.count("docs.nvidia.com/deploy/cuda-compatibility") == 1, "told once"


def test_a_word_that_nothing_reads_is_told() -> None:
    given = ["-e", "platform=ubuntu2404-x86_64", "-e", "gpus=H100_SXM5_80", "-e", "pytroch=2.10", "-e", "my_site=here"]
    done = run("ansible-playbook", "playbooks/resolve.yml", "-i", "inventories/prod", *given)
    assert done.returncode != 0
    assert "-e: pytroch: nothing is read by this name. To fix it: did you mean pytorch." in done.stdout
    assert "my_site" not in done.stdout
