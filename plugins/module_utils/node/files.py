"""Writes on the node that a crash cannot cut in two: files, links, and what must be on disk before them."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import uuid
from pathlib import Path


def sha256(text: str) -> str:
    """Hex digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """The file is either the old one or the whole new one, also after a power failure."""
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def link_atomically(link: Path, target: str) -> None:
    """The link names either the old or the new target, never nothing. One caller at a time."""
    for left_behind in link.parent.glob(f".{link.name}.*"):
        if left_behind.is_symlink():
            left_behind.unlink()
    temporary = link.with_name(f".{link.name}.{uuid.uuid4().hex}")
    temporary.symlink_to(target)
    try:
        temporary.replace(link)
    except OSError:
        temporary.unlink()
        raise
    sync_directory(link.parent)


def sync_directory(path: Path) -> None:
    """Names that were changed in this directory are on disk afterwards."""
    descriptor = os.open(str(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(path: Path) -> None:
    """Everything below the path is on disk afterwards: one call instead of one for each of ten thousand files."""
    descriptor = os.open(str(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError, AttributeError):
            if ctypes.CDLL(None).syncfs(descriptor) == 0:
                return
        os.sync()
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Remove a directory that may be there."""
    if path.exists():
        shutil.rmtree(str(path))
