"""Words for people: what was asked, what differs, what is new, what could not be compared. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools.refresh import torch_facts
from tools.refresh.index import File
from tools.refresh.reading import Reading

#: What a row for a new release needs and metadata does not hold.
_UNTOLD = "compute capabilities of its builds, which variants PyTorch's own index has, aarch64, companions"
_WAYS = {
    "metadata file": "METADATA of {} wheels came as files of its own (PEP 658)",
    "byte range of the wheel": "METADATA of {} wheels was read by byte range: no metadata files (PEP 658) there",
    "wheel on this machine": "METADATA of {} wheels was read from wheels on this machine",
}


def how(reading: Reading, seconds: float) -> Iterator[str]:
    """Where it was read, and what that cost."""
    for place, form in reading.forms.items():
        yield f"Read {place} ({form})"
    for way, number in reading.ways.items():
        yield _WAYS[way].format(number)
    client = reading.client
    yield f"{client.requests} requests, {client.bytes / 1e6:.1f} MB, {seconds:.1f} s; no wheel was downloaded"


def differences(found: Sequence[torch_facts.Finding]) -> Iterator[str]:
    """File, key, old -> new, where it was read."""
    for file in dict.fromkeys(finding.file for finding in found):
        yield f"\n{file}"
        for finding in (one for one in found if one.file == file):
            old = "not known" if finding.old is None else _words(finding.old)
            yield f"  {'.'.join(finding.path)}: {old} -> {_words(finding.new)}"
            yield f"      read in {finding.where}"
            if not finding.writable:
                yield f"      never written: {finding.note}"


def new_release(version: str, reading: Reading, machines: Sequence[str]) -> Iterator[str]:
    """A release that data lacks: what is told, what is not."""
    files = reading.offered[version, ""]
    build = reading.builds.get((version, ""))
    days = sorted(file.uploaded for file in files if file.uploaded)
    yield f"  {version}"
    if days:
        yield f"      date: {days[0]}"
    if build:
        yield f"      requires_python: {build.requires_python}"
        yield f"      default: {_words({'variant': build.variant or 'none (a CPU build)', **build.pins})}"
    for machine in machines:
        yield f"      python on {machine}: {_words(torch_facts.pythons(files, machine, reading.files)) or 'none'}"
    yield f"      not told by metadata: {_UNTOLD}"


def not_compared(releases: Sequence[str], reading: Reading) -> Iterator[str]:
    """What says nothing, so that silence is not taken for agreement."""
    absent = [one for one in releases if (one, "") not in reading.offered]
    if absent:
        yield f"Not listed there, so not compared: {', '.join(absent)}"
    unread = {file.name for file in reading.unread}
    mute = [one for one in releases if one not in absent and (one, "") not in reading.builds]
    mute = [one for one in mute if not _names(reading.offered[one, ""]) & unread]
    if mute:
        yield f"No wheel for {torch_facts.DEFAULT_MACHINE} there, so pins were not compared: {', '.join(mute)}"


def _names(files: Sequence[File]) -> set[str]:
    return {file.name for file in files}


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {one}" for key, one in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
