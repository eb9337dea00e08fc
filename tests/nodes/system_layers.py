"""Nodes with the layers of the system in place: an inventory and its lock, converged once; drifts start from there.

    inventory(lab, place, {"node-1": LIGHT, "node-3": FULL}, repository)     the files of an inventory
    equip(node, kernel)                                                      eight H100, the locked driver loaded

FULL is a whole GPU machine of Debian 13, as far as a container can show one; LIGHT is a node without a GPU.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support import simulated_hardware as simulated
from tests.support.simulated_node_repository import SimulatedNodeRepository
from tools.lab.lab import Lab
from tools.lab.node import Node

FULL = ("sources", "driver", "nvlink", "cuda", "nccl")
LIGHT = ("nccl", "pytorch")
DRIVER, OLDER, NEWER = "570.133.20", "570.124.06", "570.211.01"
STACK = {
    "origin": "nvidia",
    "driver": DRIVER,
    "cuda": "12.8",
    "nccl": "2.27.5",
    "gpus": ["H100_SXM5_80"],
    "platforms": ["debian13-x86_64"],
}
_LOCK = {
    "index_date": "2026-11-30T00:00:00Z",
    "profiles": [
        {"name": "cu128", "pytorch": "2.10.0", "variant": "cu128", "python": ["3.13"]},
        {"name": "cpu", "pytorch": "2.13.0", "variant": "cpu", "python": ["3.11"]},
    ],
}
#: Variables of a host: with and without a GPU; the latter is no peer of the former.
_HOSTS = {
    FULL: {"trainrig_hardware": "present"},
    LIGHT: {"trainrig_pool": "cpu", "trainrig_stack": {"accelerator": "cpu"}},
}
_SETTINGS = {
    "ansible_become": True,
    "trainrig_prefix": "/opt/trainrig",
    "trainrig_stack": STACK,
    "trainrig_lock": _LOCK,
    "cuda_path": True,
    "driver_module_options": {"NVreg_RestrictProfilingToAdminUsers": 0},
}


def inventory(
    lab: Lab, place: Path, layers: Mapping[str, Sequence[str]], repository: SimulatedNodeRepository, **settings: Any
) -> Path:
    """These nodes of the lab, each in the groups of its layers: FULL and LIGHT come with their hosts' variables."""
    if not place.exists():
        shutil.copytree(lab.inventory, place, ignore=shutil.ignore_patterns("stack.lock.yml", "requirements"))
    own = {"trainrig_repositories": repository.settings, "report_directory": str(place.parent / "reports")}
    (place / "group_vars/all.yml").write_text(yaml.safe_dump({**_SETTINGS, **own, **settings}), encoding="utf-8")
    nodes = yaml.safe_load((lab.inventory / "nodes.yml").read_text(encoding="utf-8"))["all"]
    hosts = {name: {**nodes["hosts"][name], **_HOSTS.get(tuple(given), {})} for name, given in layers.items()}
    groups = {
        layer: {"hosts": {name: None for name, given in layers.items() if layer in given}} for layer in (*FULL, *LIGHT)
    }
    (place / "nodes.yml").write_text(yaml.safe_dump({"all": {**nodes, "hosts": hosts}, **groups}), encoding="utf-8")
    return place


def equip(node: Node, kernel: str) -> None:
    """The running node has the GPUs that the stack names, and the locked driver in its kernel."""
    simulated.equip(node, simulated.hardware(driver=DRIVER, flavour="", kernel=kernel))


def reasons(output: str, host: str) -> dict[str, list[str]]:
    """What plan.yml printed of a host: layer -> the lines of its reasons."""
    found: dict[str, list[str]] = {}
    rows: list[str] = []
    block = re.search(rf"^{re.escape(host)}\n((?:  .*\n)+)", output, re.MULTILINE)
    for line in block[1].splitlines() if block else ():
        if re.match(r"  \w", line):  # of a layer, or of what is no layer: why the profile is chosen, the verification
            rows = []
            if re.match(r"  \w+ +(clean|dirty|deferred)\b", line):
                found[line.split()[0]] = rows
        else:
            rows.append(line.strip())
    return found
