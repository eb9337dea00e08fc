"""A site's record of what its nodes reached: one file beside each inventory, read before it decides anything."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible_collections.trainrig.gpu.plugins.module_utils.judge import baseline

_HEAD = """\
# What these nodes reached, recorded by `playbooks/verify.yml -e baseline=record`; later runs are held to it.
---
"""


def place(variables: Mapping[str, Any]) -> Path | None:
    """Where the record of an inventory is; None where hosts were named on the command line only."""
    directory = variables.get("inventory_dir")
    return Path(str(directory)) / baseline.FILE if directory else None


def read(path: Path) -> dict[str, Any] | None:
    """The record, checked; None where there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise AnsibleActionFail(f"{path}: cannot be read: {error}. To fix it: repair or remove the file.") from error
    try:
        document = yaml.safe_load(text)
        baseline.check(document, str(path))
    except (yaml.YAMLError, baseline.BaselineError) as error:
        raise AnsibleActionFail(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    return dict(document)


def write(path: Path, made: Mapping[str, Any]) -> int:
    """Put the new rows in, in one step; those of other hosts and jobs stay. How many rows were new."""
    merged = baseline.merge(read(path), made)
    text = _HEAD + yaml.safe_dump(merged, sort_keys=False, default_flow_style=None, width=160)
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        raise AnsibleActionFail(
            f"{path}: cannot be written: {error}. To fix it: make its directory writable."
        ) from error
    return len(made["rows"])
