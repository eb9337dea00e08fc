"""A small data directory, simulated wheels of PyTorch and a simulated index; nothing of this machine's settings."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.simulated_index import SimulatedIndex, wheel
from tools import data_refresh

DATA = Path(__file__).resolve().parents[3] / "data"
TORCH = """\
# A comment at the head.
---
schema: 1
sources:
  metadata: "METADATA of the simulated wheels of this test"
variants:
  cpu: {driver_min: null, source: [metadata]}

lines:
  "2.13":
    cu126: {nccl: "2.29.3", cudnn: "9.10.2.21"}
    cu130: {default: true, nccl: "2.29.7", cudnn: "9.20.0.48"}
    source: [metadata]
  "2.14":
    cu130: {default: true, nccl: "2.30.7", cudnn: "9.24.0.43"}
    source: [metadata]  # a comment beside a value

releases:
  "2.13.0":
    date: "2026-07-08"
    requires_python: ">=3.10"
    python: {x86_64: ["3.10", "3.11"], aarch64: ["3.10", "3.11"]}
    default: {variant: cu130, nccl: "2.29.7", cudnn: "9.20.0.48", cuda_runtime: "13.0.96", triton: "==3.7.1"}
    aarch64: cuda
    source: [metadata]
  # A comment between rows.
  "2.14.1":
    date: "2026-09-30"
    requires_python: ">=3.10"
    python: {x86_64: ["3.10", "3.11"], aarch64: ["3.10", "3.11"]}
    default: {variant: cu130, nccl: "2.30.7", cudnn: "9.24.0.43", cuda_toolkit: "13.0.3", triton: "~=3.8.0"}
    aarch64: cuda
    source: [metadata]

wheels: {}
"""
#: What a simulated release pins, as data has it.
PINS = {
    "2.13.0": [
        "nvidia-nccl-cu13 (==2.29.7)",
        "nvidia-cudnn-cu13 (==9.20.0.48)",
        "nvidia-cuda-runtime-cu13 (==13.0.96)",
    ],
    "2.14.1": ["nvidia-nccl-cu13==2.30.7", "nvidia-cudnn-cu13==9.24.0.43", "cuda-toolkit[cudart,nvrtc]==13.0.3"],
}
TRITON = {"2.13.0": "triton==3.7.1", "2.14.1": "triton~=3.8.0"}


class Place:
    """Where one refresh happens."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.data, self.wheels = root, root / "data", root / "wheels"
        self.torch = self.data / "torch.yml"
        self._env, self._capsys = monkeypatch, capsys
        self._opened: list[SimulatedIndex] = []
        (self.data / "schemas").mkdir(parents=True)
        for name in ("nccl.yml", "cudnn.yml", "schemas/torch.schema.json"):
            shutil.copy(DATA / name, self.data / name)
        self.torch.write_text(TORCH, encoding="utf-8")

    def release(self, version: str, *, pins=None, pythons=("3.10", "3.11"), floor=">=3.10", directory=None) -> None:
        """Its simulated wheels, for both machines."""
        for python in pythons:
            for machine in ("x86_64", "aarch64"):
                tag = "cp" + python.replace(".", "")
                marker = f' ; platform_system == "Linux" and platform_machine == "{machine}"'
                asked = [*(pins if pins is not None else PINS[version]), *([] if pins else [TRITON[version]])]
                lines = [f"Requires-Python: {floor}\n", "Requires-Dist: nvidia-nccl-cu13==1.0.0; extra == 'other'\n"]
                lines += [f"Requires-Dist: {one}{marker}\n" for one in asked]
                full = f"{tag}-{tag}-manylinux_2_28_{machine}"
                wheel(directory or self.wheels, "torch", version, tag=full, metadata="".join(lines))

    def all_releases(self) -> None:
        for version in PINS:
            self.release(version)

    def serve(self, directory: Path | None = None, **how) -> SimulatedIndex:
        self._opened.append(SimulatedIndex(directory or self.wheels, **how))
        return self._opened[-1]

    def index(self, **how) -> SimulatedIndex:
        """A simulated index that the user's settings name."""
        opened = self.serve(**{"beside": True, **how})
        self._env.setenv("PIP_INDEX_URL", opened.url)
        return opened

    def refresh(self, *arguments: str) -> tuple[int, str]:
        """(exit status, everything that was printed)."""
        status = data_refresh.main(["--data", str(self.data), *arguments])
        captured = self._capsys.readouterr()
        return status, captured.out + captured.err

    def change(self, old: str, new: str) -> None:
        text = self.torch.read_text(encoding="utf-8")
        assert text.count(old) == 1, "the test must change one place"
        self.torch.write_text(text.replace(old, new), encoding="utf-8")

    def close(self) -> None:
        for index in self._opened:
            index.close()


@pytest.fixture(scope="session")
def uv_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("uv-cache")


@pytest.fixture
def place(tmp_path, monkeypatch, capsys, uv_cache):
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "SSL_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "etc-xdg"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("UV_CACHE_DIR", str(uv_cache))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    made = Place(tmp_path, monkeypatch, capsys)
    yield made
    made.close()
