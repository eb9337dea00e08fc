"""`fab bundle` against a real SSH daemon: the same Observation as the node's own module sees."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.build import build
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.probes import Options, choose, table
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.source import BundleSource, LiveSource

from tests.support.own_sshd import SSHD, OwnSshd

ROOT = Path(__file__).resolve().parents[2]
FAB = shutil.which("fab", path=str(Path(sys.executable).parent)) or shutil.which("fab")

pytestmark = [
    pytest.mark.skipif(SSHD is None, reason="no OpenSSH daemon on this machine (package openssh-server)"),
    pytest.mark.skipif(FAB is None, reason="Fabric is not installed"),
]
#: What moves between two looks at a busy machine.
MOVES = ["memory", "disks", "ports", "dmesg", "identity", "shm"]


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    daemon = OwnSshd(tmp_path_factory.mktemp("sshd"), "MaxSessions 3")
    yield daemon
    daemon.stop()


@pytest.fixture
def fab(sshd, tmp_path):
    def run(*words, config=None):
        command = [FAB, "-S", str(config or sshd.client_config("node-x")), "bundle", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


def test_the_same_observation_as_on_the_node(fab, tmp_path):
    rc, text = fab("node-x", f"127.0.0.1:{9}", "-o", str(tmp_path))
    assert rc == 1, "one of the two hosts cannot be reached"
    assert "Unable to connect to port 9 on 127.0.0.1" in text
    hostname = (tmp_path / "node-x" / "hosts").read_text().split("==> hostname <==\n")[1].split()[0]
    probes = table(Options(hostname=hostname, peers=("127.0.0.1",)))
    steady = {name: probe for name, probe in probes.items() if name not in MOVES}
    live = build(LiveSource().read(steady.values()), steady)
    saved = build(BundleSource(tmp_path / "node-x").read(steady.values()), steady)
    # Notes repeat what tools said on standard error; who ran them may show in it.
    for observation in (live, saved):
        for state in observation["probes"].values():
            state["notes"] = []
    assert json.loads(json.dumps(saved)) == json.loads(json.dumps(live))


def test_several_nodes_at_once_and_options_anywhere(fab, sshd, tmp_path):
    rc, text = fab("node-x", "--output", str(tmp_path), f"127.0.0.1:{sshd.port}", "--timeout", "5")
    assert rc == 0, text
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["node-x", f"127.0.0.1_{sshd.port}"])
    assert (tmp_path / "node-x" / "os_release").read_bytes() == Path("/etc/os-release").read_bytes()
    assert [line.split()[0] for line in text.splitlines()[:3]] == ["HOST", "node-x", f"127.0.0.1:{sshd.port}"]


def test_an_unknown_or_changed_host_key_is_refused(fab, sshd, tmp_path):
    (sshd.directory / "empty").write_text("")
    rc, text = fab("node-x", "-o", str(tmp_path), config=sshd.client_config("node-x", "empty"))
    assert rc == 1 and "compare its key" in text
    other = (sshd.directory / "user_key.pub").read_text().split()[:2]
    (sshd.directory / "other").write_text(f"[127.0.0.1]:{sshd.port} {' '.join(other)}\n")
    rc, text = fab("node-x", "-o", str(tmp_path), config=sshd.client_config("node-x", "other"))
    assert rc == 1 and "does not match" in text
    (sshd.directory / "broken").write_text(f"[127.0.0.1]:{sshd.port} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAB\n")
    rc, text = fab("node-x", "-o", str(tmp_path), config=sshd.client_config("node-x", "broken"))
    assert rc == 1 and "Traceback" not in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "text"),
    [((), "name at least one host"), (("a", "root@a"), "a and root@a would write the same bundle")],
)
def test_bad_command_lines(fab, words, text):
    rc, output = fab(*words)
    assert rc == 2 and text in output and "Traceback" not in output


def test_chosen_probes_exist():
    assert choose(table(), MOVES)
