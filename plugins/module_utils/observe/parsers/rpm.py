"""rpm's package list and dnf's version locks."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.unread import Unread
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.schema import RpmEntry

_EVR = re.compile(r"(?:([0-9]{1,9}|\(none\)):)?([^\s:-]{1,200}-[^\s:-]{1,200})$")
_NEVRA = re.compile(r"([^\s/:]{1,200})-(?:([0-9]{1,9}):)?([^\s:-]{1,200}-[^\s:-]{1,200})\.([a-z0-9_]{1,20})$")
_CHATTER = re.compile(r"Last metadata expiration|Updating |This system is|Not root|Loaded plugins", re.IGNORECASE)


def rpm(reading: Reading) -> Facts:
    """`rpm -qa` as name, epoch:version-release, architecture; plain `rpm -qa` is read too.

    A kernel is installed several times: `rpm` then holds the first row, `rpm_entries` all of them.
    """
    entries: list[RpmEntry] = []
    unread = Unread(reading)
    for line in reading.lines:
        entry = _row(line.split())
        if entry is None:
            unread.add(line)
        else:
            entries.append(entry)
    if not unread.close(bool(entries)):
        return {}
    first: dict[str, str] = {}
    for entry in entries:
        first.setdefault(entry["name"], entry["version"])
    return {"packages.rpm": first, "packages.rpm_entries": entries}


def _row(fields: list[str]) -> RpmEntry | None:
    if len(fields) == 3:
        match = _EVR.match(fields[1])
        return {"name": fields[0], "version": _version(match[1], match[2]), "arch": fields[2]} if match else None
    match = _NEVRA.match(fields[0]) if len(fields) == 1 else None
    return {"name": match[1], "version": _version(match[2], match[3]), "arch": match[4]} if match else None


def _version(epoch: str | None, rest: str) -> str:
    return rest if epoch in (None, "", "0", "(none)") else f"{epoch}:{rest}"


def dnf_versionlock(reading: Reading) -> Facts:
    """`dnf versionlock list`: one pattern a line (dnf 4), or blocks of conditions (dnf 5)."""
    locks: list[str] = []
    unread = Unread(reading)
    name = ""
    for line in (line.strip() for line in reading.lines):
        if not line or line.startswith("#") or _CHATTER.match(line):
            continue
        block = re.match(r"Package name: *(\S{1,200})$", line)
        condition = re.match(r"(evr|version|arch) *(=|!=|<=|>=|<|>) *(\S{1,200})$", line)
        if block:
            name = block[1]
        elif condition and name:
            exact = condition[1] == "evr" and condition[2] == "="
            locks.append(f"{name}-{condition[3]}" if exact else f"{name} {line}")
        elif re.match(r"!?[A-Za-z0-9]\S{1,300}$", line):
            locks.append(line)
        else:
            unread.add(line)
    return {"packages.versionlock": locks} if unread.close(bool(locks)) else {}
