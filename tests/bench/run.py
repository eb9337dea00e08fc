"""Prints speed ratios, all from one run on one core: make bench.

* observe + diagnose of 16 simulated nodes with 8 GPUs each, against merely reading their bundles from disk;
* resolve: one answer and one refusal with what would work instead, in this process;
* a no-op site.yml on this machine, against its floor: the observation alone through Ansible (needs a converged
  inventories/local; left out, aloud, when there is none).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT)]

from ansible_collections.trainrig.gpu.plugins.action.diagnose import facts
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.engine import diagnose
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, enrich
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.probes import table
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.source import BundleSource, Output, write_bundle
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.answer import FILES, resolve
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.declaration import declared
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.search import Question
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

from tests.support.simulated_machine import Machine, probes

NODES = 16


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def fleet_of_bundles() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    data = facts({})
    with tempfile.TemporaryDirectory() as directory:
        names = [f"node-{number}" for number in range(1, NODES + 1)]
        for number, name in enumerate(names, start=1):
            outputs = {probe: Output(text) for probe, text in probes(Machine(number=number)).items()}
            write_bundle(Path(directory, name), outputs)

        raw: dict[str, dict[str, Output]] = {}
        fleet: dict[str, dict[str, object]] = {}

        def read() -> None:
            raw.update({name: BundleSource(str(Path(directory, name))).read(table().values()) for name in names})

        def observe() -> None:
            for name in names:
                observation = enrich.enrich(dict(build.build(raw[name])), data["gpus"])
                fleet[name] = {"observation": observation, "stack": {}, "pool": "default", "alone": False}

        def judge() -> None:
            diagnose({}, None, fleet, data, datetime.now(timezone.utc).date().isoformat(), [], False, "preflight")

        times = {"read": seconds(read), "observe": seconds(observe), "diagnose": seconds(judge)}
    total = sum(times.values())
    parts = ", ".join(f"{name} {value:.2f} s" for name, value in times.items())
    print(f"{NODES} bundles of 8 GPUs, one core: {parts}")
    print(f"  in all {total:.2f} s, {total / times['read']:.0f} times reading the files (aim: under 2 s)")


def no_op_site() -> None:
    run = {"cwd": ROOT, "stdout": subprocess.DEVNULL, "check": False}
    binary, inventory = ROOT / ".venv/bin", ["-i", "inventories/local"]
    plan = [str(binary / "ansible-playbook"), "playbooks/plan.yml", *inventory, "-e", "strict=true"]
    if subprocess.run(plan, **run).returncode:
        print("no-op site.yml: left out, inventories/local is not converged here (make site first)")
        return
    floor = [str(binary / "ansible"), "localhost", *inventory, "-m", "trainrig.gpu.observe"]
    interpreter = Path.home() / ".local/share/trainrig/env/bin/python"
    floor += ["-a", f"python={interpreter}"]
    site = [str(binary / "ansible-playbook"), "site.yml", *inventory]
    lowest = min(seconds(lambda: subprocess.run(floor, **run)) for _ in range(3))
    whole = min(seconds(lambda: subprocess.run(site, **run)) for _ in range(3))
    print(f"no-op site.yml {whole:.1f} s, the observation alone {lowest:.1f} s: {whole / lowest:.1f} times its floor")


def resolver() -> None:
    data = {name: load(name) for name in FILES}

    def ask(**stack: str) -> Callable[[], object]:
        wishes, _problems = declared(stack, data)
        question = Question(wishes, ["H100_SXM5_80"], "ubuntu2404-x86_64", {}, "2026-11-30")
        return lambda: resolve(question, data)

    def of_the_core(work: Callable[[], object]) -> float:
        started = time.process_time()
        work()
        return time.process_time() - started

    answer = min(of_the_core(ask()) for _ in range(5))
    refusal = min(of_the_core(ask(pytorch="2.7", cuda="12.1", nccl="2.19.3")) for _ in range(5))
    print(f"resolve, one core: {answer * 1000:.0f} ms an answer, {refusal * 1000:.0f} ms a refusal (aim: under 100 ms)")


if __name__ == "__main__":
    no_op_site()
    fleet_of_bundles()
    resolver()
