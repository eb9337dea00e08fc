"""Looks before and after the load reach the judge: what the load changed is a finding, what was there before is not."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import base64
import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.unit.module_utils.judge.test_health import QUIET

ROOT = Path(__file__).resolve().parents[2]
COOL = (ROOT / "tests/cases/observe/healthy_8x_h100/bundle/nvidia_smi_xml").read_text().replace("util>0 %", "util>98 %")
SLOWED = "<clocks_event_reason_hw_thermal_slowdown>Not Active"
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - trainrig.gpu.judge:
        launches: {}
        before: "{{ looks[item].before }}"
        after: "{{ looks[item].after }}"
        files: "{{ looks[item].files | default([]) }}"
      loop: [healthy, lost, half, cool, hot]
      register: judged
    - ansible.builtin.copy:
        content: "{{ judged.results | to_json }}"
        dest: "{{ out }}"
        mode: "0600"
"""


def taken(text: str) -> list[dict[str, str]]:
    """What bounded.py wrote while the load ran, as slurp brings it back."""
    look = json.dumps({"nvidia_smi_xml": {"text": text, "rc": 0, "err": ""}})
    return [{"source": "/tmp/work/look.1.json", "content": base64.b64encode(look.encode()).decode()}]


def test_what_the_load_changed(tmp_path: Path) -> None:
    lost: dict[str, Any] = copy.deepcopy(QUIET)
    lost["nvidia"]["gpus"][3]["lost"] = True
    looks = {
        "healthy": {"before": QUIET, "after": QUIET},
        "lost": {"before": QUIET, "after": lost},
        "half": {"before": QUIET, "after": {}},
        "cool": {"before": QUIET, "after": QUIET, "files": taken(COOL)},
        "hot": {"before": QUIET, "after": QUIET, "files": taken(COOL.replace(SLOWED, SLOWED.replace("Not A", "A"), 1))},
    }
    assert SLOWED in COOL
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
    healthy, sick, half, cool, hot = json.loads((tmp_path / "out.json").read_text())
    assert healthy["findings"] == [] and healthy["verdict"] == "pass"
    assert {row["stage"] for row in healthy["measurements"]} == {"health"}
    assert sick["verdict"] == "fail" and [one["rule"] for one in sick["findings"]] == ["health.gpu_lost"], sick[
        "findings"
    ]
    assert half["measurements"] == [] and half["findings"] == []
    assert cool["findings"] == [], cool["findings"]
    assert [one["rule"] for one in hot["findings"]] == ["health.throttled"], hot["findings"]
    known = {row["check"]: row["known"] for row in cool["measurements"]}
    assert known["clocks"] and not {row["check"]: row["known"] for row in healthy["measurements"]}["clocks"]
