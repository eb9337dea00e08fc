"""playbooks/observe.yml over real SSH: bundles for an inventory, the declaration beside them, nothing changed twice."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.own_sshd import SSHD, OwnSshd

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"

pytestmark = pytest.mark.skipif(SSHD is None, reason="no OpenSSH daemon on this machine (package openssh-server)")


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    daemon = OwnSshd(tmp_path_factory.mktemp("sshd"))
    yield daemon
    daemon.stop()


@pytest.fixture
def observe(sshd, tmp_path):
    config = sshd.client_config("node-x")
    inventory = tmp_path / "fleet"
    (inventory / "group_vars").mkdir(parents=True)
    (inventory / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"node-x": {}, "node-gone": {}}}}))
    stack = {"trainrig_stack": {"driver": "keep"}, "ansible_ssh_common_args": f"-F {config} -o ConnectTimeout=5"}
    (inventory / "group_vars" / "all.yml").write_text(yaml.safe_dump(stack))

    def run(*words):
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        command = [PLAYBOOK, ROOT / "playbooks" / "observe.yml", "-i", inventory, *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


def test_bundles_of_an_inventory(observe, tmp_path):
    rc, text = observe()
    assert rc == 4, "a host that cannot be reached is an error, after the others were saved"
    bundle = tmp_path / "bundles" / "fleet" / "node-x"
    assert (bundle / "os_release").read_bytes() == Path("/etc/os-release").read_bytes()
    assert yaml.safe_load((bundle / "stack.yml").read_text()) == {"driver": "keep"}
    assert re.search(rf"{bundle}: [0-9]+ of [0-9]+ probes answered", text)
    assert not (bundle.parent / "node-gone").exists()
    (bundle / "dnf_versionlock").write_text("of an older look\n")
    rc, text = observe("--limit", "node-x")
    assert rc == 0 and "changed=0" in text
    assert not (bundle / "dnf_versionlock").exists()


def test_another_directory(observe, tmp_path):
    rc, _text = observe("--limit", "node-x", "-e", "bundles=elsewhere")
    assert rc == 0
    assert (tmp_path / "elsewhere" / "node-x" / "uname").is_file()
