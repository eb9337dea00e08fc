"""Apt's configuration and preferences: what unattended upgrades may touch, and which versions are pinned."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Iterator

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.unread import Unread
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, integer, raw

# What can begin a comment, and the quoted text in which nothing does.
_MARK = re.compile(r'"[^"\n]{0,4000}"|/\*|//[^\n]*|#(?!clear|include)[^\n]*')
_TOKEN = re.compile(r'"([^"\n]{0,4000})"|([{};])|([^\s{};"]{1,400})')
_DEPTH = 20
_CLEAR = "#clear "


def apt_config(reading: Reading) -> Facts:
    """Each file's text; the settings they add up to, as apt merges them; every pin.

    apt takes `APT::` and `Apt::` for the same, so the names of settings are in lower case here.
    """
    files = {name: section.text for name, section in reading.sections.items() if not section.rc}
    unread = Unread(reading)
    settings: dict[str, list[str]] = {}
    pins: list[dict[str, Any]] = []
    # apt reads apt.conf.d in the order of the file names, then apt.conf.
    for name in sorted(files, key=lambda name: (name.endswith("/apt.conf"), name.rsplit("/", 1)[-1])):
        if "/preferences" in name:
            pins.extend(_pins(name, files[name], unread))
        elif "/apt.conf" in name:
            _merge(settings, name, files[name], unread)
    if not unread.close(bool(files)):
        return {}
    return {"packages.apt_config": files, "packages.apt_settings": settings, "packages.apt_pins": pins}


def _merge(settings: dict[str, list[str]], file: str, text: str, unread: Unread) -> None:
    for key, value, is_list in _settings(file, text, unread):
        name = key.lower()
        if name.startswith(_CLEAR):
            gone = name[len(_CLEAR) :].rstrip(":") + "::"
            for cleared in [one for one in settings if f"{one}::".startswith(gone)]:
                del settings[cleared]
        elif is_list:
            settings.setdefault(name, []).append(value)
        else:
            settings[name] = [value]


def _settings(file: str, text: str, unread: Unread) -> Iterator[tuple[str, str, bool]]:
    """(key, value, is it one more entry of a list) in the order of the file."""
    scope: list[str] = []
    words: list[tuple[str, bool]] = []  # (word, was it quoted)
    for token in _TOKEN.finditer(_strip_comments(text)):
        sign = token[2]
        if sign is None:
            words.append((token[1], True) if token[1] is not None else (token[3], False))
            continue
        if sign == "{":
            if len(words) == 1 and len(scope) < _DEPTH:
                scope.append(words[0][0])
            else:
                unread.add(f"{file}: {' '.join(word for word, _quoted in words)} {{")
                scope.append("?")
        elif sign == "}":
            if scope:
                scope.pop()
        elif words:
            setting = _setting(scope, words)
            if setting:
                yield setting
            else:
                unread.add(f"{file}: {' '.join(word for word, _quoted in words)}")
        words = []


def _setting(scope: list[str], words: list[tuple[str, bool]]) -> tuple[str, str, bool] | None:
    first, quoted = words[0]
    if first == _CLEAR.strip() and len(words) == 2:
        return _CLEAR + words[1][0], "", False
    if len(words) == 1 and quoted and scope:
        return "::".join(scope), first, True
    if len(words) == 2 and not quoted:
        name, is_list = (first[:-2], True) if first.endswith("::") else (first, False)
        return "::".join([*scope, name]), words[1][0], is_list
    return None


def _strip_comments(text: str) -> str:
    """The text without comments. Inside quotes nothing is one: addresses hold `//`, patterns `/*`."""
    kept = []
    position = 0
    for mark in _MARK.finditer(text):
        if mark.start() < position:
            continue
        kept.append(text[position : mark.start()])
        if mark[0] == "/*":
            end = text.find("*/", mark.end())
            position = len(text) if end < 0 else end + 2
        elif mark[0].startswith('"'):
            kept.append(mark[0])
            position = mark.end()
        else:
            position = mark.end()
    return "".join([*kept, text[position:]])


def _pins(file: str, text: str, unread: Unread) -> list[dict[str, Any]]:
    found = []
    fields: dict[str, str] = {}
    last = ""
    for line in [*text.split("\n"), ""]:
        if line.startswith("#"):
            continue
        match = re.match(r"(Package|Pin|Pin-Priority|Explanation):\s*(.*)$", line, re.IGNORECASE)
        if match:
            last = match[1].lower()
            fields[last] = match[2]
        elif line[:1] in (" ", "\t") and line.strip() and last:
            fields[last] += " " + line.strip()
        elif line.strip():
            unread.add(f"{file}: {line}")
        else:
            if "package" in fields:
                shown = [f"{name.title()}: {fields.get(name, '')}" for name in ("package", "pin", "pin-priority")]
                found.append(
                    {
                        "file": file,
                        "packages": fields["package"].split(),
                        "pin": fields.get("pin", ""),
                        "priority": integer(fields.get("pin-priority")),
                        "raw": raw("; ".join(shown)),
                    }
                )
            fields, last = {}, ""
    return found
