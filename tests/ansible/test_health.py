"""Looks before and after the load reach the judge: what the load changed is a finding, what was there before is not."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.unit.module_utils.judge.test_health import QUIET

ROOT = Path(__file__).resolve().parents[2]
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - trainrig.gpu.judge:
        launches: {}
        before: "{{ looks[item].before }}"
        after: "{{ looks[item].after }}"
      loop: [healthy, lost, half]
      register: judged
    - ansible.builtin.copy:
        content: "{{ judged.results | to_json }}"
        dest: "{{ out }}"
        mode: "0600"
"""


def test_what_the_load_changed(tmp_path: Path) -> None:
    lost: dict[str, Any] = copy.deepcopy(QUIET)
    lost["nvidia"]["gpus"][3]["lost"] = True
    looks = {
        "healthy": {"before": QUIET, "after": QUIET},
        "lost": {"before": QUIET, "after": lost},
        "half": {"before": QUIET, "after": {}},
    }
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "looks.json").write_text(json.dumps({"looks": looks, "out": f"{tmp_path}/out.json"}))
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            str(tmp_path / "play.yml"),
            "-e",
            f"@{tmp_path}/looks.json",
        ],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    healthy, sick, half = json.loads((tmp_path / "out.json").read_text())
    assert healthy["findings"] == [] and healthy["verdict"] == "pass"
    assert {row["stage"] for row in healthy["measurements"]} == {"health"}
    assert sick["verdict"] == "fail" and [one["rule"] for one in sick["findings"]] == ["health.gpu_lost"], sick[
        "findings"
    ]
    assert half["measurements"] == [] and half["findings"] == []
