"""The text of a mail, a file or a command line -> the nodes it names.

The text of a line that is not understood is never repeated: it may be the line with the password in it.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import shlex
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.adopt import ssh_words
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.addresses import (
    Address,
    address,
    is_ip,
    port_number,
    shown,
)

_QUOTED = re.compile(r"^\s*(?:>\s*)+")
_BULLET = re.compile(r"^\s*(?:[*\u2022\u00b7+-]|\(?[0-9]{1,3}[.)])\s+")
_SSH = re.compile(r"(?:/[\w./-]*/)?ssh:?$", re.I)
_PORT_IN_WORDS = re.compile(r"\bport\b\W{0,3}([0-9]{1,5})\b", re.I)
#: What mail programs make of plain text.
_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u00a0\u2007\u202f\t`|", " "),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad\r"),
        **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2018\u2019\u201a", "'"),
    }
)


class Target(NamedTuple):
    """A node as a line names it."""

    host: str  # as ssh is told it: an address, a name, or an alias of ssh's own configuration
    user: Optional[str] = None
    port: Optional[int] = None
    key: Optional[str] = None
    jump: Optional[str] = None
    options: Tuple[str, ...] = ()  # Name=value

    def shown(self) -> str:
        return shown(self.host, self.user, self.port)


class Found(NamedTuple):
    targets: List[Target]
    notes: List[str]


def targets(text: str, typed: bool = False) -> Found:
    """The nodes that a text names, each once. ``typed``: on the command line, where every word is meant."""
    notes: List[str] = []
    ignored: List[int] = []
    by_line: List[Tuple[int, List[Target]]] = []
    lone: Set[int] = set()
    for number, line in _lines(text):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        here, remarks = _of_line(line, typed)
        if here and _is_lone_word(line):
            lone.add(number)
        notes.extend(f"line {number}: {remark}" for remark in dict.fromkeys(remarks))
        if not here and not remarks:
            ignored.append(number)
        by_line.append((number, here))
    if ignored and not typed:
        # In a list of nodes a lone word is a name; in a letter it may be anything, a password too.
        ignored += lone
        by_line = [(number, here) for number, here in by_line if number not in lone]
    if ignored:
        notes.append(f"no address in {_ranges(sorted(ignored))}: left out")
    return Found(unique(one for _number, here in by_line for one in here), notes)


def unique(found: Iterable[Target]) -> List[Target]:
    """Each place once: the first line that names it counts."""
    first: Dict[Tuple[object, ...], Target] = {}
    for one in found:
        first.setdefault((one.user, one.host, one.port, one.jump), one)
    return list(first.values())


def _lines(text: str) -> List[Tuple[int, str]]:
    """The lines with their numbers, a line that ends in a backslash joined with the next."""
    lines: List[Tuple[int, str]] = []
    goes_on = False
    for number, line in enumerate(text.split("\n"), 1):
        clean = _QUOTED.sub("", line.translate(_TYPOGRAPHY)).replace("**", " ")
        clean = re.sub(r"(^|\s)[\u2013\u2014](?=[A-Za-z])", r"\1-", clean)
        if goes_on:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]} {clean}")
        else:
            lines.append((number, clean))
        goes_on = clean.rstrip().endswith("\\")
        if goes_on:
            lines[-1] = (lines[-1][0], lines[-1][1].rstrip()[:-1])
    return lines


def _of_line(line: str, typed: bool) -> Tuple[List[Target], List[str]]:
    line = _BULLET.sub("", line)
    try:
        words = shlex.split(line)
    except ValueError:  # an apostrophe, not a quotation
        words = line.split()
    # A whole command in quotation marks is still a command.
    parts = [part for word in words for part in (word.split() if re.match(r"\s*(\S*/)?ssh\s", word, re.I) else [word])]
    words = [word for word in map(_trimmed, parts) if word]
    found, notes = _after_ssh(words)
    if not found and not any(_SSH.match(word) for word in words):
        found, notes = _typed(words) if typed else _in_prose(words)
    port = _PORT_IN_WORDS.search(line)
    number = port_number(port[1]) if port else None
    if number and len(found) == 1 and found[0].port is None:
        found = [found[0]._replace(port=number)]
    return found, notes


def _trimmed(word: str) -> str:
    """Without the punctuation of the sentence around it; brackets of an IPv6 address stay."""
    word = word.lstrip("(<{\"'").rstrip(")>}\"',.;!?")
    if word.startswith("[") and "]" not in word:
        word = word[1:]
    if word.endswith("]") and "[" not in word:
        word = word[:-1]
    return word if word.endswith("::") or _SSH.match(word) else word.rstrip(":")


def _after_ssh(words: Sequence[str]) -> Tuple[List[Target], List[str]]:
    """What stands behind each word `ssh`, and every ssh:// address."""
    found: List[Target] = []
    notes: List[str] = []
    passed: Set[str] = set()
    todo = list(words)
    while todo:
        word = todo.pop(0)
        line = None
        if word.lower().startswith("ssh://"):
            line = ssh_words.read([word, *todo])
        elif _SSH.match(word):
            line = ssh_words.read(todo)
            # `ssh to the node` is prose: a name alone is a destination only where it is the whole command.
            named = line and (line.place.user or _is_plain_address(line.place))
            if line and not named and (line.rest or passed - {"$", "%"} or word.endswith(":")):
                line = None
            elif line is None and todo and (todo[0].startswith("-") or "@" in todo[0]):
                notes.append("what stands behind ssh in it cannot be read (a port, user, key, jump host or address)")
        if line:
            found.append(_target(line))
            notes += _notes(line)
            todo = list(line.rest)
        passed.add(word)
    return found, notes


