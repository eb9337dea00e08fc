"""nccl-tests really compiled on Debian 13 against Debian's CUDA and libnccl, from an archive that the user names.

The source is in no package registry, so the archive comes from TRAINRIG_TEST_NCCL_TESTS_ARCHIVE (a .tar.gz of a tag).
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl import failures, result

from tests.nodes.conftest import ROOT
from tools.lab.lab import Lab
from tools.lab.names import NodeSpec

VARIABLE = "TRAINRIG_TEST_NCCL_TESTS_ARCHIVE"
ARCHIVE = Path(os.environ.get(VARIABLE, "/nowhere"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ARCHIVE.is_file(), reason=f"{VARIABLE} names no source archive of nccl-tests"),
]
SCRIPTS = ROOT / "roles" / "verify" / "files"
PACKAGES = "nvidia-cuda-toolkit libnccl-dev libnccl2 libopenmpi-dev openmpi-bin g++ make"


@pytest.fixture(scope="module")
def node(before, tmp_path_factory):
    made = Lab(f"t{os.getpid()}n")
    made.up([NodeSpec(1, "debian13")], tmp_path_factory.mktemp("builder") / "test")
    on = Node(made)
    on.ok("sudo apt-get -qq update")
    on.ok(f"sudo DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends {PACKAGES} >/dev/null")
    for path in (SCRIPTS / "bounded.py", SCRIPTS / "build_nccl_tests.py", ARCHIVE):
        on.put(path)
    yield on
    made.clean()


class Node:
    def __init__(self, lab):
        self.ssh = ["ssh", "-F", f"{lab.ssh}/config", "node-1"]

    def run(self, command, stdin=None):
        return subprocess.run([*self.ssh, command], input=stdin, capture_output=True, timeout=5400, check=False)

    def ok(self, command):
        done = self.run(command)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        return done.stdout.decode()

    def put(self, path):
        assert self.run(f"cat > {path.name}", path.read_bytes()).returncode == 0

    def build(self, *options):
        digest = hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()
        words = [
            f"--archive={ARCHIVE.name}",
            f"--sha256={digest}",
            "--into=built",
            "--nccl=system",
            "--programs=all_reduce",
        ]
        return json.loads(self.ok(f"python3 build_nccl_tests.py {' '.join([*words, *options])}").splitlines()[-1])


def test_it_is_built_against_the_system_s_nccl_and_its_end_without_a_gpu_is_what_it_is(node):
    told = node.build("--architectures=90", "--seconds=3600")
    assert told["error"] is None and told["built"], told
    facts = told["inputs"]
    assert facts["nccl"]["version"].startswith("2.") and facts["cuda"]["version"].startswith("12.")
    assert not node.build("--architectures=90")["built"], "once for the same inputs"
    done = node.run(f"mpirun -np 1 {told['path']}/all_reduce_perf -b 8 -e 8M -f 2 -g 1 2>&1")
    assert done.returncode == 2, done.stdout
    text = done.stdout.decode()
    said = result.parse(text)
    assert said["verdict"] != "pass" and said["rows"] == []
    assert "verify.log_cuda" in {one["rule"] for one in failures.failures(text.splitlines(), "node-1")}


def test_what_is_wrong_is_named(node):
    wrong = node.build("--architectures=10")
    assert wrong["error"]["piece"] == "cuda" and "compute_10" in "\n".join(wrong["error"]["lines"])
    assert node.build()["error"]["piece"] == "cuda", "no GPU here says what to build for"
    other = node.build("--architectures=90", "--nccl=environment", "--python=/usr/bin/python3")
    assert other["error"]["piece"] == "nccl"
    node.ok("sudo mv /usr/bin/mpicc /usr/bin/mpicc.away")
    assert node.build("--architectures=90")["error"]["piece"] == "mpi"
    node.ok("sudo mv /usr/bin/mpicc.away /usr/bin/mpicc; sudo mv /usr/bin/g++ /usr/bin/g++.away")
    assert node.build("--architectures=90")["error"]["piece"] == "compiler"
    node.ok("sudo mv /usr/bin/g++.away /usr/bin/g++")
