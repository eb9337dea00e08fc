"""The lock's solution against the platform's own: apt of a fresh Debian root, with that root's own packages installed.

The lock asks the controller's apt with nothing installed. What is pinned must come out the same here.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import apt_output
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.systems import Wish
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.answer import FILES
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.declaration import declared
from ansible_collections.trainrig.gpu.plugins.plugin_utils.apt_root import connection_settings, own_sources
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.system_lock import SystemLocker

STACKS = {"debian12-x86_64": {"cuda": "11.8"}, "debian13-x86_64": {"cuda": "12.4", "nccl": "2.22.3"}}


@pytest.fixture(params=STACKS)
def platform(request):
    return request.param


@pytest.fixture
def root(platform, tmp_path):
    """A fresh minimal root file system of the platform, from this machine's own mirror."""
    if os.geteuid() or not shutil.which("mmdebstrap"):
        pytest.skip("needs root and mmdebstrap")
    mirror = next((one["uri"] for one in own_sources() if one["origin"] == one["label"] == "Debian"), None)
    if not mirror:
        pytest.skip("this machine's apt knows no Debian archive")
    suites = load("origins")["origins"]["debian"]["platforms"][platform.split("-")[0]]
    components = " ".join(load("origins")["origins"]["debian"]["components"])
    lines = [f"deb {mirror} {suite} {components}" for suite in suites]
    directory = tmp_path / "root"
    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", suites[0], str(directory), *lines], check=True)
    (directory / "etc/apt/apt.conf.d/99test").write_text(
        f'APT::Install-Recommends "false";\n{connection_settings()}', encoding="utf-8"
    )
    for path in ("/etc/resolv.conf", "/etc/hosts"):
        shutil.copy(path, directory / path.lstrip("/"))
    return directory


def test_the_platform_s_own_apt_decides_the_same(root, platform):
    stack, problems = declared({**STACKS[platform], "origin": "distro"}, {name: load(name) for name in FILES})
    assert problems == []
    system = SystemLocker({}, "2026-11-30").locked(Wish("default", platform, ("L40S",), {}, stack))
    rows = {row["name"]: row for row in system["packages"]}
    asked = [f"{name}={rows[name]['version']}" for names in system["install"].values() for name in names]
    run = ["chroot", str(root), "apt-get", "-q"]
    subprocess.run([*run, "update"], check=True, capture_output=True)
    done = subprocess.run([*run, "install", "--simulate", *asked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    theirs = apt_output.installed(done.stdout)
    pinned = {name: row["version"] for name, row in rows.items() if row["pin"]}
    assert {name: theirs.get(name) for name in pinned} == pinned
    assert set(theirs) <= set(rows), "and nothing comes that the lock does not know"
