"""Reads a hash-checked requirement file and says which packages one Python gets from it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Dict, List, Mapping, NamedTuple, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.markers import evaluate
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import (
    normalise_name,
    normalise_version,
)

_REQUIREMENT = re.compile(
    r"^(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*==\s*"
    r"(?P<version>[A-Za-z0-9.!+_-]+)\s*(?:;(?P<marker>.*))?$"
)
_HASH = re.compile(r"--hash[= ](?P<hash>[a-z0-9]+:[0-9a-fA-F]+)")


class Requirement(NamedTuple):
    """One locked package: exact version, for which Pythons, and the files that may be installed for it."""

    name: str
    version: str
    marker: str
    hashes: Tuple[str, ...]
    line: int


class RequirementError(ValueError):
    """A line that a hash-checked requirement file must not have."""


def parse(text: str) -> List[Requirement]:
    """Every requirement of the file. Anything but `name==version [; marker] --hash=...` is an error with its line."""
    found: List[Requirement] = []
    for number, line in _logical_lines(text):
        hashes = tuple(sorted(match.group("hash").lower() for match in _HASH.finditer(line)))
        plain = _HASH.sub("", line).strip()
        if plain.startswith("-"):
            option = plain.split()[0].split("=")[0]
            raise RequirementError(f"line {number}: option {option} does not belong in a locked requirement file")
        match = _REQUIREMENT.match(plain)
        if match is None:
            raise RequirementError(f"line {number}: not an exact requirement (name==version): {plain[:80]}")
        if not hashes:
            raise RequirementError(f"line {number}: {match.group('name')} has no --hash=sha256:...")
        found.append(
            Requirement(
                normalise_name(match.group("name")),
                normalise_version(match.group("version")),
                (match.group("marker") or "").strip(),
                hashes,
                number,
            )
        )
    return found


def select(requirements: List[Requirement], environment: Mapping[str, str]) -> Dict[str, Requirement]:
    """The packages that belong into an environment of this Python, by name."""
    chosen: Dict[str, Requirement] = {}
    for requirement in requirements:
        if not evaluate(requirement.marker, environment):
            continue
        earlier = chosen.get(requirement.name)
        if earlier is not None and earlier.version != requirement.version:
            raise RequirementError(
                f"line {requirement.line}: {requirement.name} {requirement.version} and line {earlier.line}: "
                f"{earlier.version} are both meant for Python {environment.get('python_full_version', '?')}"
            )
        chosen[requirement.name] = requirement
    return chosen


def _logical_lines(text: str) -> List[Tuple[int, str]]:
    """Lines joined at their trailing backslash, without comments, each with the number of its first line."""
    lines: List[Tuple[int, str]] = []
    pending = ""
    start = 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        if not pending:
            start = number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        pending += line
        if pending.strip():
            lines.append((start, pending.strip()))
        pending = ""
    if pending.strip():
        lines.append((start, pending.strip()))
    return lines
