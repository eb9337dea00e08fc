"""trainrig.gpu.diagnose and playbooks/diagnose.yml through Ansible: what is written, what is said, how it ends."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.simulated_bases import BASES
from tests.support.simulated_machine import probes

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "ANSIBLE_LOCALHOST_WARNING": "false",
    "COLUMNS": "160",
}
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - trainrig.gpu.diagnose: {bundles: OUT/one/node-b, output: OUT/single.json}
    - trainrig.gpu.diagnose: {bundles: OUT/none, output: OUT/none.json}
      ignore_errors: true # it has to fail, and the test reads why
      register: missing
    - trainrig.gpu.diagnose: {bundles: OUT/empty, output: OUT/empty.json}
      ignore_errors: true # it has to fail, and the test reads why
      register: empty
    - trainrig.gpu.diagnose: {bundles: OUT/garbage, output: OUT/garbage.json}
      register: garbage
    - trainrig.gpu.diagnose: {bundles: OUT/one, output: OUT/forced.json, force: [nccl.gid_index@node-b]}
    - trainrig.gpu.diagnose: {bundles: OUT/one, force: [nccl.gid@node-b]}
      ignore_errors: true # it has to fail, and the test reads why
      register: wrong_force
    - trainrig.gpu.diagnose: {bundles: OUT/broken_stack, output: OUT/broken_stack.json}
      ignore_errors: true # it has to fail, and the test reads why
      register: broken_stack
    - trainrig.gpu.diagnose: {bundles: OUT/one/node-a, output: OUT/no/such/../deep/file.json}
    - trainrig.gpu.diagnose: {bundles: OUT/one/node-a, output: OUT/one}
      ignore_errors: true # it has to fail, and the test reads why
      register: unwritable
    - trainrig.gpu.diagnose: {bundles: OUT/one/node-a, floors: {gpu_memory_gb: {value: 200, severity: fail}}}
      register: own_floor
    - ansible.builtin.copy:
        content: >-
          {{ {'missing': missing, 'empty': empty, 'garbage': garbage, 'wrong_force': wrong_force,
          'broken_stack': broken_stack, 'unwritable': unwritable, 'own_floor': own_floor} | to_json }}
        dest: OUT/results.json
"""


def bundle(directory: Path, base: str, **changes: str | None) -> None:
    directory.mkdir(parents=True)
    for name, text in {**probes(BASES[base]), **changes}.items():
        if text is not None:
            (directory / name).write_text(text, encoding="utf-8")


