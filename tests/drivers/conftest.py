"""Debian's own drivers on real nodes: node-1 of Debian 13 and node-2 of Debian 12, their modules really compiled.

    one = node("node-1")                 the node as fresh, with a site of its own (see site.py)
    say("...")                           what was measured, shown at once

A module takes minutes to compile. The first build on each release is a whole one; what its compiler made is kept for
this run (ccache stands in front of gcc), so that the builds after it cost their other steps only. TRAINRIG_COMPILED
names a directory that keeps it for the next run too.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.drivers.site import Site
from tests.nodes.conftest import NAME, ansible, before, host  # noqa: F401 - fixtures for every test here
from tests.nodes.equipment import ssh
from tools.lab.lab import Lab
from tools.lab.machine import run
from tools.lab.names import NodeSpec

SPECS = [NodeSpec(1, "debian13"), NodeSpec(2, "debian12")]
_EQUIPPED = "equipped"
_COMPILED = "var/cache/ccache"
_EQUIP = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq --no-install-recommends ccache unattended-upgrades >/var/log/equipment.log 2>&1
# apt gives packages' scripts a PATH that begins with /usr/sbin.
for name in gcc gcc-12 gcc-14 x86_64-linux-gnu-gcc-12 x86_64-linux-gnu-gcc-14; do
    ln -s /usr/bin/ccache /usr/sbin/$name
done
printf 'cache_dir = /var/cache/ccache\\nmax_size = 2G\\n' >/etc/ccache.conf
apt-get clean
"""


@pytest.fixture(scope="session")
def lab(before, tmp_path_factory):  # noqa: F811 - the fixture
    made = Lab(NAME)
    made.up(SPECS, tmp_path_factory.mktemp("inventory") / "test")
    for one in made.nodes:
        run(*ssh(made, one.name), "sudo", "sh", "-e", text=_EQUIP)
        one.snapshot(_EQUIPPED)
    yield made
    made.clean()


@pytest.fixture
def say(capsys):
    def show(text):
        with capsys.disabled():
            print(f"\n  {text}", flush=True)

    return show


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """What compilers made, by node."""
    named = os.environ.get("TRAINRIG_COMPILED")
    directory = Path(named) if named else tmp_path_factory.mktemp("compiled")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.fixture
def node(lab, compiled, ansible, host, tmp_path, say):  # noqa: F811 - the fixtures
    used = set()

    def keep(name):
        """Off, and what was compiled on it kept."""
        one = lab.node(name)
        one.kill()
        made = one.upper / _COMPILED
        if made.exists():
            run("cp", "--archive", "--no-target-directory", made, compiled / name)

    def fresh(name):
        if name in used:
            keep(name)
        used.add(name)
        one = lab.node(name)
        one.reset(_EQUIPPED)
        if (compiled / name).exists():
            (one.upper / _COMPILED).parent.mkdir(parents=True)
            run("cp", "--archive", compiled / name, one.upper / _COMPILED)
        one.start()
        one.wait_ready()
        return Site(lab, one, tmp_path / name, ansible, host, say)

    yield fresh
    for name in used:
        keep(name)
