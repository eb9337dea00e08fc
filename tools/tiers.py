"""Runs the test tiers: in order, with times, saying aloud what was left out and why.

tools/tiers.py test | test-slow | fuzz | bench | lint | TIER...
    --require unit,lint    a named tier that is skipped counts as a failure (.ci/run uses it)
    --end EPOCH            do not start a tier that is not sure to end by then (its usual minutes, tripled)
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools import browser, torch_environment
from tools.lab import machine as lab_machine

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
PYTEST = [str(BIN / "python"), "-m", "pytest", "-q", "--durations=6", "--durations-min=10"]
LINTED = ["plugins", "tests", "tools", "fabfile.py"]


class Tier(NamedTuple):
    """One group of tests that needs the same things of the machine."""

    name: str
    what: str
    commands: list[list[str]]
    minutes: float  # usual time on two cores
    missing: Callable[[], str | None] = lambda: None  # why it cannot run here


def needs_root() -> str | None:
    return None if os.geteuid() == 0 else "needs root"


def other_python() -> str | None:
    """The newest Python after the controller's own, for the newest ansible-core."""
    names = ("python3.14", "python3.13", "python3.12")
    pyenv = [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python"), reverse=True)]
    return next((found for name in [*names, *pyenv] if (found := shutil.which(name)) and _runs(found)), None)


def _runs(python: str) -> bool:
    check = [python, "-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))"]
    return subprocess.run(check, capture_output=True, check=False).returncode == 0


def no_other_python() -> str | None:
    return None if other_python() else "no Python 3.12 or newer beside the controller's"


def no_sshd() -> str | None:
    return None if shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin") else "no sshd (openssh-server)"


def no_apt() -> str | None:
    absent = [name for name in ("apt-get", "gpg", "gpgv") if not shutil.which(name)]
    return f"no {', '.join(absent)} (apt and gnupg)" if absent else None


def no_fresh_root() -> str | None:
    return needs_root() or (None if shutil.which("mmdebstrap") else "no mmdebstrap")


def pytest(*arguments: str) -> list[list[str]]:
    return [[*PYTEST, *arguments]]


TIERS = [
    Tier("unit", "pure logic and cases, seconds", pytest("-n2", "tests/unit", "tests/contract"), 1),
    Tier(
        "lint",
        "ruff, mypy, yamllint, ansible-lint production profile",
        [
            [str(BIN / "ruff"), "check", *LINTED],
            [str(BIN / "ruff"), "format", "--check", "--quiet", *LINTED],
            [str(BIN / "mypy"), "plugins/module_utils"],
            [str(BIN / "yamllint"), "--strict", "."],
            [str(BIN / "ansible-lint"), "--offline", "--strict", "-q"],
        ],
        2,
    ),
    Tier(
        "ansible",
        "actions, playbooks and callback through a real Ansible",
        pytest("-n2", "tests/ansible", "-m", "not slow"),
        3,
    ),
    Tier("sanity", "ansible-test sanity on a built copy", pytest("tests/sanity"), 3),
    Tier("environment", "environments really built by uv from local wheels", pytest("tests/env"), 2),
    Tier(
        "apt",
        "locks of system packages by real apt, Debian's archive and simulated ones",
        pytest("tests/apt"),
        3,
        no_apt,
    ),
    Tier(
        "browser",
        "the report in a real browser: asks for nothing, cuts nothing off",
        pytest("tests/browser"),
        1,
        browser.missing,
    ),
    Tier("ssh", "bundles over a real SSH daemon: fab and the playbook", pytest("tests/ssh"), 2, no_sshd),
    Tier(
        "nodes",
        "site.yml, diagnosis and the layer sources on a lab of real systemd nodes; the lab itself",
        pytest("tests/nodes", "-m", "not slow"),
        9,
        lab_machine.missing,
    ),
    Tier("site", "make site from a fresh clone: drifts, bad input, an unprivileged user", pytest("tests/site"), 12),
    Tier(
        "torch",
        "collectives and DDP smoke on real torch, sick ones too",
        [[str(BIN / "python"), "tools/torch_environment.py"], *pytest("tests/torch")],
        6,
    ),
    Tier("controllers", "the newest ansible-core on another Python", pytest("tests/controllers"), 3, no_other_python),
]
SLOW = [
    Tier("kills", "make site killed at ten moments, converges", pytest("tests/kills/test_kills.py"), 15),
    Tier(
        "node_kills",
        "real nodes: controller, apt and power killed in every layer, converges",
        pytest("tests/kills/test_nodes.py"),
        60,
        lab_machine.missing,
    ),
    Tier(
        "roots", "the lock's solution against apt's own in fresh Debian roots", pytest("tests/roots"), 2, no_fresh_root
    ),
    Tier(
        "more_ansible",
        "whole upgrades of fleets of simulated layers through a real Ansible",
        pytest("-n2", "tests/ansible", "-m", "slow"),
        3,
    ),
    Tier(
        "more_nodes",
        "adopt, drifts, upgrades, errors, single layers, simulated Ubuntu, pairs and MPI on labs of real nodes",
        pytest("tests/nodes", "-m", "slow"),
        75,
        lab_machine.missing,
    ),
    Tier(
        "drivers",
        "Debian's own drivers on real nodes, their modules really compiled",
        pytest("tests/drivers"),
        90,
        lab_machine.missing,
    ),
    Tier(
        "fuzz",
        "20,000 mutated bundles, 20,000 mutated logs, 10,000 simulated fleets",
        [
            [str(BIN / "python"), f"tests/fuzz/{name}.py", "--count", count, *more]
            for name, count, *more in (
                ("bundles", "20000"),
                ("logs", "20000"),
                ("fleets", "10000", "--hosts", "128"),
            )
        ],
        12,
    ),
]
BENCH = [
    Tier(
        "bench",
        "speed ratios from one run",
        [[str(BIN / "python"), f"tests/bench/{name}.py"] for name in ("run", "nodes")],
        8,
    )
]
GROUPS = {
    "test": TIERS,
    "test-slow": SLOW,
    "fuzz": [tier for tier in SLOW if tier.name == "fuzz"],
    "bench": BENCH,
    "lint": [tier for tier in TIERS if tier.name in ("lint", "sanity")],
}


def chosen(names: list[str]) -> list[Tier]:
    by_name = {tier.name: tier for tier in [*TIERS, *SLOW, *BENCH]}
    unknown = [name for name in names if name not in GROUPS and name not in by_name]
    if unknown:
        sys.exit(f"unknown tier {unknown[0]!r}; there are: {', '.join([*GROUPS, *by_name])}")
    return [tier for name in names for tier in (GROUPS.get(name) or [by_name[name]])]


def run(tier: Tier, end: float | None) -> tuple[str, float]:
    """(result, seconds); the result begins with passed, failed or skipped."""
    if reason := tier.missing():
        return f"skipped: {reason}", 0
    if end and time.time() + tier.minutes * 60 * 3 > end:
        return f"skipped: not sure to end in time (usually {tier.minutes:g} min)", 0
    print(f"\n=== {tier.name}: {tier.what}", flush=True)
    started = time.monotonic()
    environment = {
        "TRAINRIG_TEST_TORCH_PYTHON": str(torch_environment.PYTHON),
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    failed = [c for c in tier.commands if subprocess.run(c, cwd=ROOT, env=environment, check=False).returncode]
    for command in failed:
        print(f"FAILED: {' '.join(command)}", flush=True)
    return ("failed" if failed else "passed"), time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tiers", nargs="+")
    parser.add_argument("--require", default="", help="tiers that must not be skipped")
    parser.add_argument("--end", type=float, help="moment (seconds since 1970) by which everything must have ended")
    options = parser.parse_args()
    results = [(tier, *run(tier, options.end)) for tier in chosen(options.tiers)]
    required = {name for name in options.require.split(",") if name}
    print("\n=== tiers")
    for tier, result, seconds in results:
        print(f"  {tier.name:<12} {result}" + (f" in {seconds:.0f} s" if seconds else ""))
    bad = [tier.name for tier, result, _ in results if result == "failed"]
    bad += [tier.name for tier, result, _ in results if result.startswith("skipped") and tier.name in required]
    left_out = [name for name in (tier.name for tier in SLOW) if name not in {tier.name for tier, _, _ in results}]
    if "test" in options.tiers and left_out:
        print(f"  {', '.join(left_out):<12} left out: slow tiers, run them with: make test-slow")
    if bad:
        print(f"  not good: {', '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
