"""The directory of an inventory that `fab adopt` makes and updates: what is there stays, each file is written whole."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt import inventory, known_hosts
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.inventory import Adopted
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.known_hosts import HostKey
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.yaml_lines import CannotEdit
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT

#: The inventories of the checkout that are no one's nodes.
COMMITTED = ("prod", "local", "node")
#: What a first inventory takes its settings and its lock from: nodes with GPUs, nodes without.
WITH_GPUS, WITHOUT = ROOT / "inventories" / "prod", ROOT / "inventories" / "node"


class Unusable(Exception):
    """The inventory cannot be used as it is; the text names file and fix."""


class InventoryFiles:
    """hosts.yml, known_hosts, and the settings and lock of a first inventory."""

    def __init__(self, name: str) -> None:
        """``name``: of a directory in inventories/, or a path."""
        here = ROOT / "inventories"
        self.directory = Path(name).expanduser().absolute() if "/" in name else here / name
        self.name = self.directory.name
        if not re.match(r"[A-Za-z0-9][A-Za-z0-9_.-]*$", self.name):
            raise Unusable(f"{name!r} is no name for an inventory: letters, digits, dash, dot and underscore")
        if self.directory.parent == here and self.name in COMMITTED:
            raise Unusable(f"inventories/{self.name} is an example to copy; choose another name")
        self.hosts, self.known_hosts = self.directory / "hosts.yml", self.directory / "known_hosts"
        self.data = self._read()

    def shown(self) -> str:
        """The directory as a person types it."""
        return os.path.relpath(self.directory) if self.directory.is_relative_to(Path.cwd()) else str(self.directory)

    def _read(self) -> Any:
        if not self.hosts.exists():
            return None
        try:
            return yaml.safe_load(self.hosts.read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeError, yaml.YAMLError) as error:
            raise Unusable(f"{self.hosts} is not YAML: {' '.join(str(error).split())}") from error

    def keys(self) -> list[HostKey]:
        return known_hosts.keys(self._known())

    def _known(self) -> str:
        return self.known_hosts.read_text(encoding="utf-8") if self.known_hosts.exists() else ""

    def write_keys(self, new: Iterable[HostKey], gone: Iterable[str] = ()) -> None:
        _write(self.known_hosts, known_hosts.with_keys(self._known(), new, gone))

    def write_hosts(self, adopted: Sequence[Adopted]) -> bool:
        """Put the nodes in hosts.yml; True where that changed anything."""
        fresh = not self.hosts.exists()
        text = inventory.new_text() if fresh else self.hosts.read_text(encoding="utf-8")
        data = yaml.safe_load(text) or {}
        by_hand = "\n".join(f"  {one.name}: {inventory.settings(one, {})}" for one in adopted)
        try:
            after, expected = inventory.merged(text, data, adopted)
            same = yaml.safe_load(after) == expected
        except (CannotEdit, yaml.YAMLError) as error:
            raise Unusable(
                f"{self.hosts} is written in a way that cannot be edited here ({error}); put this into it:\n{by_hand}"
            ) from error
        if not same:
            raise Unusable(f"{self.hosts} is written in a way that cannot be edited here; put this into it:\n{by_hand}")
        return _write(self.hosts, after)

    def settle(self, gpus: bool) -> str | None:
        """Settings and lock where the inventory has none yet; which example they are from."""
        settings = self.directory / "group_vars"
        if any((settings / name).exists() for name in ("all.yml", "all.yaml", "all")):
            return None
        model = WITH_GPUS if gpus else WITHOUT
        for path in sorted(model.rglob("*"), key=lambda path: path.name == "all.yml"):
            target = self.directory / path.relative_to(model)
            if path.is_file() and path.name != "hosts.yml" and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        return model.name

    def has_lock(self) -> bool:
        """Whether there is a lock that was made with the pools of these hosts in sight."""
        path = self.directory / "stack.lock.yml"
        if not path.is_file():
            return False
        declared = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("declared") or []
        pools = {one.get("trainrig_pool") for one in inventory.hosts(self._read()).values()} - {None}
        return pools <= {one.get("pool") for one in declared}


def _write(path: Path, text: str) -> bool:
    """Whole or not at all: a run that is killed leaves the old file."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    if not text and not path.exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".", delete=False) as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    Path(stream.name).chmod(mode)
    Path(stream.name).replace(path)
    return True
