"""The same walk for a freshly made unprivileged user, and for those whose machine cannot have a pass."""

import os
import subprocess
import uuid

import pytest

from tests.support.checkout import Checkout


@pytest.fixture
def stranger(tmp_path_factory, cache):
    """A freshly made user without rights, with a clone of their own."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make a user")
    name = f"rig{uuid.uuid4().hex[:8]}"
    subprocess.run(["useradd", "--create-home", name], check=True)
    home = os.path.expanduser(f"~{name}")
    checkout = Checkout.fresh(
        tmp_path_factory.mktemp("stranger"), user=name, variables={"UV_CACHE_DIR": f"{home}/.cache/uv"}
    )
    subprocess.run(["cp", "-a", str(checkout.path), f"{home}/trainrig"], check=True)
    subprocess.run(["chown", "-R", f"{name}:", f"{home}/trainrig"], check=True)
    checkout.path, checkout.home = checkout.path.__class__(home) / "trainrig", checkout.home.__class__(home)
    yield checkout
    subprocess.run(["pkill", "-KILL", "-u", name], check=False)
    subprocess.run(["userdel", "--remove", name], check=True, capture_output=True)


def test_an_unprivileged_user_gets_a_pass_and_then_nothing_changes(stranger):
    run = stranger.make("site").ok()
    assert stranger.report()["verdict"] == "pass"
    assert run.recap()["changed"] > 0
    assert stranger.make("site").ok().recap()["changed"] == 0


def test_a_gpu_on_the_bus_without_a_driver_is_no_pass(checkout, first_run, tmp_path, monkeypatch):
    """simulated_lspci names a GPU that this machine does not have; nothing else is pretended."""
    first_run.ok()
    tool = tmp_path / "lspci"
    line = "0000:17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)"
    tool.write_text(f"#!/bin/sh\n# simulated_lspci\necho '{line}'\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setitem(checkout.variables, "PATH", f"{tmp_path}:{checkout.environment['PATH']}")
    run = checkout.make("site", "-e trainrig_verify=never")
    assert run.status != 0
    report = checkout.report()
    assert report["verdict"] == "refuse"
    rules = [finding["rule"] for finding in report["findings"]]
    assert "profile.gpu_without_driver" in rules
    following = report["next"]["commands"][0]["text"]
    assert following.startswith("install NVIDIA's driver"), "says what to type now"
    assert "install NVIDIA's driver" in run.output


def test_a_python_too_old_gets_one_line(checkout, tmp_path):
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\n# simulated_old_python\ncase $1 in --version) echo Python 3.9.2;; *) exit 1;; esac\n")
    old.chmod(0o755)
    copy = Checkout.fresh(tmp_path / "clone")
    run = copy.run("make", "site", f"PYTHON={old}")
    assert run.status != 0
    lines = [line for line in run.output.splitlines() if not line.startswith("make")]
    assert len(lines) == 1
    assert "Python 3.11" in lines[0]
    assert "Python 3.9.2" in lines[0]
    assert not (copy.path / ".venv").exists()
