"""What runs on nodes runs under the oldest target Python, and reads the same there."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, probes, source

ROOT = Path(__file__).resolve().parents[4]
SCRIPT = """
import json, sys
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, fingerprints, probes, source
observed = {}
for directory in sys.argv[1:]:
    observed[directory] = build.build(source.BundleSource(directory).read(probes.table().values()))
live = build.build(source.LiveSource().read(probes.choose(probes.table(), ["uname", "memory", "lspci"]).values()))
print(json.dumps({"version": sys.version_info[:2], "bundles": observed, "kernel": live["os"]["kernel"]}))
"""


def oldest() -> str | None:
    # A pyenv shim is there for every version and runs only the chosen one, so it comes last and must prove itself.
    found = [*map(str, sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python"))), shutil.which("python3.8")]
    return next(
        (path for path in found if path and subprocess.run([path, "-V"], capture_output=True).returncode == 0), None
    )


def test_bundles_read_the_same_under_python_3_8():
    python = oldest()
    if python is None:
        pytest.skip("no Python 3.8 here: the oldest target Python is NOT tested")
    directories = sorted(map(str, (ROOT / "tests" / "cases" / "observe").glob("*/bundle")))
    done = subprocess.run(
        [python, "-s", "-c", SCRIPT, *directories],
        env={"PYTHONPATH": str(ROOT / "collections"), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["version"] == [3, 8]
    assert answer["kernel"]
    assert answer["bundles"] == {
        directory: build.build(source.BundleSource(directory).read(probes.table().values()))
        for directory in directories
    }