def _typed(words: Sequence[str]) -> Tuple[List[Target], List[str]]:
    """Every word is a destination or an option."""
    found: List[Target] = []
    notes: List[str] = []
    todo = [part for word in words for part in ([word] if word.startswith("-") else _apart(word))]
    while todo:
        line = ssh_words.read(todo)
        if line is None:
            notes.append("a word in it is no address ([ssh] [options] [user@]host[:port])")
            break
        found.append(_target(line))
        notes += _notes(line)
        todo = list(line.rest)
    return found, notes


def _apart(word: str) -> List[str]:
    """node-a,node-b: only where all parts are addresses (a jump host's list is not split here)."""
    parts = word.split(",")
    return parts if all(address(part) for part in parts) else [word]


def _in_prose(words: Sequence[str]) -> Tuple[List[Target], List[str]]:
    """Without `ssh` before it, an address must be plain enough not to be a word or somebody's mail address."""
    if not words:
        return [], []
    line = ssh_words.read(words)
    plain = line and (line.place.user or _is_plain_address(line.place) or _is_like_a_host(line.place.host))
    if line and plain and not line.rest:
        return [_target(line)], _notes(line)
    found = [place for place in map(address, words) if place and place.user and _is_plain_address(place)]
    if found:
        notes = [_SECRET for place in found if place.secret]
        return [Target(place.host, place.user, place.port) for place in found], notes
    if any("@" in word and address(word) for word in words):
        return [], ["it may hold a mail address: left out; write `ssh USER@HOST` if it is a node"]
    if any(is_ip(word.partition(":")[0]) for word in words):
        return [], ["an IP address without a user: left out; write `ssh USER@ADDRESS` if it is a node"]
    return [], []


_SECRET = "the password in it is not used; `--password` asks for one"


def _notes(line: ssh_words.Line) -> List[str]:
    return [*line.notes, *([_SECRET] if line.place.secret else [])]


def _is_plain_address(place: Address) -> bool:
    return is_ip(place.host) or place.port is not None


def _is_like_a_host(host: str) -> bool:
    """node-a, gpu01, a.example.com: a word of a letter has neither digit nor dash nor dot in it."""
    return host == host.lower() and bool(re.search(r"[0-9.-]", host))


def _is_lone_word(line: str) -> bool:
    """A line of one name without a user, a port or a domain behind it."""
    words = [_trimmed(word) for word in line.split()]
    return (
        len(words) == 1
        and not is_ip(words[0])
        and bool(re.match(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*[0-9_-][A-Za-z0-9_-]*)*$", words[0]))
    )


def _target(line: ssh_words.Line) -> Target:
    place = line.place
    return Target(place.host, place.user, place.port, line.key, line.jump, line.options)


def _ranges(numbers: Sequence[int]) -> str:
    """line 3, or lines 1-4, 7."""
    runs: List[List[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    text = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"line{'s' if len(numbers) > 1 else ''} {text}"
