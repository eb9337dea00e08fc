"""Reads the lock that is committed beside an inventory, and refuses one that is not whole."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import document
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import message


class LockError(Exception):
    """The lock is missing, unreadable or not whole; the text names file, key, value and the fix."""


@lru_cache(maxsize=None)
def read_lock(inventory_directory: str) -> dict[str, Any]:
    """The lock of an inventory. Callers share the result: do not change it."""
    path = Path(inventory_directory) / document.NAME
    where = os.path.relpath(path)
    try:
        lock = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        fix = f"make it with: ansible-playbook playbooks/lock.yml -i {os.path.relpath(inventory_directory)}"
        raise LockError(f"{where}: there is no lock beside the inventory. To fix it: {fix}.") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LockError(f"{where}: cannot be read as YAML: {error}") from error
    try:
        texts = _texts(lock, path.parent)
    except (OSError, UnicodeDecodeError, TypeError) as error:
        raise LockError(f"{where}: a requirement file it names cannot be read: {error}") from error
    found = document.problems(lock, texts, where)
    if found:
        raise LockError("\n".join(message(problem) for problem in found))
    return dict(lock)


def read_requirements(inventory_directory: str, profile: Mapping[str, Any]) -> str:
    """The text of a profile's requirement file."""
    return (Path(inventory_directory) / profile["requirements"]["file"]).read_text(encoding="utf-8")


def _texts(lock: Any, directory: Path) -> dict[str, str]:
    """The requirement files the lock names and that are there, by the name the lock uses."""
    profiles = lock.get("profiles") if isinstance(lock, dict) else None
    names = [
        profile["requirements"]["file"]
        for profile in (profiles if isinstance(profiles, list) else [])
        if isinstance(profile, dict) and isinstance(profile.get("requirements"), dict)
    ]
    return {name: (directory / name).read_text(encoding="utf-8") for name in names if (directory / name).is_file()}
