"""Finds out whether a process still uses an environment, so that nobody's running environment is removed."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import List

_LINKS = ("exe", "cwd", "root")


def is_used(directory: Path) -> bool:
    """Does any process need this environment?"""
    return _is_locked(directory) or bool(processes_using(directory))


def _is_locked(directory: Path) -> bool:
    """Every Python of an environment of ours holds a shared lock on its directory; other users' processes too."""
    try:
        descriptor = os.open(str(directory), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks; the processes themselves are asked
    finally:
        os.close(descriptor)
    return False


def processes_using(directory: Path, proc: Path = Path("/proc")) -> List[int]:
    """Pids with a mapped file, program, working directory or command below `directory`.

    Other users' processes cannot be looked into without root; they are asked by their command line only.
    """
    prefix = str(directory.resolve()) + "/"
    own = os.getpid()
    return sorted(
        int(entry.name)
        for entry in proc.iterdir()
        if entry.name.isdigit() and int(entry.name) != own and _uses(entry, prefix)
    )


def _uses(process: Path, prefix: str) -> bool:
    for name in _LINKS:
        try:
            target = os.readlink(str(process / name))
        except OSError:
            continue
        if (target + "/").startswith(prefix):
            return True
    for name in ("cmdline", "maps"):
        try:
            text = (process / name).read_bytes()
        except OSError:
            continue
        if prefix.encode() in text:
            return True
    return False
