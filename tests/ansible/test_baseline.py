"""`-e baseline=record` writes what passed beside the inventory, and later runs are held to it: by the real role."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.module_utils.judge.test_health import QUIET
from tests.unit.module_utils.report.fleets import collectives

ROOT = Path(__file__).resolve().parents[2]
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: trainrig.gpu.report
        apply: {run_once: true}
      vars: {report_phase: verify, report_directory: "{{ inventory_dir }}/../reports"}
"""


class Fleet:
    """Two hosts of which a run has measured something, as the plays before the report leave it."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.inventory = directory, directory / "inventory"
        self.inventory.mkdir()
        self.record = self.inventory / "verify_baseline.yml"
        (directory / "play.yml").write_text(PLAY)

    def report(
        self, *words: str, n1: float = 470.0, n2: float = 475.0, **variables: Any
    ) -> tuple[int, str, dict[str, Any]]:
        hosts = {
            name: {
                "ansible_connection": "local",
                "trainrig_observation": QUIET,
                "verify_measurements": collectives(speed),
                "verify_findings": [],
                **variables,
            }
            for name, speed in (("n1", n1), ("n2", n2))
        }
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        done = subprocess.run(
            [program, str(self.directory / "play.yml"), "-i", str(self.inventory), *words],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        latest = self.directory / "reports/latest/report.json"
        assert latest.exists(), done.stdout
        assert "Skipping" not in done.stdout, "the record is no inventory"
        return done.returncode, done.stdout, json.loads(latest.read_text())

    def rows(self) -> dict[str, float]:
        return {row["hosts"][0]: row["busbw_gb_s"] for row in yaml.safe_load(self.record.read_text())["rows"]}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def rules(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["rule"], one["host"]) for one in report["findings"] if "baseline" in one["rule"]]


def test_recorded_then_compared(fleet: Fleet) -> None:
    _rc, _output, before = fleet.report()
    assert rules(before) == [] and not fleet.record.exists()
    rc, output, _report = fleet.report("-e", "baseline=record", "--check")
    assert not fleet.record.exists(), "check mode writes nothing"
    rc, output, _report = fleet.report("-e", "baseline=record")
    assert rc == 0 and "2 rows recorded in" in output, output
    first = fleet.rows()
    rc, _output, same = fleet.report()
    assert (rc, rules(same)) == (0, [])
    shown = [one["baseline_gb_s"] for one in same["measurements"] if one.get("baseline_gb_s")]
    assert sorted(shown) == sorted(first.values())
    rc, _output, slower = fleet.report(n2=330.0)
    assert rc != 0 and rules(slower) == [("verify.below_baseline", "n2")]
    assert fleet.rows() == first, "comparing writes nothing"


def test_a_run_that_is_not_good_records_nothing(fleet: Fleet) -> None:
    fleet.report("-e", "baseline=record")
    kept = fleet.record.read_bytes()
    broken = {"task": "Measure", "message": "no", "layer": "verify"}
    _rc, output, _report = fleet.report("-e", "baseline=record", n2=100.0, trainrig_failures=[broken])
    assert "nothing recorded, because the verdict is fail" in output
    assert fleet.record.read_bytes() == kept


def test_a_record_that_cannot_be_read_costs_no_report(fleet: Fleet) -> None:
    fleet.record.write_text("schema: 1\nrows:\n  - {kind: baseline}\n")
    rc, output, report = fleet.report()
    assert rc != 0 and report["hosts"]["n1"]["state"] == "ok"
    assert "verify_baseline.yml, row 1: models is missing. To fix it: " in " ".join(output.split())
