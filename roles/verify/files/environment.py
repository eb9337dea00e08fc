"""Say what a Python environment really holds: packages, torch, NCCL, visible GPUs. One JSON document.

    python environment.py --output environment.json

With --output, standard output says in one line what can be run in it: {usable, ranks, backend, seed}.
Reads only. A torch that cannot be imported is an answer, not a crash.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import random
import re
import socket
import sys
from pathlib import Path
from typing import Any

VARIABLES = re.compile(r"^(LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|GLOO_\w+|(CUDA|NCCL|TORCH|OMP)_\w+)$")


def markers() -> dict[str, str]:
    """Return what environment markers of requirements (PEP 508) may ask about."""
    implementation = sys.implementation.version
    return {
        "implementation_name": sys.implementation.name,
        "implementation_version": f"{implementation.major}.{implementation.minor}.{implementation.micro}",
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    }


def packages() -> list[dict[str, Any]]:
    """Return every installed distribution; the same name twice is two entries."""
    found: list[dict[str, Any]] = []
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            location = str(distribution.locate_file(""))
            entry = {"name": name, "version": distribution.version, "location": location}
            if entry not in found:  # a directory may stand twice on sys.path, under a link and its target
                found.append(entry)
    return sorted(found, key=lambda one: (one["name"].lower(), one["location"]))


def loaded_library(name: str) -> str | None:
    """Return the file that this process really loaded a library from."""
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        path = line.split(maxsplit=5)[-1]
        if path.startswith("/") and Path(path).name.startswith(name + ".so"):
            return path
    return None


def torch_facts() -> dict[str, Any]:
    """Import torch and ask it; NCCL's version is the one of the library that was loaded."""
    facts: dict[str, Any] = {
        "version": None, "cuda": None, "nccl": None, "nccl_library": None, "cuda_available": None,
        "device_count": 0, "devices": [], "archs": [], "backends": [], "error": None,
    }  # fmt: skip
    try:
        import torch
        import torch.distributed as dist

        facts.update(version=torch.__version__, cuda=torch.version.cuda, cuda_available=torch.cuda.is_available())
        facts["archs"] = torch.cuda.get_arch_list() if torch.version.cuda else []
        # The names of these functions have stayed; one that a torch lacks says no, as bool() does.
        facts["backends"] = [name for name in ("gloo", "nccl") if getattr(dist, f"is_{name}_available", bool)()]
        if facts["cuda_available"]:
            facts["device_count"] = torch.cuda.device_count()
            for index in range(facts["device_count"]):
                major, minor = torch.cuda.get_device_capability(index)
                facts["devices"].append({"name": torch.cuda.get_device_name(index), "capability": f"{major}.{minor}"})
        if torch.version.cuda and dist.is_nccl_available():
            version = torch.cuda.nccl.version()
            facts["nccl"] = ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
            facts["nccl_library"] = loaded_library("libnccl")
    except Exception as error:  # whatever an import can raise is what we are here to report
        facts["error"] = f"{type(error).__name__}: {error}"[:500]
    return facts


def plan(document: dict[str, Any], ranks: int, backend: str) -> dict[str, Any]:
    """Say with how many ranks and over what to test: one a GPU over NCCL, else two over gloo."""
    torch = document["torch"]
    if backend == "auto":
        backend = "nccl" if torch["device_count"] and "nccl" in torch["backends"] else "gloo"
    own_choice = torch["device_count"] if backend == "nccl" else min(2, document["cores"])
    return {"usable": torch["error"] is None, "ranks": ranks or own_choice or 1, "backend": backend}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the document here; default: standard output")
    parser.add_argument(
        "--plan-ranks", type=int, default=0, help="ranks of the later stages; 0: as many as there are GPUs"
    )
    parser.add_argument("--plan-backend", choices=["auto", "nccl", "gloo"], default="auto")
    options = parser.parse_args()
    document = {
        "schema": 1,
        "script": "environment",
        "host": socket.gethostname(),
        "executable": sys.executable,
        "prefix": os.path.realpath(sys.prefix),  # as loaded libraries name it
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "markers": markers(),
        "packages": packages(),
        "torch": torch_facts(),
        "variables": {name: value for name, value in sorted(os.environ.items()) if VARIABLES.match(name)},
    }
    text = json.dumps(document, indent=1)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
        told = plan(document, options.plan_ranks, options.plan_backend)
        # For what several nodes do together, one of which decides for all.
        print(json.dumps({**told, "seed": random.SystemRandom().randrange(1, 2**31)}))
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
