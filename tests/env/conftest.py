"""A place to build environments in: own home, own cache, own wheels; nothing of this machine's settings reaches it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.node.environment_builder import Builder
from ansible_collections.trainrig.gpu.plugins.module_utils.node.uv import Problem

from tests.support.simulated_index import SimulatedIndex, locked, wheel

ROOT = Path(__file__).resolve().parents[2]
UV = shutil.which("uv", path=sysconfig.get_path("scripts")) or shutil.which("uv")
PYTHON = str(Path(sys.executable).resolve())


class Place:
    """One prefix with its wheels; `ensure` is one run of the module."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.prefix = root / "prefix"
        self.wheels = root / "wheels"
        self.link = self.prefix / "env"
        self.store = self.prefix / "envs"
        self.requirements = root / "requirements.txt"
        self.warnings: list[str] = []
        self.options = {
            "path": str(self.link),
            "store": str(self.store),
            "requirements": str(self.requirements),
            "python": PYTHON,
            "uv": UV,
            "keep": 1,
            "index_url": None,
            "extra_index_urls": [],
            "find_links": [str(self.wheels)],
            "torch_index": None,
            "timeout": 0,
            "cache": None,
            "compile_bytecode": "never",
            "download_bytes": 0,
            "installed_bytes": 0,
            "lock_timeout": 60,
        }

    def wheel(self, name, version, **more):
        return wheel(self.wheels, name, version, **more)

    def lock(self, *wheels):
        self.requirements.write_text(locked(*wheels), encoding="utf-8")

    def ensure(self, check_mode=False, **options):
        return Builder({**self.options, **options}, check_mode, self.warnings.append).run()

    def failure(self, **options):
        with pytest.raises(Problem) as caught:
            self.ensure(**options)
        return caught.value.failure

    def python(self, code, python=None):
        command = [python or str(self.link / "bin" / "python"), "-c", code]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    @property
    def target(self):
        return self.link.resolve()

    def site(self, target=None):
        return next((target or self.target).glob("lib/python*/site-packages"))

    def stored(self):
        return sorted(path.name for path in self.store.iterdir() if path.name != ".lock")

    def background(self, code, **options):
        """The same module run as a process of its own; `code` runs before it."""
        program = (
            "import json, sys\n"
            f"{code}\n"
            "from ansible_collections.trainrig.gpu.plugins.module_utils.node.environment_builder import Builder\n"
            "print(json.dumps(Builder(json.loads(sys.argv[1]), False, print).run()))\n"
        )
        env = {**os.environ, "PYTHONPATH": str(ROOT / "collections")}
        command = [sys.executable, "-c", program, json.dumps({**self.options, **options})]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("uv-cache")


@pytest.fixture
def place(tmp_path, monkeypatch, shared_cache):
    if UV is None:
        pytest.skip("no uv beside this Python")
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "SSL_", "PYTHON")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "etc-xdg"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(shared_cache))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    return Place(tmp_path)


@pytest.fixture
def simulated_index():
    """Makes indexes; all are closed at the end."""
    opened = []

    def make(directory, **how):
        opened.append(SimulatedIndex(directory, **how))
        return opened[-1]

    yield make
    for index in opened:
        index.close()
