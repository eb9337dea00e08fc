"""The look at the nodes through real playbooks: where it fails or cannot be made, that is said and written."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "COLUMNS": "160",
}
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
#: Its module ends without a word, as where Python is broken.
BROKEN = {**LOCAL, "ansible_python_interpreter": "/bin/false"}
#: Nothing listens there.
DOWN = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_user": "me"}


def playbook(directory: Path, name: str, hosts: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    (directory / "fleet.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}), encoding="utf-8")
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(ROOT / "playbooks" / f"{name}.yml")]
    command += ["-i", "fleet.yml", "-e", f"trainrig_prefix={directory / 'prefix'}", *options]
    return subprocess.run(command, cwd=directory, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def test_a_look_that_fails_on_the_only_host_ends_with_a_report(tmp_path: Path) -> None:
    done = playbook(tmp_path, "site", {"n1": BROKEN})
    assert done.returncode == 2
    assert "fatal: [n1]: FAILED!" in done.stdout, "the error is seen where it happens"
    report = json.loads((tmp_path / "reports/fleet/latest/report.json").read_text())
    assert (report["verdict"], report["hosts"]["n1"]["state"]) == ("fail", "failed")
    assert [(one["layer"], one["task"]) for one in report["hosts"]["n1"]["failures"]] == [("preflight", "Observe")]
    assert report["next"]["commands"][0]["text"].startswith("mend this, then run again: Module result")


def test_what_fails_for_all_hosts_at_once_is_told_of_each_and_check_mode_does_not_hide_it(tmp_path: Path) -> None:
    force = json.dumps({"trainrig_force": ["no.rule@n1"]})
    done = playbook(tmp_path, "site", {"n1": LOCAL, "n2": LOCAL}, "--check", "-e", force)
    assert done.returncode == 2
    assert "verdict: fail (2 findings of severity fail)" in done.stdout
    assert done.stdout.count("preflight failed in task: Diagnose the fleet") == 2
    assert not (tmp_path / "reports").exists()


def test_a_plan_says_of_which_hosts_nothing_is_known(tmp_path: Path) -> None:
    done = playbook(tmp_path, "plan", {"n1": BROKEN, "n2": DOWN})
    assert done.returncode == 2
    assert "n1  failed in task: Observe" in done.stdout
    assert "n2  not reached: " in done.stdout and "port 1: Connection refused" in done.stdout
    assert "There is no plan" in done.stdout and "the look failed on: n1" in done.stdout


def test_a_trainrig_python_that_is_no_interpreter_is_named_before_anything_else(tmp_path: Path) -> None:
    nothing, other = "nothing that can be run is there", "what is there does not answer as Python"
    given = {"/no/such/python": nothing, str(tmp_path): nothing, "/bin/true": other}
    hosts = {f"n{number}": {**LOCAL, "trainrig_python": path} for number, path in enumerate(given)}
    hosts["healthy"] = {**LOCAL, "trainrig_python": sys.executable}
    done = playbook(tmp_path, "plan", hosts)
    assert done.returncode == 2
    words = " ".join(done.stdout.split())
    for path, why in given.items():
        assert f"trainrig_python: {path}: {why}. To fix it: give the path" in words
    assert "the look failed on: n0, n1, n2" in words
