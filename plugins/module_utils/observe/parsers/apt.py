"""What apt would install and what it has done: candidates of packages, and the history log."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.unread import Unread
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, present, raw

_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9+.:-]{0,199}):$")
_FIELD = re.compile(r"  (Installed|Candidate|Package pin): *(\S.*)$")
_VERSION = re.compile(r" (\*\*\*|   ) ([^\s]{1,200}) (-?[0-9]{1,6})(?: +\(phased ([0-9]{1,3})%\))?$")
_ORIGIN = re.compile(r" {6,9}(-?[0-9]{1,6}) (\S.*)$")

_HISTORY_FIELD = re.compile(r"([A-Z][A-Za-z-]{1,20}): ?(.*)$")
_ACTIONS = ("Install", "Reinstall", "Upgrade", "Downgrade", "Remove", "Purge")
_CHANGE = re.compile(r"(?<![^\s,()])([^\s,()]{1,200}) \(([^()]{0,300})\)")


def apt_policy(reading: Reading) -> Facts:
    """`apt-cache policy NAME...`: installed, candidate, and every version with its origins."""
    found: dict[str, dict[str, Any]] = {}
    unread = Unread(reading)
    package: dict[str, Any] | None = None
    for line in reading.lines:
        if not line.strip() or line == "  Version table:":
            continue
        name = _NAME.match(line)
        if name:
            package = {"installed": None, "candidate": None, "pin": None, "versions": [], "raw": ""}
            found[name[1]] = package
            continue
        if package is None or not _policy_line(package, line):
            unread.add(line)
    for name_, one in found.items():
        shown = [f"{key.title()}: {one[key] or '(none)'}" for key in ("installed", "candidate")]
        one["raw"] = raw(f"{name_}: {' '.join(shown)}")
    return {"packages.policy": found} if unread.close(bool(found)) else {}


def _policy_line(package: dict[str, Any], line: str) -> bool:
    versions: list[dict[str, Any]] = package["versions"]
    field = _FIELD.match(line)
    if field:
        package[{"Installed": "installed", "Candidate": "candidate"}.get(field[1], "pin")] = present(field[2])
        return True
    version = _VERSION.match(line)
    if version:
        versions.append(
            {
                "version": version[2],
                "priority": int(version[3]),
                "installed": version[1] == "***",
                "phased_percent": int(version[4]) if version[4] else None,
                "origins": [],
                "raw": raw(line),
            }
        )
        return True
    origin = _ORIGIN.match(line)
    if origin and versions:
        versions[-1]["origins"].append(origin[2])
        versions[-1]["raw"] = raw(f"{versions[-1]['raw']} | {line.strip()}")
        return True
    return False


def apt_history(reading: Reading) -> Facts:
    """The end of apt's history.log: who changed which package, when. Oldest first."""
    found: list[dict[str, Any]] = []
    unread = Unread(reading)
    entry: dict[str, Any] = {}
    for line in [*reading.lines, ""]:
        if not line.strip():
            if entry:
                found.append(entry)
            entry = {}
            continue
        field = _HISTORY_FIELD.match(line)
        if not field:
            # The tail of the log may begin inside a long line.
            if entry or found:
                unread.add(line)
            continue
        if field[1] == "Start-Date" and entry:
            found.append(entry)
            entry = {}
        if not entry:
            entry = dict.fromkeys(("start", "end", "commandline", "requested_by", "error"))
            entry["actions"] = {}
        _history_field(entry, field[1], field[2].strip())
    return {"packages.history": found} if unread.close(bool(found)) else {}


def _history_field(entry: dict[str, Any], name: str, value: str) -> None:
    simple = {"Start-Date": "start", "End-Date": "end", "Commandline": "commandline", "Requested-By": "requested_by"}
    if name in simple:
        entry[simple[name]] = " ".join(value.split()) or None
    elif name == "Error":
        entry["error"] = raw(value)
    elif name in _ACTIONS:
        changes = entry["actions"].setdefault(name.lower(), [])
        for change in _CHANGE.finditer(value):
            changes.append(_change(name, change[1], change[2], change[0]))


def _change(action: str, package: str, inside: str, text: str) -> dict[str, Any]:
    name, _colon, arch = package.partition(":")
    versions = [part.strip() for part in inside.split(",") if part.strip() and part.strip() != "automatic"]
    first = versions[0] if versions else None
    last = versions[1] if len(versions) > 1 else None
    if action in ("Install", "Reinstall"):
        first, last = None, first
    return {
        "name": name,
        "arch": arch or None,
        "from": first,
        "to": last,
        "automatic": "automatic" in [part.strip() for part in inside.split(",")],
        "raw": raw(f"{action}: {text}"),
    }
