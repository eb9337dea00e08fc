"""Reads from the user's indexes what metadata tells of PyTorch, with as few requests as will do."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import minor, numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.installer_settings import uv_settings
from ansible_collections.trainrig.gpu.plugins.plugin_utils.index_client import Client, ReadError, shown

from tools.refresh import index, torch_facts

PACKAGE = "torch"


class Reading:
    """What the indexes say: `offered` files and METADATA (`builds`) by release and label, and how METADATA was read."""

    def __init__(self, env: Mapping[str, str]) -> None:
        settings, self.warnings = uv_settings({}, env, sys.prefix)
        merged = {**env, **settings.env}
        merged = {name: value for name, value in merged.items() if value}
        uv = shutil.which("uv", path=sysconfig.get_path("scripts")) or shutil.which("uv")
        if not uv:
            raise ReadError("uv is not installed. To fix it: make setup")
        self.where = index.places(uv, settings.options, merged)
        self.client = Client(merged, [*self.where.indexes, *self.where.links])
        self.files: list[index.File] = []
        self.forms: dict[str, str] = {}
        self.offered: dict[tuple[str, str], list[index.File]] = {}
        self.builds: dict[tuple[str, str], torch_facts.Build] = {}
        self.ways: dict[str, int] = {}
        self.unread: list[index.File] = []

    def read_pages(self) -> None:
        """Ask every place which files it has."""
        pages = index.pages(self.client, self.where, PACKAGE)
        if not pages:
            asked = ", ".join(shown(place) for place in [*self.where.indexes, *self.where.links]) or "no index at all"
            fix = "set PIP_INDEX_URL (or UV_DEFAULT_INDEX) to an index that has it"
            raise ReadError(f"nothing of the package {PACKAGE} was found; asked: {asked}. To fix it: {fix}")
        self.forms = {page.place: page.form for page in pages}
        self.files = [file for page in pages for file in page.files]
        self.offered = torch_facts.wheels(self.files)

    def read_metadata(self, known: Iterable[str], lines: Mapping[str, Any], names: torch_facts.Names) -> None:
        """METADATA of the plain wheel of each release, and of the newest wheel of each other build of a line."""
        rows = set(known)
        wanted = [
            (one, "") for one in [*rows, *torch_facts.new_releases(rows, self.offered)] if (one, "") in self.offered
        ]
        labelled = {
            (minor(release), label): (release, label)
            for release, label in sorted(self.offered, key=lambda key: numbers(key[0]))
            if label in lines.get(minor(release), {})
        }
        for release, label in [*sorted(wanted, key=lambda key: numbers(key[0])), *labelled.values()]:
            self._read(release, label, names)

    def _read(self, release: str, label: str, names: torch_facts.Names) -> None:
        file = torch_facts.to_read(self.offered[release, label])
        if file is None:
            return
        found = index.metadata(self.client, file)
        if found is None:
            self.unread.append(file)
            return
        text, way = found
        self.ways[way] = self.ways.get(way, 0) + 1
        try:
            self.builds[release, label] = torch_facts.build(file, text, names)
        except ValueError as error:
            raise ReadError(f"{error}. To fix it: tell who runs {file.place}, or set another index") from error


def package_names(nccl: Mapping[str, Any], cudnn: Mapping[str, Any]) -> torch_facts.Names:
    """Key of data/torch.yml -> the packages that a wheel asks for by it; `nccl`, `cudnn`: those files of data/."""
    majors: Sequence[str] = list(nccl["wheels"])
    return {
        "nccl": [row["name"] for row in nccl["wheels"].values()],
        "cudnn": [row["name"] for row in cudnn["wheels"].values()],
        "cuda_runtime": ["nvidia-cuda-runtime", *(f"nvidia-cuda-runtime-cu{major}" for major in majors)],
        "cuda_toolkit": ["cuda-toolkit"],
        "triton": ["triton"],
    }
