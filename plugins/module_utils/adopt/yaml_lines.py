"""Edits single lines of a block-style YAML text, so that comments, order and everything else of the user's stay.

It knows nested mappings in block style and the empty `{}`: what inventories are written in. The caller reads the result
as YAML and compares: a text in another style is then refused, never damaged.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
from typing import List, NamedTuple, Optional, Sequence, Union

Scalar = Union[str, int]
_KEY = re.compile(r"""( *)(?:"([^"]*)"|'([^']*)'|([^\s#'"{\[-][^\s#'":]*|-[^\s:]+))\s*:(?=\s|$)(.*)$""")
#: Strings that YAML reads as strings without quotation marks, by shape.
_PLAIN = re.compile(r"(?:[A-Za-z~/][A-Za-z0-9_./~@-]*|[0-9]+(?:\.[0-9]+){3})$")
_OTHERWISE = {"true", "false", "yes", "no", "on", "off", "null", "y", "n", "~"}


class CannotEdit(Exception):
    """The text is not in the style that can be edited here; the text names the place."""


class _Block(NamedTuple):
    at: int  # the line of the key
    indent: int
    value: str  # behind the colon
    end: int  # behind its last line that is neither empty nor a comment


def scalar(value: Scalar) -> str:
    """A value as YAML writes it on one line."""
    if isinstance(value, int):
        return str(value)
    if _PLAIN.match(value) and value.lower() not in _OTHERWISE:
        return value
    # The arguments for ssh begin with a dash and a letter and need no marks of their own.
    if re.match(r"-[a-zA-Z] [^#:\n\\]*$", value) and value == value.strip():
        return value
    return json.dumps(value)


class YamlLines:
    """A text that is edited by paths of keys."""

    def __init__(self, text: str) -> None:
        self._lines: List[str] = text.split("\n")
        if self._lines and self._lines[-1] == "":
            self._lines.pop()

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    def put(self, path: Sequence[str], value: Optional[Scalar]) -> None:
        """Give the key at the path this value; None: the key is to be there, with nothing or anything behind it."""
        found = self._find(path)
        if found is None:
            self._add(path, value)
        elif value is not None:
            self._replace(found, path, value)

    def _replace(self, found: _Block, path: Sequence[str], value: Scalar) -> None:
        if found.end > found.at + 1:
            raise CannotEdit(f"{'.'.join(path)} goes over several lines")
        line = self._lines[found.at]
        start = len(line) - len(found.value)
        comment = _comment(found.value)
        self._lines[found.at] = f"{line[:start]} {scalar(value)}{comment}"

    def _add(self, path: Sequence[str], value: Optional[Scalar]) -> None:
        *parents, key = path
        if parents:
            if self._find(parents) is None:
                self._add(parents, None)
            parent = self._find(parents)
            if parent is None:
                raise CannotEdit(f"{'.'.join(parents)} cannot be found")
            plain = parent.value[: len(parent.value) - len(_comment(parent.value))].strip()
            if plain == "{}":
                line = self._lines[parent.at]
                head = line[: len(line) - len(parent.value)]
                self._lines[parent.at] = f"{head}{_comment(parent.value)}"
            elif plain not in ("", "null", "~"):
                raise CannotEdit(f"{'.'.join(parents)} is not a mapping with one key a line")
            elif plain:
                line = self._lines[parent.at]
                self._lines[parent.at] = f"{line[: len(line) - len(parent.value)]}{_comment(parent.value)}"
            indent, at = self._child_indent(parent), parent.end
        else:
            indent, at = 0, self._end_of_document()
        text = f"{' ' * indent}{scalar(key)}:"
        self._lines.insert(at, text if value is None else f"{text} {scalar(value)}")

    def _find(self, path: Sequence[str]) -> Optional[_Block]:
        start, end, indent = 0, self._end_of_document(), 0
        found: Optional[_Block] = None
        for key in path:
            if found is not None:
                start, end, indent = found.at + 1, found.end, self._child_indent(found)
            found = self._key(key, start, end, indent)
            if found is None:
                return None
        return found

    def _key(self, key: str, start: int, end: int, indent: int) -> Optional[_Block]:
        for at in range(start, end):
            match = _KEY.match(self._lines[at])
            if match and len(match[1]) == indent and key == next(name for name in match.groups()[1:4] if name):
                return _Block(at, indent, match[5], self._end(at, end, indent))
        return None

    def _end(self, at: int, limit: int, indent: int) -> int:
        """Behind the last line of content that is indented deeper; comments behind it belong to what follows."""
        end = at + 1
        for number in range(at + 1, limit):
            line = self._lines[number]
            if _is_content(line):
                if _indent(line) <= indent:
                    break
                end = number + 1
        return end

    def _child_indent(self, block: _Block) -> int:
        for number in range(block.at + 1, block.end):
            if _is_content(self._lines[number]):
                return _indent(self._lines[number])
        return block.indent + 2

    def _end_of_document(self) -> int:
        begun = False
        for at, line in enumerate(self._lines):
            if begun and line.rstrip() in ("---", "..."):
                return at
            begun = begun or _is_content(line)
        return len(self._lines)


def _is_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#") and line.rstrip() != "---"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _comment(behind: str) -> str:
    """The comment at the end of what stands behind a key, with the space before it."""
    quoted = re.match(r"""\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')""", behind)
    rest = behind[quoted.end() :] if quoted else behind
    found = re.search(r"\s+#.*$", rest)
    return found[0] if found else ""
