"""The lock that is committed beside an inventory: read, refused where it is not whole, written in one order."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import document
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.answer import FILES
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import message
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import revision

_HEADER = """\
# What this inventory's machines get, exactly. Made by playbooks/lock.yml; do not edit, the digest would not fit.
# Profiles in order of preference; a machine gets the first that meets the declaration and fits its hardware.
"""
#: Beside a lock: the one that it replaced, with its requirement files.
PREVIOUS = "previous"
#: The files of data/ that a lock is made from.
LOCKED_DATA = (*FILES, "origins", "families")


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


def fresh_lock(inventory_directory: str, pool: str, stack: Mapping[str, Any], settings: Any) -> dict[str, Any]:
    """The lock, where it was made from this declaration, these settings and today's data/; LockError otherwise."""
    lock = read_lock(inventory_directory)
    where = os.path.relpath(Path(inventory_directory) / document.NAME)
    found = document.stale(lock, pool, stack, settings, revision(LOCKED_DATA), where)
    if found:
        raise LockError("\n".join(message(problem) for problem in found))
    return lock


def lock_place(variables: Mapping[str, Any]) -> str:
    """The directory of the lock that counts for a host: beside its inventory, or where trainrig_lock_directory says."""
    inventory = str(variables["inventory_dir"])
    named = variables.get("trainrig_lock_directory")
    return os.path.normpath(Path(inventory) / Path(str(named)).expanduser()) if named else inventory


def other_lock(directory: str, pool: str, stack: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A lock that is not the inventory's own, and what it was made for in this pool, which then counts as declared.

    `stack` decides where hosts of one pool were declared differently. LockError where nothing fits.
    """
    where = os.path.relpath(Path(directory) / document.NAME)
    if not (Path(directory) / document.NAME).is_file():
        fix = "lock.yml keeps there what it replaces; take an older lock and its requirements/ from version control"
        raise LockError(f"{where}: there is no lock to go back to. To fix it: {fix}.")
    lock = read_lock(directory)
    rows = [row["stack"] for row in lock["declared"] if row["pool"] == pool]
    found = [row for row in rows if row == document.said(stack)] or rows
    if len(found) != 1:
        text = f"declared: pool {pool}: the lock was made for {len(found)} declarations of this pool"
        raise LockError(f"{where}: {text}. To fix it: use a lock that has one for each pool of the inventory.")
    return lock, dict(found[0])


def keep(directory: Path) -> bool:
    """Keep the lock that is about to be replaced in `previous`. What is not whole is not worth going back to."""
    lock, texts = present(directory)
    if not lock or document.problems(lock, texts):
        return False
    kept = directory / PREVIOUS
    kept.mkdir(exist_ok=True)
    stale = set(present(kept)[1]) - set(texts)
    write(kept, {**texts, document.NAME: (directory / document.NAME).read_text(encoding="utf-8")}, stale)
    return True


def read_requirements(inventory_directory: str, profile: Mapping[str, Any]) -> str:
    """The text of a profile's requirement file."""
    path = Path(inventory_directory) / str(profile["requirements"]["file"])
    return path.read_text(encoding="utf-8")


def _texts(lock: Any, directory: Path) -> dict[str, str]:
    """The requirement files the lock names and that are there, by the name the lock uses."""
    profiles = lock.get("profiles") if isinstance(lock, dict) else None
    names = [
        profile["requirements"]["file"]
        for profile in (profiles if isinstance(profiles, list) else [])
        if isinstance(profile, dict) and isinstance(profile.get("requirements"), dict)
    ]
    return {name: (directory / name).read_text(encoding="utf-8") for name in names if (directory / name).is_file()}


def present(directory: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The lock that is there and the requirement files that are its own; empty where it cannot be read.

    Other files in requirements/ are somebody else's.
    """
    try:
        lock = yaml.safe_load((directory / document.NAME).read_text(encoding="utf-8"))
        texts = _texts(lock, directory)
    except (OSError, UnicodeDecodeError, TypeError, yaml.YAMLError):
        return {}, {}
    usable = not any(found["rule"] in ("lock.unreadable", "lock.schema") for found in document.problems(lock, texts))
    return (lock if usable else {}), texts


def written(lock: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, str]:
    """Every file of a lock, by its name."""
    text: str = yaml.dump(lock, Dumper=_Dumper, sort_keys=False, width=10**6, default_flow_style=None)
    return {document.NAME: _HEADER + text, **texts}


def differ(directory: Path, files: Mapping[str, str]) -> bool:
    """Whether writing would change anything."""
    return any(
        not (directory / name).is_file() or (directory / name).read_text("utf-8") != files[name] for name in files
    )


def write(directory: Path, files: Mapping[str, str], stale: Iterable[str]) -> None:
    """The lock last: while it is the old one, its hashes say that the files beside it are not its own.

    One writer at a time. LockError where the place cannot be written.
    """
    try:
        place = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(place, fcntl.LOCK_EX)
            for name in sorted(files, key=lambda name: name == document.NAME):
                _replace((directory / name).resolve(), files[name])
            for name in stale:
                (directory / name).unlink(missing_ok=True)
        finally:
            os.close(place)
    except OSError as error:
        text = f"{error.filename or directory}: cannot be written: {error.strerror}"
        raise LockError(f"{text}. To fix it: make the inventory's directory writable, or copy it elsewhere") from None


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as new:
        new.write(text)
    os.chmod(new.name, 0o644)
    os.replace(new.name, path)


class _Dumper(yaml.SafeDumper):
    """Lists indented below their key; short collections and rows of plain values on one line, the others not."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> Any:
        row = isinstance(mapping, dict) and "sha256" in mapping  # a package: there are hundreds
        long = isinstance(mapping, dict) and len(mapping) > 4 and not row
        return super().represent_mapping(tag, mapping, False if long else flow_style)
