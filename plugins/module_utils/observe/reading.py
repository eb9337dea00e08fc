"""What a parser is given: one probe's text, its exit status, its sections, and a place for notes."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Callable, Dict

from ansible_collections.trainrig.gpu.plugins.module_utils.observe import sections
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.schema import RAW_LIMIT

#: Facts of a parser: the place in the Observation, with dots ("boot.boot_id"), and the value. A place that begins
#: with "join." is not part of the Observation: a join (build.JOINS) makes one fact of several probes from those.
Facts = Dict[str, Any]
#: Terminal codes that tools print even into a pipe: colours, titles, cursor moves, character sets.
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>])")
#: How tools say that they have no value.
_NOTHING = re.compile(
    r"^\W*(?:n/?a|not (?:available|supported|applicable|specified|present)|unknown(?: error)?|none|err!?|-)?\W*$", re.I
)


class Reading:
    """One probe's output as a parser sees it: no terminal codes, no carriage returns."""

    def __init__(self, probe: str, text: str, rc: int = 0, err: str = "") -> None:
        self.probe = probe
        self.text = _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")).lstrip("\ufeff")
        self.rc = rc
        self.err = err
        self.notes: list[str] = []
        self.readable = True
        self._sections: dict[str, sections.Section] | None = None

    @property
    def lines(self) -> list[str]:
        # Not splitlines(): form feeds and Unicode separators inside a line are no line ends.
        return self.text.split("\n")

    @property
    def sections(self) -> dict[str, sections.Section]:
        if self._sections is None:
            self._sections = sections.split(self.text)
        return self._sections

    def section(self, name: str) -> str | None:
        """Text of a section that worked; None when it is missing or failed."""
        found = self.sections.get(name)
        return found.text if found is not None and found.rc == 0 else None

    def note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < 20:
            self.notes.append(text[:RAW_LIMIT])

    def unreadable(self, why: str) -> None:
        """The output is there but not what this probe prints."""
        self.readable = False
        self.note(why)


Parser = Callable[[Reading], Facts]


def raw(line: str) -> str:
    """A line as evidence: without its ends, not longer than evidence may be."""
    return line.strip()[:RAW_LIMIT]


def present(text: str | None) -> str | None:
    """The text, or None where the tool says in some spelling that there is no value."""
    if text is None:
        return None
    text = text.strip()
    # The words are short; on a long text of signs the pattern would search for minutes.
    return None if len(text) <= 40 and _NOTHING.match(text) else text


def integer(text: str | None) -> int | None:
    """The whole number a text begins with (`81559 MiB`, `16x`); None when it does not."""
    match = re.match(r"\s*([-+]?[0-9]{1,18})(?![0-9.])", text or "", re.ASCII)
    return int(match[1]) if match else None


def number(text: str | None) -> float | None:
    """The number a text begins with (`68.42 W`); None when it does not."""
    match = re.match(r"\s*([-+]?[0-9]{1,18}(?:\.[0-9]{1,9})?)(?![0-9.])", text or "", re.ASCII)
    return float(match[1]) if match else None


_WORDS = {"enabled": True, "yes": True, "on": True, "true": True, "active": True, "1": True}
_WORDS.update({"disabled": False, "no": False, "off": False, "false": False, "not active": False, "0": False})


def boolean(text: str | None) -> bool | None:
    """Enabled/Disabled, Yes/No, Active/Not Active in any case; None for every other word."""
    return _WORDS.get((text or "").strip().lower())


_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?$", re.I)


def pci_address(text: str | None) -> str | None:
    """`00000000:17:00.0`, `0000:17:00`, `17:00.0` as `0000:17:00.0`."""
    match = _PCI.match((text or "").strip())
    if not match:
        return None
    domain = int(match[1] or "0", 16)
    return f"{domain:04x}:{match[2].lower()}:{match[3].lower()}.{match[4] or '0'}"