def playbook(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("ansible-playbook")), *arguments]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("diagnose")
    bundle(out / "one" / "node-a", "gh200")
    bundle(out / "one" / "node-b", "gh200", machine_id=None)
    other = (out / "one" / "node-b" / "identity").read_text().replace("8f01", "8f02")
    (out / "one" / "node-b" / "identity").write_text(other)
    report = (out / "one" / "node-b" / "nvidia_smi_xml").read_text().replace("GPU-01", "GPU-02")
    (out / "one" / "node-b" / "nvidia_smi_xml").write_text(report)
    roce = probes(BASES["h100x8-roce"])
    for name in ("ibstat", "ibv_devinfo", "rdma_link", "gids"):
        (out / "one" / "node-b" / name).write_text(roce[name].split("CA 'mlx5_1'")[0].split("hca_id:\tmlx5_1")[0])
    (out / "one" / "stack.yml").write_text("# for all\ndriver: keep\nnccl_ib_gid_index: 3\n")
    (out / "one" / "node-b" / "stack.yml").write_text("trainrig_stack:\n  nccl_ib_gid_index: 1\n")
    (out / "empty").mkdir()
    (out / "garbage" / "node-x").mkdir(parents=True)
    (out / "garbage" / "node-x" / "lspci").write_bytes(b"\xff\xfe\x00 no list of devices \x01")
    (out / "garbage" / "notes.txt").write_text("not a host")
    (out / "broken_stack" / "n").mkdir(parents=True)
    (out / "broken_stack" / "n" / "virt").write_text("none\n")
    (out / "broken_stack" / "stack.yml").write_text("driver: [580\n")
    (out / "play.yml").write_text(PLAY.replace("OUT", str(out)))
    done = playbook(str(out / "play.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def results(out: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((out / "results.json").read_text())
    return found


def rules(path: Path) -> list[tuple[str, str, str]]:
    return [(one["severity"], one["rule"], one["host"]) for one in json.loads(path.read_text())["findings"]]


def test_one_directory_is_one_host(out: Path) -> None:
    written = json.loads((out / "single.json").read_text())
    assert (written["schema"], written["hosts"]) == (1, ["node-b"])


def test_a_hosts_own_stack_wins_and_a_refusal_can_be_forced(out: Path) -> None:
    forced = [row for row in rules(out / "forced.json") if row[1] == "nccl.gid_index"]
    assert forced == [("warn", "nccl.gid_index", "node-b")]


def test_what_is_missing_is_one_clear_error_and_still_written(out: Path, results: dict[str, dict[str, object]]) -> None:
    assert f"{out}/none is not a directory" in str(results["missing"]["msg"])
    assert json.loads((out / "none.json").read_text())["verdict"] == "fail"
    assert "holds no bundle" in str(results["empty"]["msg"])
    assert json.loads((out / "empty.json").read_text())["hosts"] == []


def test_garbage_is_not_a_pass(out: Path) -> None:
    written = json.loads((out / "garbage.json").read_text())
    assert written["hosts"] == ["node-x"]
    assert rules(out / "garbage.json") == [("fail", "observation.empty", "node-x")]


def test_a_wrong_force_is_named(results: dict[str, dict[str, object]]) -> None:
    assert "there is no rule nccl.gid" in str(results["wrong_force"]["msg"])


def test_a_stack_that_is_no_yaml_is_named(out: Path, results: dict[str, dict[str, object]]) -> None:
    assert f"{out}/broken_stack/stack.yml is not YAML" in str(results["broken_stack"]["msg"])
    assert json.loads((out / "broken_stack.json").read_text())["verdict"] == "fail"


def test_directories_of_the_output_are_made_and_a_wrong_one_is_named(
    out: Path, results: dict[str, dict[str, object]]
) -> None:
    assert (out / "no" / "deep" / "file.json").is_file() or (out / "deep" / "file.json").is_file()
    assert f"output: cannot write {out}/one" in str(results["unwritable"]["msg"])


def test_a_site_sets_its_own_floors(results: dict[str, dict[str, object]]) -> None:
    assert "floor.gpu_memory" in str(results["own_floor"]["findings"])
    assert results["own_floor"]["verdict"] == "fail"


class TestPlaybook:
    def test_refuse_ends_non_zero_after_writing_and_prints_a_table(self, out: Path, tmp_path: Path) -> None:
        target = tmp_path / "findings.json"
        done = playbook("playbooks/diagnose.yml", "-e", f"bundles={out / 'one'}", "-e", f"output={target}")
        assert done.returncode != 0
        written = json.loads(target.read_text())
        assert set(written) == {"schema", "verdict", "hosts", "findings"}
        assert (written["verdict"], written["hosts"]) == ("refuse", ["node-a", "node-b"])
        assert ("refuse", "nccl.gid_index", "node-b") in rules(target)
        first = written["findings"][0]
        assert set(first) == {
            *("rule", "severity", "layer", "host", "pool", "scope", "summary", "cause", "action", "evidence", "phase"),
        }
        assert "refuse" in done.stdout and "next step" in done.stdout and "verdict: refuse" in done.stdout

    def test_pass_ends_with_zero(self, out: Path, tmp_path: Path) -> None:
        target = tmp_path / "findings.json"
        done = playbook("playbooks/diagnose.yml", "-e", f"bundles={out / 'one' / 'node-a'}", "-e", f"output={target}")
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(target.read_text())["verdict"] == "pass"
