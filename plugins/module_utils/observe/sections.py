"""The sections of a probe with several sources: `==> NAME <==` as head and tail print it, ` exit N` on failure."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Iterable, NamedTuple

# ` exit N` is written behind the header; inside it is understood too.
_HEADER = re.compile(
    r"^==> (?P<name>.{1,1000}?)(?: exit (?P<inner>[0-9]{1,3}))? <==(?: exit (?P<outer>[0-9]{1,3}))?[ \t]*$"
)


class Section(NamedTuple):
    """One source of a probe: what it printed, and its exit status."""

    text: str
    rc: int = 0


def split(text: str) -> dict[str, Section]:
    """Section name -> Section, in order. Text before the first header belongs to none."""
    found: list[tuple[str, int, list[str]]] = []
    for line in text.split("\n"):
        header = _HEADER.match(line) if line.startswith("==> ") else None
        if header:
            found.append((header["name"], int(header["inner"] or header["outer"] or 0), []))
        elif found:
            found[-1][2].append(line)
    result: dict[str, Section] = {}
    for name, rc, lines in found:
        body = list(lines)
        # head separates files by one empty line, and every text ends in a line's end: neither is part of the file.
        if body and not body[-1]:
            body.pop()
        result[name] = Section("".join(f"{line}\n" for line in body), rc)
    return result


def join(pieces: Iterable[tuple[str, str, int]]) -> str:
    """(name, text, exit status) of each source as one text for `split`. Without a name the text has its own headers."""
    blocks = []
    for name, text, rc in pieces:
        if not name:
            blocks.append(text.rstrip("\n") + "\n" if text.strip() else "")
            continue
        suffix = f" exit {rc}" if rc else ""
        body = text if not text or text.endswith("\n") else text + "\n"
        blocks.append(f"==> {name} <=={suffix}\n{body}")
    return "\n".join(block for block in blocks if block)
