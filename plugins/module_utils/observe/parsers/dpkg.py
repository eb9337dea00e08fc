"""dpkg's package list and apt's holds: what is installed, in which state, and what is held."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.unread import Unread
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.schema import DpkgEntry

# Wanted state, present state, and R where the package must be installed again.
_STATE = re.compile(r"[uihrp?][ncHUFWti?]R?$")
# Installed, or installed with a trigger outstanding: the files are in place and configured.
_INSTALLED = "iWt"
_HEADER = re.compile(r"Desired=|\| Status=|\|/ Err\?=|\|\|/ Name|\+\+\+-")
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{0,199}$", re.IGNORECASE)
_SECONDARY = ("i386", "armhf")


def dpkg(reading: Reading) -> Facts:
    """`dpkg-query -W` with state, name, version, architecture; `dpkg -l` is read too."""
    entries: list[DpkgEntry] = []
    unread = Unread(reading)
    bare = 0
    for line in reading.lines:
        fields = line.split()
        if not fields or _HEADER.match(line):
            continue
        entry = _entry(fields)
        if entry:
            entries.append(entry)
        elif len(fields) == 2 and _NAME.match(fields[0].partition(":")[0]) and fields[1][:1].isdigit():
            bare += 1
        else:
            unread.add(line)
    if bare:
        # Plain `dpkg-query -W` lists removed packages too and does not tell them apart.
        why = f"{bare} lines show no state; save `dpkg-query -W` with ${{db:Status-Abbrev}} first"
        reading.note(why) if entries else reading.unreadable(why)
    if not unread.close(bool(entries)) or not reading.readable:
        return {}
    return {"packages.dpkg": installed(entries), "packages.dpkg_entries": entries}


def _entry(fields: list[str]) -> DpkgEntry | None:
    if len(fields) < 2 or not _STATE.match(fields[0]):
        return None
    name, _colon, arch = fields[1].partition(":")
    # A package that was never installed has no version.
    if not _NAME.match(name) or (len(fields) < 3 and fields[0][1] != "n"):
        return None
    version, shown_arch = (*fields[2:4], "", "")[:2]
    return {"name": name, "version": version, "arch": arch or shown_arch, "state": fields[0]}


def installed(entries: list[DpkgEntry]) -> dict[str, str]:
    """Installed packages, name -> version. Of two architectures of one name, the node's own counts."""
    found: dict[str, DpkgEntry] = {}
    for entry in entries:
        if entry["state"][1:2] not in _INSTALLED or not entry["version"]:
            continue
        before = found.get(entry["name"])
        if before is None or before["arch"] in _SECONDARY:
            found[entry["name"]] = entry
    return {name: entry["version"] for name, entry in found.items()}


def apt_holds(reading: Reading) -> Facts:
    """`apt-mark showhold`: one name a line."""
    held: list[str] = []
    unread = Unread(reading)
    for line in (line.strip() for line in reading.lines):
        name = line.partition(":")[0]
        if _NAME.match(name) and not re.search(r"\s", line):
            if name not in held:
                held.append(name)
        else:
            unread.add(line)
    return {"packages.held": held} if unread.close(bool(held)) else {}
