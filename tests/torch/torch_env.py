"""What the tests on real torch share: the interpreter, the role's scripts, the planted faults, the judge."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.node import Context, judge
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT, load

FILES = ROOT / "roles" / "verify" / "files"
FAULT = Path(__file__).parent / "simulated_fault.py"
VARIABLE = "TRAINRIG_TEST_TORCH_PYTHON"
PYTHON = os.environ.get(VARIABLE, "")
needs_torch = pytest.mark.skipif(not PYTHON, reason=f"{VARIABLE} names no Python with torch")


def script(name):
    """Import one of the role's stdlib-only scripts."""
    sys.path.insert(0, str(FILES))
    try:
        spec = importlib.util.spec_from_file_location(name, FILES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(FILES))


def stage(directory, name, command, seconds, fault=""):
    """Run one stage as the role does; return {run, document}."""
    document, report = directory / f"{name}.json", directory / f"{name}.run.json"
    environment = {**os.environ, "SIMULATED_FAULT": fault}
    bounded = [PYTHON, str(FILES / "bounded.py"), f"--seconds={seconds}", f"--report={report}", "--", PYTHON]
    subprocess.run([*bounded, *command, f"--output={document}"], env=environment, check=False, timeout=seconds + 60)
    read = json.loads(document.read_text()) if document.exists() else None
    return {"run": json.loads(report.read_text()), "document": read, "asked": {}}


def collectives(directory, seconds=60, fault="", launcher=None, options=()):
    launch = [*(launcher or [str(FILES / "loopback_torchrun.py")]), "--nproc-per-node=2"]
    wrapped = [str(FAULT), str(FILES / "collectives.py")] if fault else [str(FILES / "collectives.py")]
    sizes = ["--min-bytes=4K", "--max-bytes=64K", "--iterations=3", "--warmup=1", "--backend=gloo"]
    return stage(directory, "collectives", [*launch, *wrapped, *sizes, *options], seconds, fault)


def ddp_options(**changes):
    """The options of ddp_check.py as its parser gives them."""
    options = {
        "nproc": 2, "budget": 240.0, "backend": "gloo", "seed": 5, "dataset_size": 1009, "throughput_seconds": 0.0,
        "throughput_width": 0, "throughput_batch": 0, "python": PYTHON, "smoke": FILES / "ddp_smoke.py", "output": None,
        "nodes": 1, "all_ranks": 0,
    }  # fmt: skip
    return argparse.Namespace(**{**options, **changes})


def judged(**outputs):
    """What the judge says of a node without GPUs: the result and {rule: severity}."""
    context = Context("vm", {"nvidia": {"gpus": []}}, None, None, load("gpus"), load("thresholds"))
    result = judge(outputs, context)
    return result, {one["rule"]: one["severity"] for one in result["findings"]}
