"""Real systemd nodes: one lab for the whole tier, two nodes of Debian 12 and one of Debian 13.

`lab.node("node-1")` starts, stops, kills, keeps snapshots and resets; `host("node-1")` looks with testinfra, over SSH
as the user with sudo, host key checked. A test that changed a node resets it: `fresh` does so.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import testinfra

from tests.nodes.equipment import kernel, kernel_headers, repository  # noqa: F401 - fixtures for every test here
from tests.support.checkout import Run
from tests.support.host_state import host_state
from tools.lab import machine
from tools.lab.lab import Lab, labs
from tools.lab.names import NodeSpec

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
SPECS = [NodeSpec(1, "debian12"), NodeSpec(2, "debian12"), NodeSpec(3, "debian13")]
#: This run's own, so that labs that are in use stay as they are, another run's too.
NAME, OTHER = f"t{os.getpid()}", f"o{os.getpid()}"


@pytest.fixture(scope="session")
def before():
    """This machine before the tier's lab."""
    if reason := machine.missing():
        pytest.skip(reason)
    for left in labs():  # of runs that were killed
        if left.name[0] in "to" and left.name[1:].isdigit() and not Path("/proc", left.name[1:]).exists():
            left.clean()
    return host_state()


@pytest.fixture(scope="session")
def lab(before, tmp_path_factory):
    made = Lab(NAME)
    made.up(SPECS, tmp_path_factory.mktemp("inventory") / "test")
    yield made
    made.clean()


@pytest.fixture
def other(lab):
    """A second lab beside it, not there yet."""
    made = Lab(OTHER)
    made.clean()
    yield made
    made.clean()


@pytest.fixture(scope="session")
def fresh(lab):
    """Nodes back to fresh and running: fresh("node-1", ...), all of them without names."""

    def reset(*names):
        nodes = [lab.node(name) for name in names] or lab.nodes
        for node in nodes:
            node.reset()
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_ready()
        return nodes

    return reset


@pytest.fixture(scope="session")
def host(lab):
    """A node through testinfra."""

    def connect(name, sudo=False):
        return testinfra.get_host(f"ssh://{name}", ssh_config=f"{lab.ssh}/config", controlpersist=0, sudo=sudo)

    return connect


@pytest.fixture(scope="session")
def ansible(lab):
    """A program of Ansible's on the lab's inventory: ansible("ansible-playbook", "site.yml")."""

    def run(program, *words, timeout=900, inventory=None):
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        done = subprocess.run(
            [str(BIN / program), "-i", str(inventory or lab.inventory), *words],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Run(done.returncode, done.stdout)

    return run
