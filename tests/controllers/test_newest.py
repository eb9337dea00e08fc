"""The newest ansible-core this machine's other Pythons allow: same locks, same playbook, same result."""

import subprocess

import pytest

from tests.support.checkout import Checkout
from tools.tiers import other_python


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    checkout = Checkout.fresh(tmp_path_factory.mktemp("newest"))
    python = other_python()
    if python is None:
        pytest.skip("no Python 3.12 or newer beside the controller's")
    checkout.run("tools/setup", "controller", python).ok()
    return checkout


def test_the_lock_gives_this_python_a_newer_ansible(checkout):
    version = checkout.run(".venv/bin/ansible", "--version").ok().output
    ours = subprocess.run(["ansible", "--version"], capture_output=True, text=True, check=True).stdout
    assert version.splitlines()[0] > ours.splitlines()[0]
    print(version.splitlines()[0])


def test_site_passes_and_a_second_run_changes_nothing(checkout):
    # The environment is made with the system's Python: the CPU wheels may not exist for the controller's.
    python = "-e ansible_python_interpreter=/usr/bin/python3"
    first = checkout.make("site", python).ok()
    assert "[WARNING]" not in first.output
    assert "DEPRECAT" not in first.output
    assert checkout.report()["verdict"] == "pass"
    assert checkout.make("site", python).ok().recap()["changed"] == 0
