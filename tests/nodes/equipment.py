"""Fixtures for nodes that get a driver: a repository they install from, and kernel headers that are paid for once.

    repository                       SimulatedNodeRepository at an address that controller and nodes reach
    kernel_headers("node-3", ...)    these nodes, running, with dkms, gcc and headers, and nothing else but fresh
    kernel("node-3")                 the kernel whose headers they are; the running one is this machine's

Who changes the repository (drop, publish) publishes the whole of it again.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import shutil

import pytest

from tests.support.simulated_node_repository import simulated_node_repository
from tools.lab import network
from tools.lab.lab import Lab
from tools.lab.machine import run

_NAME = "kernel-headers"
_INSTALL = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq --no-install-recommends dkms gcc make libc6-dev linux-headers-amd64 >/var/log/equipment.log 2>&1
apt-get clean
"""


@pytest.fixture(scope="session")
def repository(lab, tmp_path_factory):
    directory = tmp_path_factory.mktemp("repository")
    with simulated_node_repository(directory / "nvidia", str(network.addresses().cache)) as made:
        yield made


@pytest.fixture(scope="session")
def kernel_headers(lab):
    def ready(*names):
        nodes = [lab.node(name) for name in names]
        for node in nodes:
            _with_headers(lab, node)
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_ready()
        return nodes

    return ready


@pytest.fixture(scope="session")
def kernel(lab):
    def release(name):
        (headers,) = run(*ssh(lab, name), "ls", "-d", "/lib/modules/*/build").split()
        return headers.split("/")[3]

    return release


def ssh(lab: Lab, name: str) -> list[str]:
    return ["ssh", "-F", str(lab.ssh / "config"), name]


def _with_headers(lab, node):
    """One layer for every node on a base system; it is kept beside that and goes with it, so the next run has it."""
    if _NAME in node.snapshots:
        node.reset(_NAME)
        return
    node.reset()
    kept = node.base.parent / _NAME
    if not kept.exists():
        node.start()
        node.wait_ready()
        run(*ssh(lab, node.name), "sudo", "sh", "-e", text=_INSTALL)
        node.snapshot(_NAME)
        layer, unfinished = node.directory / "layers" / f"00-{_NAME}", kept.with_name(f"{_NAME}.{os.getpid()}")
        run("cp", "--archive", layer, unfinished)
        try:
            unfinished.rename(kept)
        except OSError:  # another run was faster
            shutil.rmtree(unfinished)
        node.reset()
    (node.directory / "layers" / f"00-{_NAME}").symlink_to(kept)
