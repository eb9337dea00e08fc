"""Reads what apt prints: versions on offer, a simulated installation, where its files are, package records."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Dict, List, NamedTuple
from urllib.parse import unquote

from ansible_collections.trainrig.gpu.plugins.module_utils.apt.transaction import simulated

_URI = re.compile(r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>[0-9]+) (?P<hash>\S*)$")
_FIELD = re.compile(r"^(?P<name>[A-Za-z0-9-]+): *(?P<value>.*)$")


def bare(uri: str) -> str:
    """An address without credentials and without a slash at the end."""
    return re.sub(r"^([a-z+]+://)[^/]*@", r"\1", uri).rstrip("/")


class Offer(NamedTuple):
    """A version of a package that a repository has."""

    version: str
    uri: str  # of the repository, as apt shows it


class File(NamedTuple):
    """What would be downloaded."""

    name: str
    version: str
    architecture: str
    uri: str
    size: int
    sha256: str


class OutputError(ValueError):
    """apt said something that cannot be what was asked for."""


def madison(text: str) -> Dict[str, List[Offer]]:
    """Of `apt-cache madison NAME...`: name -> what is on offer, the newest first (apt's own order)."""
    found: Dict[str, List[Offer]] = {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) == 3 and not parts[2].endswith(" Sources"):
            offer = Offer(parts[1], parts[2].split(" ")[0])
            if offer not in found.setdefault(parts[0], []):
                found[parts[0]].append(offer)
    return found


def installed(text: str) -> Dict[str, str]:
    """Of `apt-get install --simulate`: name -> version of all that would be installed."""
    steps = simulated(text)
    removed = [step.name for step in steps if not step.new]
    if removed:  # nothing is there that could be removed
        raise OutputError(f"the simulation removes {', '.join(removed)}")
    return {step.name: step.new for step in steps}


def files(text: str) -> List[File]:
    """Of `apt-get install --print-uris`, sorted by name. OutputError without SHA-256 for one."""
    found: List[File] = []
    for match in filter(None, map(_URI.match, text.splitlines())):
        kind, _colon, digest = match.group("hash").partition(":")
        if kind != "SHA256" or len(digest) != 64:
            raise OutputError(f"the repository tells no SHA-256 of {match.group('file')}")
        stem = match.group("file")[: -len(".deb")]
        name, version, architecture = stem.split("_")
        found.append(
            File(
                name, unquote(version), architecture, bare(match.group("uri")), int(match.group("size")), digest.lower()
            )
        )
    return sorted(found)


def records(text: str) -> List[Dict[str, str]]:
    """Of `apt-cache show NAME=VERSION...`: the fields of each package, continuation lines left out."""
    found: List[Dict[str, str]] = []
    for block in re.split(r"\n\s*\n", text):
        fields = {match.group("name"): match.group("value") for match in map(_FIELD.match, block.splitlines()) if match}
        if "Package" in fields:
            found.append(fields)
    return found


def names_in(relation: str) -> List[str]:
    """Package names of a Conflicts or Breaks field."""
    parts = re.split(r"[,|]", relation)
    return [part.split("(")[0].split(":")[0].strip() for part in parts if part.strip()]
