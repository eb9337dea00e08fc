"""The role on this machine: a broken environment ends in findings, a foreign one is left as it was."""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT

from tests.torch.torch_env import PYTHON, needs_torch

PLAY = [
    {
        "name": "Verify",
        "hosts": "all",
        "gather_facts": False,
        "tasks": [
            {"name": "Verify", "ansible.builtin.include_role": {"name": "trainrig.gpu.verify"}},
            {
                "name": "Keep what it said",
                "ansible.builtin.copy": {
                    "content": "{{ {'verdict': verify_verdict, 'findings': verify_findings,"
                    " 'measurements': verify_measurements, 'versions': verify_versions} | to_json }}",
                    "dest": "{{ said }}",
                    "mode": "0644",
                },
                "when": "verify_verdict is defined",
            },
        ],
    }
]


def play(directory, *options, **variables):
    """Run the role on localhost; return ansible-playbook's result and what the role said."""
    said, room = directory / "said.json", directory / "tmp"
    room.mkdir()
    (directory / "play.yml").write_text(yaml.safe_dump(PLAY))
    values = {
        "said": str(said),
        "trainrig_prefix": str(directory / "prefix"),
        "ansible_python_interpreter": sys.executable,
    }
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(directory / "play.yml"), "-i", "localhost,"]
    command += ["-c", "local", "-e", json.dumps({**values, **variables}), *options]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "TMPDIR": str(room)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return done, json.loads(said.read_text()) if said.exists() else None


def left(directory):
    return sorted(path.name for path in (directory / "tmp").glob("trainrig-*"))


def test_an_environment_that_is_not_there(tmp_path):
    done, said = play(tmp_path, verify_python=str(tmp_path / "nowhere/bin/python"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert said["verdict"] == "fail"
    rules = [one["rule"] for one in said["findings"]]
    assert sorted(rules) == ["verify.stage_failed", "verify.stage_skipped", "verify.stage_skipped"]
    evidence = "\n".join(proof["text"] for one in said["findings"] for proof in one["evidence"])
    assert "nowhere/bin/python" in evidence and "No such file" in evidence
    assert left(tmp_path) == []


def test_check_mode_runs_nothing_and_says_so(tmp_path):
    done, said = play(tmp_path, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is verified" in done.stdout and said is None
    assert not (tmp_path / "prefix").exists()


def test_a_bad_threshold_row_is_named(tmp_path):
    rows = [{"models": ["A"], "gpus_per_node": 8, "busbw_gb_s": -1}]
    done, said = play(tmp_path, verify_python=str(tmp_path / "no"), verify_thresholds=rows)
    assert done.returncode != 0 and said is None
    assert "verify_thresholds, row 1: busbw_gb_s must be a number above 0" in done.stdout
    assert left(tmp_path) == []


@needs_torch
def test_somebody_else_s_environment(tmp_path):
    options = {"verify_stages": ["collectives"], "verify_max_bytes": "64K"}
    done, said = play(tmp_path, trainrig_python=PYTHON, trainrig_requirements="torch==1.0 --hash=sha256:aa", **options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said["verdict"] == "pass", said["findings"]
    assert "changed=1 " in done.stdout, "only this test's own copy task"
    assert not (tmp_path / "prefix").exists(), "nothing is installed"
    assert left(tmp_path) == []
    # An environment that trainrig made names itself by its own directory, not by the link that may be switched.
    assert Path(said["versions"]["interpreter"]).parent == Path(PYTHON).parent.resolve()
