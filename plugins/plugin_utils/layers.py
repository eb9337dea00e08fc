"""Reads a layer as its files declare it: options with their values, resources, and the digest of its code.

Controller side, Ansible-aware: role defaults are templated here, at lowest precedence, with the variables of one host.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT, load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

#: In `needs` of data/layers.yml: a kernel and an init of its own.
OWN_SYSTEM = "own_system"


def layer_rows(group_names: Iterable[str], without: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The rows of data/layers.yml that are switched on for a host in these groups, in order.

    `without`: needs that the host does not meet; layers that have them are off.
    """
    groups = set(group_names)
    rows = [row for row in load("layers")["layers"] if row["layer"] in groups]
    return [row for row in rows if not set(without) & set(row["needs"])]


def unmet(observation: Mapping[str, Any], hardware: str) -> list[str]:
    """Needs that a host does not meet for good. `hardware`: trainrig_hardware; other than auto it says to go on."""
    container = (observation.get("machine") or {}).get("container")
    return [OWN_SYSTEM] if container and hardware == "auto" else []


def code_digests(row: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 of every file the layer's result depends on, by path relative to the collection."""
    names = [f"roles/{row['layer']}", *row["uses"]]
    files = sorted({path for name in names for path in _files(ROOT / name)})
    return {str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _files(path: Path) -> list[Path]:
    """The file itself, or every file below the directory."""
    inside = path.rglob("*") if path.is_dir() else [path]
    return [file for file in inside if file.is_file() and "__pycache__" not in file.parts]


class RoleReader:
    """One host's view of the roles: values templated with that host's variables."""

    def __init__(self, loader: Any, templar: Any, variables: Mapping[str, Any]) -> None:
        self._loader, self._templar, self._variables = loader, templar, variables

    def options(self, role: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The role's options by argument_specs key: (plain ones, secret ones), values as the role would see them."""
        specs = self._file(role, "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
        defaults = self._file(role, "defaults/main.yml")
        templar = self._templar.copy_with_new_env(available_variables={**defaults, **self._variables})
        values = {
            key: plain(templar.template(self._variables.get(key, defaults.get(key)))) for key in sorted(map(str, specs))
        }
        # A default is public: it stands in the role. Only what somebody set instead can hold a password.
        public = {key: plain(templar.template(value)) for key, value in defaults.items()}
        secret = {key for key in values if specs[key].get("no_log") and values[key] != public.get(key)}
        return (
            {key: value for key, value in values.items() if key not in secret},
            {key: values[key] for key in sorted(secret)},
        )

    def resources(self, role: str) -> dict[str, Any]:
        """The role's meta/resources.yml, templated: what it puts in place, by resource kind."""
        defaults = self._file(role, "defaults/main.yml")
        own = self._file(role, "vars/main.yml") if (ROOT / "roles" / role / "vars/main.yml").is_file() else {}
        templar = self._templar.copy_with_new_env(available_variables={**defaults, **self._variables, **own})
        resources: dict[str, Any] = plain(templar.template(self._file(role, "meta/resources.yml")["resources"]))
        return resources

    def _file(self, role: str, name: str) -> dict[str, Any]:
        path: Path = ROOT / "roles" / role / name
        content: dict[str, Any] = self._loader.load_from_file(str(path), trusted_as_template=True) or {}
        return content
