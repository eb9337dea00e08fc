"""trainrig.gpu.observe through Ansible: live, saved, from a bundle, with mistakes. One play: starting one is slow."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Where it says ignore_errors the task has to fail: the failure is what the test reads from the registered result.
PLAY = """
- hosts: localhost
  gather_facts: false
  vars: {layer: {files: [/etc/hostname], absent: [/no/such/path]}}
  tasks:
    - trainrig.gpu.observe: {save: "OUT/saved", resources: {driver: "{{ layer }}"}}
      check_mode: true
      register: live
    - trainrig.gpu.observe: {bundle: "OUT/saved"}
      register: again
    - trainrig.gpu.observe: {bundle: CASES/lost_gpu/bundle, probes: [lspci]}
      register: part
    - trainrig.gpu.observe: {bundle: OUT/none}
      register: missing
      ignore_errors: true
    - trainrig.gpu.observe: {probes: [dmseg]}
      register: unknown
      ignore_errors: true
    - ansible.builtin.copy:
        content: "{{ {'live': live, 'again': again, 'part': part, 'missing': missing, 'unknown': unknown} | to_json }}"
        dest: OUT/results.json
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("observe")
    cases = ROOT / "tests" / "cases" / "observe"
    (out / "play.yml").write_text(PLAY.replace("OUT", str(out)).replace("CASES", str(cases)))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_STDOUT_CALLBACK": "default",
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(out / "play.yml")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((out / "results.json").read_text())


def test_live_changes_nothing_and_tells_the_kernel(results):
    live = results["live"]
    assert live["changed"] is False
    assert live["observation"]["os"]["kernel"] == os.uname().release
    assert "outputs" not in live


def test_saved_and_read_again_is_the_same(results):
    live = copy.deepcopy(results["live"]["observation"])
    # What only a live look has: resources, and when the controller asked.
    live.pop("fingerprints")
    before, after = live["identity"].pop("asked_unix_s")
    assert before < after
    assert results["again"]["observation"] == live


def test_fingerprints_of_the_resources_that_were_named(results):
    taken = results["live"]["observation"]["fingerprints"]["driver"]
    assert taken["absent"] == {"/no/such/path": {"state": "absent"}}
    assert list(taken["files"]) == ["/etc/hostname"]


def test_some_probes_of_a_bundle_and_the_model_from_the_data(results):
    observation = results["part"]["observation"]
    assert list(observation["probes"]) == ["lspci"]
    assert [gpu["model"] for gpu in observation["nvidia"]["gpus"]] == ["L40S"] * 4


def test_mistakes_are_named(results):
    assert results["missing"]["failed"] is True
    assert "none is not a directory" in results["missing"]["msg"]
    assert "there is no probe dmseg" in results["unknown"]["msg"]
