"""No-op site.yml on lab nodes, its floor, and a straightforward playbook for the same state: part of make bench.

    tests/bench/nodes.py [NODES]      eight nodes of Debian 13 by default; needs what `make lab` needs

The layers are sources, driver, cuda and nccl, from a simulated NVIDIA repository. All are measured in one run, one
after the other, the best of three each. The floor is what no tool can do without: `ssh NODE true` on all nodes at once,
and the observation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT)]

from tests.nodes.system_layers import inventory
from tests.support.simulated_node_repository import simulated_node_repository
from tools.lab import machine, network
from tools.lab.lab import Lab
from tools.lab.names import NodeSpec

BIN = ROOT / ".venv/bin"
LAYERS = ("sources", "driver", "cuda", "nccl")
FILES = (
    "/etc/apt/sources.list.d/trainrig-lock.sources",
    "/etc/apt/preferences.d/00-trainrig-lock",
    "/etc/modprobe.d/trainrig-nvidia.conf",
    "/etc/nccl.conf",
)
TRIES = 3


def main(count: int) -> None:
    if reason := machine.missing():
        print(f"no-op site.yml on {count} nodes: left out, {reason}")
        return
    lab = Lab(f"b{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="trainrig-bench-") as directory:
        place = Path(directory)
        try:
            lab.up([NodeSpec(number, "debian13") for number in range(1, count + 1)], place / "lab")
            with simulated_node_repository(
                place / "repository", str(network.addresses().cache), ("debian13",), ("570",)
            ) as repository:
                measure(lab, place, repository)
        finally:
            lab.clean()


def measure(lab: Lab, place: Path, repository: Any) -> None:
    names = [node.name for node in lab.nodes]
    at = inventory(lab, place / "inventory", dict.fromkeys(names, LAYERS), repository)
    play("playbooks/lock.yml", at)
    first = seconds(lambda: play("site.yml", at))
    variables = place / "variables.json"
    variables.write_text(json.dumps(state(lab, at, repository)), encoding="utf-8")
    by_hand = ("tests/bench/straightforward.yml", at, "-e", f"@{variables}")
    play(*by_hand)  # the first run is not measured: nothing may be left for it to do
    times = {
        "ssh true": best(lambda: ssh_true(lab)),
        "observation": best(lambda: ansible("ansible", "all", "-i", str(at), "-m", "trainrig.gpu.observe", "-b")),
        "site.yml": best(lambda: unchanged("site.yml", at)),
        "straightforward": best(lambda: unchanged(*by_hand)),
    }
    floor = times["ssh true"] + times["observation"]
    print(f"{len(names)} nodes, layers {' '.join(LAYERS)}; first run of site.yml {first:.0f} s; then, nothing to do:")
    print("  " + ", ".join(f"{name} {value:.1f} s" for name, value in times.items()))
    print(f"  site.yml takes {times['site.yml'] / floor:.1f} times its floor (aim: at most 2),")
    slower = times["straightforward"] / times["site.yml"]
    print(f"  the straightforward playbook {slower:.1f} times site.yml (aim: at least 5)")


def state(lab: Lab, at: Path, repository: Any) -> dict[str, Any]:
    """What site.yml put on a node, for the other playbook to put there too."""
    (system,) = yaml.safe_load((at / "stack.lock.yml").read_text(encoding="utf-8"))["systems"]
    packages = {row["name"]: row["version"] for row in system["packages"] if row["pin"] and row["layer"] in LAYERS}
    root = Path(f"/proc/{lab.nodes[0].leader}/root")
    return {
        "bench_packages": packages,
        "bench_files": {path: (root / path.lstrip("/")).read_text(encoding="utf-8") for path in FILES},
        "bench_key": str(repository.keyring),
        "bench_nvcc": "/usr/local/cuda/bin/nvcc",
    }


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def best(work: Callable[[], object]) -> float:
    return min(seconds(work) for _ in range(TRIES))


def ssh_true(lab: Lab) -> None:
    def one(name: str) -> None:
        subprocess.run(["ssh", "-F", f"{lab.ssh}/config", name, "true"], check=True, capture_output=True)

    with ThreadPoolExecutor(len(lab.nodes)) as pool:
        list(pool.map(one, [node.name for node in lab.nodes]))


def play(name: str, at: Path, *words: str) -> str:
    return ansible("ansible-playbook", name, "-i", str(at), *words)


def unchanged(name: str, at: Path, *words: str) -> None:
    output = play(name, at, *words)
    recap = [line for line in output.splitlines() if "changed=" in line]
    if not recap or any("changed=0 " not in line for line in recap):
        sys.exit(f"{name}: not a run without work:\n{output}")


def ansible(program: str, *words: str) -> str:
    done = subprocess.run(
        [str(BIN / program), *words],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{program} {' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
