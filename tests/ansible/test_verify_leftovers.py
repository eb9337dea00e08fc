"""What a verification that was killed left behind: the next one removes what is old and ours, and nothing else."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: trainrig.gpu.verify}
"""
TWO_DAYS_AGO = time.time() - 2 * 86400


def test_old_ones_of_ours_are_removed(tmp_path: Path) -> None:
    room, elsewhere = tmp_path / "tmp", tmp_path / "elsewhere"
    names = ["trainrig-verify-old", "trainrig-verify-young", "trainrig-verify-foreign", "other-old"]
    for path in (elsewhere, *(room / name for name in names)):
        (path / "inside").mkdir(parents=True)
    (room / "trainrig-verify-link").symlink_to(elsewhere)
    for path in (elsewhere, *room.iterdir()):
        if path.name != "trainrig-verify-young":
            os.utime(path, (TWO_DAYS_AGO, TWO_DAYS_AGO), follow_symlinks=False)
    kept = {"trainrig-verify-young", "trainrig-verify-link", "other-old"}
    if os.geteuid() == 0:  # only root can give a directory to somebody else
        os.chown(room / "trainrig-verify-foreign", 65534, 65534)
        kept.add("trainrig-verify-foreign")
    (tmp_path / "play.yml").write_text(PLAY, encoding="utf-8")
    values = {
        "trainrig_prefix": str(tmp_path / "prefix"),
        "verify_python": "/no/such/python",  # the verification ends at once, as a finding
        "ansible_python_interpreter": sys.executable,
    }
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(tmp_path / "play.yml")]
    command += ["-i", "localhost,", "-c", "local", "-e", json.dumps(values)]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "TMPDIR": str(room)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    left = {path.name for path in room.iterdir() if not path.name.startswith("ansible")}
    assert left == kept
    assert (elsewhere / "inside").is_dir()
