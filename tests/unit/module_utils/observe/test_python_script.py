"""The script of the python_env probe, under this interpreter with simulated torch packages."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import python_script

WORKING = """
__version__ = "9.9.0+cu999"
class version:
    cuda = "99.9"
class distributed:
    is_available = is_nccl_available = staticmethod(lambda: True)
class cuda:
    class nccl:
        version = staticmethod(lambda: (9, 8, 7))
    get_arch_list = staticmethod(lambda: ["sm_90", "sm_100"])
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 2)
print("a package that prints on import")
"""


@pytest.fixture
def run(tmp_path):
    def look(torch: str | None, seconds: int = 30) -> dict:
        if torch is not None:
            (tmp_path / "torch").mkdir()
            (tmp_path / "torch" / "__init__.py").write_text(torch)
            (tmp_path / "torch-9.9.0.dist-info").mkdir()
            (tmp_path / "torch-9.9.0.dist-info" / "METADATA").write_text("Name: torch\nVersion: 9.9.0+cu999\n")
        script = python_script.SCRIPT.replace(f"torch({python_script.TIMEOUT_S})", f"torch({seconds})")
        assert f"torch({seconds})" in script
        if torch is not None:
            # The login shell and pip are slow and have nothing to do with torch.
            script = script.replace("login_environment(),", "{},").replace(": pip_config(),", ": None,")
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return look


def test_a_torch_that_works(run):
    answer = run(WORKING)
    assert answer["interpreter"] == sys.executable
    assert {"name": "torch", "version": "9.9.0+cu999"} in answer["packages"]
    torch = answer["torch"]
    assert (torch["version"], torch["cuda"], torch["nccl"]) == ("9.9.0+cu999", "99.9", "9.8.7")
    assert (torch["archs"], torch["cuda_available"], torch["device_count"]) == (["sm_90", "sm_100"], True, 2)
    assert torch["error"] is None


def test_a_torch_that_cannot_be_imported(run):
    torch = run("raise ImportError('libcudart.so.99: cannot open shared object file')")["torch"]
    assert torch["error"] == "ImportError: libcudart.so.99: cannot open shared object file"
    assert torch["version"] is None


def test_a_torch_that_dies(run):
    torch = run("import os; os.abort()")["torch"]
    assert torch["error"].startswith("import of torch ended with status -6")


def test_a_torch_that_hangs(run):
    torch = run("import time; time.sleep(600)", seconds=1)["torch"]
    assert torch["error"] == "import of torch did not finish within 1 s"


def test_no_torch(run):
    # This interpreter may have one of its own; the simulated directory has none.
    answer = run(None)
    names = {entry["name"].lower() for entry in answer["packages"]}
    assert (answer["torch"] is None) is ("torch" not in names)


def test_a_devices_question_that_fails_is_an_error_and_not_an_absence(run):
    torch = run(WORKING.replace("staticmethod(lambda: 2)", "staticmethod(lambda: 1 / 0)"))["torch"]
    assert torch["version"] == "9.9.0+cu999"
    assert torch["error"].startswith("ZeroDivisionError")
