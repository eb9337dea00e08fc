"""Limits of processes: what a login gets, what the SSH daemon hands on, and the files that set them."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.unread import Unread
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, raw
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.schema import LimitEntry

_LIMIT = re.compile(r"(Max [a-z -]{2,30}?)\s{2,}([0-9]{1,20}|unlimited)\s+([0-9]{1,20}|unlimited)(?:\s+(\w{1,20}))?$")
_ENTRY = re.compile(r"(\S{1,100})\s+(soft|hard|-)\s+([a-z]{1,20})\s+(\S{1,40})$", re.IGNORECASE)
_PROCESSES = {"login: /proc/self/limits": "login", "sshd child: /proc/self/limits": "sshd_child"}


def limits(reading: Reading) -> Facts:
    facts: Facts = {f"limits.{name}": None for name in _PROCESSES.values()}
    files: dict[str, str] = {}
    entries: list[LimitEntry] = []
    unread = Unread(reading)
    for name, section in reading.sections.items():
        if section.rc:
            continue
        if name in _PROCESSES:
            facts[f"limits.{_PROCESSES[name]}"] = _process(section.text, unread)
        else:
            files[name] = section.text
            entries.extend(_file(name, section.text, unread))
    unread.close(bool(reading.sections))
    asked = any("limits.d" in name or name.endswith("limits.conf") for name in reading.sections)
    return {**facts, "limits.files": files if asked else None, "limits.entries": entries if asked else None}


def _process(text: str, unread: Unread) -> dict[str, dict[str, str]] | None:
    found: dict[str, dict[str, str]] = {}
    for line in text.split("\n"):
        match = _LIMIT.match(line.strip())
        if match:
            found[match[1]] = {"soft": match[2], "hard": match[3], "unit": match[4] or "", "raw": raw(line)}
        elif not line.startswith("Limit "):
            unread.add(line)
    return found or None


def _file(name: str, text: str, unread: Unread) -> list[LimitEntry]:
    found: list[LimitEntry] = []
    for line in text.split("\n"):
        plain = line.split("#", 1)[0].strip()
        match = _ENTRY.match(plain)
        if match:
            entry: LimitEntry = {
                "file": name,
                "domain": match[1],
                "type": match[2],
                "item": match[3].lower(),
                "value": match[4],
                "raw": raw(line),
            }
            found.append(entry)
        else:
            unread.add(f"{name}: {plain}" if plain else "")
    return found
