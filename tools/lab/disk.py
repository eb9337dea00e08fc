"""The file system that nodes' disks are in: one sparse file, mounted while there is a lab.

A machine's own file system may be slow to forget files (one mounted with `discard` waits for the device at each), and
nodes are thrown away and reset all the time. Here thousands of files go in a moment, and the rest is one file.
"""

from __future__ import annotations

import os

from tools.lab import machine
from tools.lab.machine import LABS, STATE, run

_FILE = STATE / "disk.img"
#: Of what is free on the machine: the file grows with what nodes write, and it must not fill the machine.
_SHARE = 0.8


def is_up() -> bool:
    """Labs that lie in the directory itself are left there: a mount would hide them."""
    if (str(LABS), "ext4") in machine.mounts():
        return True
    return LABS.is_dir() and any(LABS.iterdir()) and not _FILE.exists()


def up() -> None:
    """Mount it, and make it first where it is not there or not finished."""
    LABS.mkdir(exist_ok=True)
    if not _FILE.exists():
        status = os.statvfs(STATE)
        new = _FILE.with_suffix(".new")
        with new.open("wb") as file:
            file.truncate(int(status.f_bavail * status.f_frsize * _SHARE))
        run("mkfs.ext4", "-q", "-m", "0", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1", new)
        new.rename(_FILE)
    run("mount", "-t", "ext4", "-o", "loop,noatime,nodiscard", _FILE, LABS)


def down() -> None:
    machine.unmount_below(LABS)
