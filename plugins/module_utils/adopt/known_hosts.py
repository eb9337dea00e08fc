"""The lines of a known_hosts file: which key a place has, and whose key it is.

The comment behind a key, which ssh does not read, is the machine-id of the node that has it.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Iterable, List, NamedTuple, Optional, Set

_LINE = re.compile(r"([^\s#@]\S*)\s+([a-z0-9@.-]+)\s+([A-Za-z0-9+/]+={0,3})(?:\s+(.*?))?\s*$")


class HostKey(NamedTuple):
    """One key of one place (`host` or `[host]:port`, as ssh writes it)."""

    place: str
    kind: str
    blob: str
    machine: str = ""

    def line(self) -> str:
        return " ".join(part for part in self if part)


def place(host: str, port: Optional[int]) -> str:
    """How ssh names a place in known_hosts."""
    return f"[{host.lower()}]:{port}" if port not in (None, 22) else host.lower()


def keys(text: str) -> List[HostKey]:
    """The keys of a file, one for each place; hashed names stay as they are, marked lines are left out."""
    found = []
    for line in text.split("\n"):
        match = _LINE.match(line)
        if match:
            found += [HostKey(name, match[2], match[3], match[4] or "") for name in match[1].split(",")]
    return found


def fingerprint(blob: str) -> str:
    """SHA256:..., as ssh and ssh-keygen -l show it."""
    try:
        digest = hashlib.sha256(base64.b64decode(blob, validate=True)).digest()
    except (binascii.Error, ValueError):
        return "unreadable"
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def with_keys(text: str, new: Iterable[HostKey], gone: Iterable[str] = ()) -> str:
    """The text with these keys in it, each once, and without the places that are no node's any more.

    Lines of others, comments too, stay as they are.
    """
    dropped = set(gone)
    lines: List[str] = []
    there = {(key.place, key.kind, key.blob): key for key in new}
    written: Set[object] = set()
    for line in text.splitlines():
        found = keys(line)
        if len(found) != 1:
            lines.append(line)
            written |= {(key.place, key.kind, key.blob) for key in found}
            continue
        (old,) = found
        identity = (old.place, old.kind, old.blob)
        if old.place in dropped and identity not in there:
            continue
        key = there.get(identity)
        ours = not old.machine or re.match(r"[0-9a-f]{32}$", old.machine)
        machine = key.machine if key and key.machine and ours else old.machine
        lines.append(line if machine == old.machine else old._replace(machine=machine).line())
        written.add(identity)
    lines += [key.line() for identity, key in there.items() if identity not in written]
    return "".join(f"{line}\n" for line in lines)
