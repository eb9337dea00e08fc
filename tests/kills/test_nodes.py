"""site.yml killed on real nodes at random moments: the next run converges, with no repair by hand.

Three kinds: the controller dies (SIGKILL), apt dies on the node (SIGKILL, with what it started), the node loses power.
Every node is a run of its own with a kill of its own. Drivers are simulated packages (a real kernel module, built by
DKMS), and from its first boot a node seems to have a loaded driver: what needs one is applied too.

A power cut here ends every process at once; what the kernel was told to write is not lost.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from tests.nodes import equipment
from tests.nodes.equipment import ssh
from tests.support import simulated_hardware as simulated
from tests.support.checkout import copy_tree
from tests.support.kills import Draw, Kill, descendants, kill
from tools.lab import machine
from tools.lab.lab import Lab, labs
from tools.lab.names import NodeSpec

COUNT = int(os.environ.get("TRAINRIG_KILLS", "30"))
SEED = int(os.environ.get("TRAINRIG_SEED", random.SystemRandom().randrange(10**6)))
SPECS = [NodeSpec(1, "debian13"), NodeSpec(2, "debian12"), NodeSpec(3, "debian13"), NodeSpec(4, "debian13")]
BIN = Path(sys.executable).parent
LAYERS = ("sources", "driver", "nvlink", "cuda", "nccl")
CONTROLLER, APT, POWER = KINDS = ("controller", "apt", "power cut")
STACK = {
    "accelerator": "nvidia",
    "origin": "nvidia",
    "driver": "570",
    "cuda": "12.8",
    "nccl": "2.27.5",
    "gpus": ["H100_SXM5_80"],
    "platforms": ["debian12-x86_64", "debian13-x86_64"],
}
LOCK = {
    "index_date": "2026-11-30T00:00:00Z",
    "profiles": [{"name": "cpu", "pytorch": "2.13.0", "variant": "cpu", "python": ["3.11"]}],
}
#: What works on packages or indexes; what only reads (dpkg-query) is no prey.
PREY = {"apt-get", "apt-mark", "apt-cache", "dpkg", "http"}
SHOW = """
dpkg --audit; echo ==; ls /var/lib/dpkg/updates; echo ==; apt-mark showhold; echo ==; dkms status; echo ==
dpkg-query --show --showformat '${db:Status-Abbrev}|${Package}|${Version}\\n'; echo ==
sudo apt-get -qq check 2>&1; echo ==; nvcc=/usr/local/cuda/bin/nvcc; $nvcc --version
"""
#: What differs between two runs that went the same way.
VOLATILE = ("/var/log/", "/var/cache/", "/var/lib/apt/", "/var/lib/systemd/", "/var/tmp/", "/tmp/", "/home/", "/root/")


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    if reason := machine.missing():
        pytest.skip(reason)
    for left in labs():  # of runs that were killed
        if left.name[0] == "k" and left.name[1:].isdigit() and not Path("/proc", left.name[1:]).exists():
            left.clean()
    made = Lab(f"k{os.getpid()}")
    made.up(SPECS, tmp_path_factory.mktemp("inventory") / "kills")
    yield made
    made.clean()


repository, kernel_headers = equipment.repository, equipment.kernel_headers  # fixtures


class Runner:
    """One node, and the runs of site.yml on it from a checkout that nobody edits meanwhile."""

    def __init__(self, lab, node, checkout, directory, facts, version):
        self.lab, self.node, self.checkout, self.directory = lab, node, checkout, directory
        self.facts, self.version = facts, version
        self.inventory = directory / "inventory"
        self.duration, self.windows, self.good = 0.0, {}, {}

    def fresh(self):
        self.node.reset(self.node.snapshots[0])
        self.boot()

    def boot(self):
        self.node.start()
        self.node.wait_ready()
        simulated.equip(self.node, self.facts)

    def begin(self, playbook, log):
        command = [str(BIN / "ansible-playbook"), playbook, "-i", str(self.inventory)]
        # Every task's name is in the log when it begins.
        told = {"ANSIBLE_DISPLAY_OK_HOSTS": "true", "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "true", "PYTHONUNBUFFERED": "1"}
        environment = {**os.environ, **told, "ANSIBLE_CONFIG": str(self.checkout / "ansible.cfg")}
        with log.open("wb") as stream:
            return subprocess.Popen(
                command,
                cwd=self.checkout,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def whole(self, playbook, log):
        """A run to its end: what it printed."""
        self.begin(playbook, log).wait(timeout=1800)
        return log.read_text(encoding="utf-8")

    @property
    def manifest(self):
        try:
            text = (self.node.upper / "etc/trainrig/manifest.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        return json.loads(text)["layers"]

    @property
    def layer(self):
        """The one that is being applied, '' between two."""
        return next((name for name, entry in self.manifest.items() if entry["state"] == "applying"), "")

    @property
    def prey(self):
        """Processes of apt on the node and what they started."""
        found = set()
        for pid in machine.group_members(self.node.machine):
            try:
                name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
            except OSError:
                continue
            if name in PREY:
                found |= {pid, *descendants(pid)}
        return sorted(found)

    def left(self):
        """What dpkg was in the middle of."""
        place = self.node.upper / "var/lib/dpkg"
        text = (place / "status").read_text(encoding="utf-8", errors="replace") if (place / "status").exists() else ""
        states = [line.split()[2:] for line in text.splitlines() if line.startswith("Status: ")]
        odd = [" ".join(state) for state in states if state not in (["ok", "installed"], ["ok", "config-files"])]
        journal = len(list((place / "updates").glob("[0-9]*"))) if (place / "updates").exists() else 0
        counts = {state.removeprefix("ok "): odd.count(state) for state in sorted(set(odd))}
        return ", ".join(f"{count} {state}" for state, count in {**counts, "in its journal": journal}.items() if count)

    def measure(self):
        """One whole run: how long, and from when to when each layer."""
        self.fresh()
        began = time.time()
        log = self.directory / "measured.log"
        text = self.whole("site.yml", log)
        self.duration = time.time() - began

        def since(word):
            return datetime.strptime(f"{word}+0000", "%Y-%m-%dT%H:%M:%SZ%z").timestamp() - began

        self.windows = {name: (since(row["started"]), since(row["applied"])) for name, row in self.manifest.items()}
        assert tuple(self.windows) == LAYERS or set(self.windows) == set(LAYERS), text
        self.good = self.state()
        assert self.good["verdict"] in ("pass", "warn", "incomplete"), text
        self.clean(self.directory / "measured-plan.log")

    def state(self):
        """What a run is to end in."""
        report = json.loads((self.directory / "reports/latest/report.json").read_text(encoding="utf-8"))
        (host,) = report["hosts"].values()
        assert host["failures"] == [], host["failures"]
        shown = machine.run(*ssh(self.lab, self.node.name), "sudo", "sh", text=SHOW)
        audit, updates, held, dkms, packages, broken, compiler = (part.strip() for part in shown.split("==\n"))
        assert (audit, updates, broken) == ("", "", ""), shown
        lock = yaml.safe_load((self.inventory / "stack.lock.yml").read_text(encoding="utf-8"))
        (system,) = [row for row in lock["systems"] if row["platform"] == f"{self.node.spec.base}-x86_64"]
        locked = {row["name"]: row["version"] for row in system["packages"] if row["pin"]}
        there = {
            name: (state.strip(), version) for state, name, version in (row.split("|") for row in packages.splitlines())
        }
        ours = {name for entry in self.manifest.values() for name in entry["resources"].get("packages", [])}
        assert len(ours) > 20
        assert {name: there.get(name) for name in ours} == {name: ("hi", locked[name]) for name in ours}
        assert ours <= set(held.split())
        assert re.fullmatch(rf"nvidia/{re.escape(self.version)}, \S+, x86_64: installed", dkms), dkms
        assert "release 12.8" in compiler
        paths = {path for path in self.node.changed() if not path.startswith(VOLATILE)}
        return {"verdict": report["verdict"], "state": host["state"], "packages": there, "held": held, "paths": paths}

    def clean(self, log):
        assert "Nothing to do" in (text := self.whole("playbooks/plan.yml", log)), text

    def killed(self, one: Kill, log):
        """A run that is killed: (where, what was running, how); None where it ended before."""
        self.fresh()
        started = time.monotonic()
        process = self.begin("site.yml", log)

        def until(reached):
            while not reached():
                if process.poll() is not None:
                    self.was_faster(time.monotonic() - started)
                    return False
                time.sleep(0.1)
            return True

        if one.place and not until(lambda: self.layer == one.place):
            return None
        begin, end = self.windows[one.place] if one.place else (0.0, self.duration)
        if one.kind == APT and not one.place:  # before and after the layers nobody works on packages
            begin, end = (pick(moments) for pick, moments in zip((min, max), zip(*self.windows.values())))
            until(lambda: self.layer)
        moment = time.monotonic() + one.share * (end - begin)
        if not until(lambda: time.monotonic() >= moment):
            return None
        names: list[str] = []
        if one.kind == APT:
            where = (one.place,) if one.place else LAYERS

            def gone():
                return one.place and self.layer != one.place

            if not until(lambda: gone() or (self.layer in where and self.kill_apt(names))):
                return None
        layer, tasks = self.layer, re.findall(r"^TASK \[(.*)\]", log.read_text(encoding="utf-8"), re.MULTILINE)
        if one.place and layer != one.place and not names:
            kill(process, "everything")
            return None
        if one.kind == CONTROLLER:
            names = [("sigkill", "everything")[one.number % 2]]
            kill(process, *names)
        elif one.kind == POWER:
            self.node.kill()
        process.wait(timeout=1800)
        return layer or one.place, tasks[-1] if tasks else "nothing yet", " ".join(names)

    def kill_apt(self, names):
        """SIGKILL for what works on packages here now, and for what it started; adds the names of what it hit."""
        prey = self.prey
        for pid in prey:
            with contextlib.suppress(OSError):
                name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
                os.kill(pid, signal.SIGKILL)
                names.append(name)
        names[:] = sorted(set(names))
        return bool(names)

    def was_faster(self, seconds):
        """The machine has less to do than it had: the next moments are drawn over this length."""
        scale = min(1.0, seconds / self.duration)
        self.duration *= scale
        self.windows = {name: (begin * scale, end * scale) for name, (begin, end) in self.windows.items()}

    def again(self, name):
        """The next run, as anybody types it, and what it had to do."""
        before = time.monotonic()
        text = self.whole("site.yml", self.directory / f"{name}-again.log")
        took = time.monotonic() - before
        found = self.state()
        expected = {**self.good, "paths": None}
        assert {**found, "paths": None} == expected, text
        self.clean(self.directory / f"{name}-plan.log")
        report = json.loads((self.directory / "reports/latest/report.json").read_text(encoding="utf-8"))
        (host,) = report["hosts"].values()
        return host["applied"], took, sorted(found["paths"] - self.good["paths"])


@pytest.fixture
def runners(lab, repository, kernel_headers, tmp_path):
    nodes = kernel_headers(*[spec.name for spec in SPECS])
    checkout = tmp_path / "trainrig"
    copy_tree(checkout)
    made = yaml.safe_load((lab.inventory / "nodes.yml").read_text(encoding="utf-8"))["all"]
    settings = {
        "ansible_become": True,
        "trainrig_stack": STACK,
        "trainrig_lock": LOCK,
        "trainrig_repositories": repository.settings,
    }

    def inventory(place, names):
        (place / "group_vars").mkdir(parents=True)
        content = {"all": {**made, "hosts": {name: made["hosts"][name] for name in names}}}
        content.update({layer: {"hosts": dict.fromkeys(names)} for layer in LAYERS})
        (place / "nodes.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
        own = {**settings, "report_directory": str(place.parent / "reports")}
        (place / "group_vars/all.yml").write_text(yaml.safe_dump(own), encoding="utf-8")

    inventory(tmp_path / "all/inventory", list(made["hosts"]))
    first = Runner(lab, nodes[0], checkout, tmp_path / "all", {}, "")
    text = first.whole("playbooks/lock.yml", tmp_path / "all/lock.log")
    lock = tmp_path / "all/inventory/stack.lock.yml"
    assert lock.exists(), text
    systems = yaml.safe_load(lock.read_text(encoding="utf-8"))["systems"]
    found = []
    for node in nodes:
        (system,) = [row for row in systems if row["platform"] == f"{node.spec.base}-x86_64"]
        version = system["resolution"]["driver"]["version"]
        directory = tmp_path / node.name
        inventory(directory / "inventory", [node.name])
        shutil.copytree(
            lock.parent,
            directory / "inventory",
            ignore=shutil.ignore_patterns("nodes.yml", "group_vars"),
            dirs_exist_ok=True,
        )
        # A loaded driver and nothing else: services that want a GPU stay off, as trainrig_hardware: absent says.
        shown = simulated.hardware(driver=version, flavour="")
        facts = {name: shown[name] for name in ("nvidia_version", "nvidia_params")}
        found.append(Runner(lab, node, checkout, directory, facts, version))
    return found


def test_every_killed_run_converges_when_run_again(runners, capsys):
    say_lock = threading.Lock()

    def say(text):
        with say_lock, capsys.disabled():
            print(text, flush=True)

    say(f"\nseed {SEED} (TRAINRIG_SEED), {COUNT} kills (TRAINRIG_KILLS)")
    with ThreadPoolExecutor(len(runners)) as pool:
        list(pool.map(Runner.measure, runners))
    for runner in runners:
        windows = ", ".join(f"{name} {begin:.0f}-{end:.0f}" for name, (begin, end) in runner.windows.items())
        where = f"{runner.node.name} ({runner.node.spec.base})"
        say(f"  {where}: one run {runner.duration:.0f} s: {windows}; {runner.good['verdict']}")
    draw, failed = Draw(COUNT, SEED, KINDS, LAYERS), []

    def work(runner):
        while one := draw.take():
            name = f"{one.number:02d}-{one.kind.replace(' ', '-')}"
            aim = f"{one.share:.0%} of {one.place}" if one.place else f"{one.share * runner.duration:.1f} s"
            hit = runner.killed(one, runner.directory / f"{name}-killed.log")
            if hit is None:
                draw.miss(one)
                say(f"  {one.number + 1:2} {one.kind} {runner.node.name} at {aim}: the run was faster, not counted")
                continue
            layer, task, how = hit
            left = runner.left() or "dpkg whole"
            if one.kind == POWER:
                runner.boot()
            where = f"{layer or 'no layer'}, [{task}]{f' ({how})' if how else ''}"
            line = f"  {one.number + 1:2} {one.kind}, {runner.node.name} at {aim}: {where}; {left}"
            try:
                applied, took, more = runner.again(name)
            except Exception as error:
                failed.append(f"{line}: {error}")
                say(f"{line}; NOT GOOD: {str(error)[-3000:]}")
            else:
                more = f"; left behind: {' '.join(more)}" if more else ""
                say(f"{line}; next run {took:.0f} s: {' '.join(applied) or 'nothing to do'}{more}")
            draw.hit(one, layer)

    with ThreadPoolExecutor(len(runners)) as pool:
        list(pool.map(work, runners))
    assert failed == []
    assert len(draw.hits) >= COUNT
    assert draw.open == [], "not every kind hit every layer"
