"""States of packages, holds, units and modules: the real tools where they are, and texts in their form."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import shutil
import subprocess

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import fingerprints, system_state
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.changes import fingerprint_changes

needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-query"), reason="no dpkg here")


@needs_dpkg
def test_packages_of_this_machine():
    version = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", "dpkg"], capture_output=True, text=True, check=True
    ).stdout
    found = fingerprints.take({"packages": ["dpkg", "no-such-package"]})["packages"]
    assert found == {"dpkg": {"state": "installed", "version": version}, "no-such-package": {"state": "absent"}}


@needs_dpkg
def test_a_package_that_is_not_held():
    assert fingerprints.take({"holds": ["no-such-package"]})["holds"] == {"no-such-package": {"state": "not held"}}


def test_modules_of_this_machine():
    assert fingerprints.take({"modules": ["no-such-module"]})["modules"] == {"no-such-module": {"state": "not loaded"}}


@pytest.fixture
def says(monkeypatch):
    def fixed(text):
        monkeypatch.setattr(system_state, "_asked", lambda command, accepted=(0,): text.splitlines())

    return fixed


def test_states_of_dpkg(says):
    says("a\t1-1\tii \nb\t2-1\thi \nc\t3-1\trc \nd\t4-1\tiF \ne\t\tun \n")
    assert system_state.packages(["a", "b", "c", "d", "e", "f"]) == {
        "a": {"state": "installed", "version": "1-1"},
        "b": {"state": "installed", "version": "2-1"},
        "c": {"state": "absent"},
        "d": {"state": "half installed", "version": "4-1"},
        "e": {"state": "absent"},
        "f": {"state": "absent"},
    }


def test_units(says):
    says(
        "Id=a.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n\n"
        "Id=b.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n"
    )
    assert system_state.units(["a.service", "b.service"]) == {
        "a.service": {"state": "active", "enabled": "enabled"},
        "b.service": {"state": "not-found", "enabled": ""},
    }


def test_what_cannot_be_asked_is_unreadable(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    for kind in ("packages", "holds", "units"):
        assert "unreadable" in fingerprints.take({kind: ["x"]})[kind]["x"]
        assert fingerprints.take({kind: []})[kind] == {}


@pytest.mark.parametrize(
    ("kind", "before", "now", "reason"),
    [
        (
            "packages",
            {"state": "installed", "version": "580.95.05-1"},
            {"state": "installed", "version": "580.105.08-1"},
            "package x moved 580.95.05-1 -> 580.105.08-1",
        ),
        (
            "packages",
            {"state": "installed", "version": "1"},
            {"state": "absent"},
            "package x is absent, was installed",
        ),
        ("holds", {"state": "held"}, {"state": "not held"}, "hold of x is not held, was held"),
        (
            "units",
            {"state": "active", "enabled": "enabled"},
            {"state": "inactive", "enabled": "enabled"},
            "unit x is inactive, was active",
        ),
        ("modules", {"state": "loaded"}, {"state": "not loaded"}, "kernel module x is not loaded, was loaded"),
    ],
)
def test_reasons(kind, before, now, reason):
    assert fingerprint_changes({kind: {"x": before}}, {kind: {"x": before}}) == []
    assert fingerprint_changes({kind: {"x": before}}, {kind: {"x": now}}) == [reason]
