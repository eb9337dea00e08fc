"""Where apt gets packages from: one-line and deb822 source files, and the keys it trusts."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.unread import Unread
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, boolean, raw

KEYS = "keys"
_ONE_LINE = re.compile(
    r"(deb|deb-src)\s+(?:\[([^\]]{0,1000})\]\s+)?(cdrom:\[[^\]]{0,300}\]\S{0,300}|\S{1,1000})\s+(\S{1,200})(.*)$"
)
_SHOWN = ("types", "uris", "suites", "components")
_DEB822 = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,40}):(.*)$")
_KEY = re.compile(r"(\S{1,400})\s+([0-9A-Fa-f]{16,64})(?:\s+(.*))?$")


def apt_sources(reading: Reading) -> Facts:
    """Every enabled or disabled source entry, and the keys where their section is there."""
    found: list[dict[str, Any]] = []
    keys: list[dict[str, str]] | None = None
    unread = Unread(reading)
    for name, section in reading.sections.items():
        if name == KEYS:
            keys = _keys(section.text, unread)
        elif name.endswith(".sources") or (not name.endswith(".list") and re.search(r"(?m)^Types:", section.text)):
            found.extend(_deb822(name, section.text, unread))
        else:
            found.extend(_one_line(name, section.text, unread))
    if not unread.close(bool(reading.sections)):
        return {}
    return {"packages.sources": found, "packages.keys": keys}


def _entry(file: str, evidence: str) -> dict[str, Any]:
    return {
        "file": file,
        "types": [],
        "uris": [],
        "suites": [],
        "components": [],
        "architectures": [],
        "signed_by": None,
        "trusted": None,
        "enabled": True,
        "raw": raw(evidence),
    }


def _one_line(file: str, text: str, unread: Unread) -> list[dict[str, Any]]:
    found = []
    for line in text.split("\n"):
        plain = line.split("#", 1)[0].strip() if "cdrom:" not in line else line.strip()
        if not plain or plain.startswith("#"):
            continue
        match = _ONE_LINE.match(plain)
        if not match:
            unread.add(f"{file}: {line}")
            continue
        entry = _entry(file, plain)
        entry.update(types=[match[1]], uris=[match[3]], suites=[match[4]], components=match[5].split())
        for option in (match[2] or "").split():
            name, _sign, value = option.partition("=")
            _option(entry, name.rstrip("+-").lower(), value.split(","))
        found.append(entry)
    return found


def _deb822(file: str, text: str, unread: Unread) -> list[dict[str, Any]]:
    found = []
    fields: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in [*text.split("\n"), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                found.append(_stanza(file, fields))
            fields, current = {}, None
        elif line[0] in " \t":
            if current is None:
                unread.add(f"{file}: {line}")
            else:
                current.append(line.strip())
        else:
            match = _DEB822.match(line)
            if not match:
                unread.add(f"{file}: {line}")
                current = None
                continue
            current = [match[2].strip()] if match[2].strip() else []
            fields[match[1].lower()] = current
    return found


def _stanza(file: str, fields: dict[str, list[str]]) -> dict[str, Any]:
    entry = _entry(file, "; ".join(f"{name.title()}: {' '.join(fields[name])}" for name in _SHOWN if name in fields))
    for name in _SHOWN:
        entry[name] = " ".join(fields.get(name, [])).split()
    for name in ("architectures", "trusted", "enabled", "signed-by"):
        if name in fields:
            _option(entry, {"architectures": "arch"}.get(name, name), fields[name])
    return entry


def _option(entry: dict[str, Any], name: str, values: list[str]) -> None:
    text = " ".join(values).strip()
    if name == "arch":
        entry["architectures"] = text.replace(",", " ").split()
    elif name in ("trusted", "enabled"):
        answer = boolean(text)
        # apt takes a word it does not know for the default.
        entry[name] = answer if answer is not None or name == "trusted" else True
    elif name == "signed-by" and text:
        entry["signed_by"] = "embedded key" if "BEGIN PGP" in text else text


def _keys(text: str, unread: Unread) -> list[dict[str, str]]:
    found = []
    for line in text.split("\n"):
        match = _KEY.match(line)
        if match:
            found.append({"keyring": match[1], "fingerprint": match[2].upper(), "uid": (match[3] or "").strip()})
        elif line.strip():
            unread.add(f"{KEYS}: {line}")
    return found
