"""The layer driver killed at moments spread over it (controller, apt and dpkg, power): the next run converges."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

from tests.drivers.test_drivers import assert_converged
from tests.nodes.conftest import BIN, ROOT
from tests.support.kills import descendants, moments
from tools.lab import machine

SEED = int(os.environ.get("TRAINRIG_SEED", random.SystemRandom().randrange(10**6)))
WAYS = ("controller", "apt and dpkg", "power")


def begin(one):
    return subprocess.Popen(
        [str(BIN / "ansible-playbook"), "-i", str(one.place), "site.yml"],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def wait_for(run, manifest, state):
    """The moment at which the manifest on the node says so of the layer; the run must not end before."""
    while True:
        with contextlib.suppress(OSError, KeyError, ValueError):
            if json.loads(manifest.read_text(encoding="utf-8"))["layers"]["driver"]["state"] == state:
                return time.monotonic()
        assert run.poll() is None, f"site.yml ended before the layer was {state}"
        time.sleep(0.1)


def named(one, *names):
    """Processes of the node with these names."""
    found = []
    for pid in machine.group_members(one.node.machine):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() in names:
                found.append(pid)
    return found


def kill(one, run, way):
    if way == "controller":
        machine.send([run.pid, *descendants(run.pid)], signal.SIGKILL)
    elif way == "power":
        one.node.kill()
        machine.send([run.pid, *descendants(run.pid)], signal.SIGKILL)
    else:
        while run.poll() is None:
            found = named(one, "apt-get", "dpkg")
            if found:
                machine.send(found, signal.SIGKILL)
                break
            time.sleep(0.1)
    run.wait(timeout=3600)


def test_every_killed_run_converges_when_run_again(node, say):
    one = node("node-1")
    one.declare(["sources", "driver"], driver="550.163.01", kernel_module="proprietary", kernel=one.kernel())
    run, manifest = begin(one), one.root / "etc/trainrig/manifest.json"
    length = -wait_for(run, manifest, "applying") + wait_for(run, manifest, "clean")
    run.wait(timeout=600)
    assert_converged(one, "driver")
    say(f"seed {SEED} (TRAINRIG_SEED), the layer takes {length:.0f} s")
    for way, moment in zip(WAYS, moments(len(WAYS), length, SEED)):
        one = node("node-1")
        run = begin(one)
        wait_for(run, one.root / "etc/trainrig/manifest.json", "applying")
        time.sleep(moment)
        doing = one.ask("ps -eo comm= --sort=-start_time").split()
        kill(one, run, way)
        if way == "power":
            one.node.start()
            one.node.wait_ready()
        half = [name for name, (_version, state) in one.packages().items() if state not in ("ii", "hi")]
        say(f"{way} after {moment:.0f} s, in the midst of {doing[:6]}; packages that are not whole: {len(half)}")
        one.site("the next run")
        assert_converged(one, "driver")
        assert "Nothing to do" in one.play("playbooks/plan.yml").ok().output
