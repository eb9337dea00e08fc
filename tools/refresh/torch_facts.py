"""What metadata tells of PyTorch's releases, and where data/torch.yml says otherwise. Pure: texts in, findings out."""

from __future__ import annotations

import email.parser
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.markers import MarkerError, evaluate
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import (
    minor,
    normalise_name,
    normalise_version,
    numbers,
    satisfies,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.wheels import fits, marker_environment

from tools.refresh.index import File

#: The machine whose plain wheel is `default` in data/torch.yml.
DEFAULT_MACHINE = "x86_64"
_TAG = re.compile(r"cp(3)([0-9]+)$")
_REQUIREMENT = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?(?P<wish>[^;()]*)\)?\s*(?:;(?P<marker>.*))?$"
)

#: Key of data/torch.yml -> the packages that a wheel asks for by it.
Names = Mapping[str, Sequence[str]]


class Build(NamedTuple):
    """What the METADATA of one wheel says."""

    file: str
    requires_python: str
    pins: dict[str, str]  # as data/torch.yml words them: nccl, cudnn, cuda_runtime, cuda_toolkit, triton

    @property
    def variant(self) -> str | None:
        """The CUDA build by the CUDA it pins."""
        cuda = self.pins.get("cuda_runtime") or self.pins.get("cuda_toolkit")
        return "cu" + "".join(cuda.split(".")[:2]) if cuda else None


class Finding(NamedTuple):
    """A value of a data file that metadata contradicts or adds to. Not `writable`: `note` says why."""

    path: tuple[str, ...]
    old: Any
    new: Any
    where: str
    writable: bool = True
    note: str = ""
    file: str = "data/torch.yml"


def wheels(files: Iterable[File]) -> dict[tuple[str, str], list[File]]:
    """Linux wheels by release and label ("" is the plain one, cu126 a build of PyTorch's own index)."""
    found: dict[tuple[str, str], dict[str, File]] = {}
    for file in files:
        parts = file.name.removesuffix(".whl").split("-")
        if len(parts) < 5 or not file.name.endswith(".whl") or "linux" not in parts[-1]:
            continue
        release, _plus, label = normalise_version(parts[1]).partition("+")
        if re.fullmatch(r"[0-9]+(\.[0-9]+)+", release):  # no release candidates
            found.setdefault((release, label), {}).setdefault(file.name, file)  # the first place counts
    return {key: list(by_name.values()) for key, by_name in found.items()}


def pythons(files: Sequence[File], machine: str, all_files: Iterable[File]) -> list[str]:
    """The Pythons that one of the wheels can be installed for on this machine."""
    tags = {tag for file in all_files for part in file.name.split("-")[2:-1] for tag in part.split(".")}
    known = {".".join(match.groups()) for tag in tags if (match := _TAG.match(tag))}
    platform = f"linux-{machine}"
    return sorted((one for one in known if any(fits(file.name, one, platform) for file in files)), key=numbers)


def to_read(files: Sequence[File]) -> File | None:
    """The wheel whose METADATA speaks for a build: the newest build number, as installers choose; the oldest Python."""
    mine = [file for file in files if pythons([file], DEFAULT_MACHINE, files)]
    order = sorted(mine, key=lambda file: (-_build_number(file), numbers(pythons([file], DEFAULT_MACHINE, files)[0])))
    return next((file for file in order if file.metadata), order[0] if order else None)


def _build_number(file: File) -> int:
    """name-version(-build)?-python-abi-platform.whl"""
    parts = file.name.split("-")
    return numbers(parts[2])[0] if len(parts) == 6 else -1


def build(file: File, text: str, names: Names) -> Build:
    """ValueError where the text is not the METADATA of this wheel."""
    message = email.parser.HeaderParser().parsestr(text)
    said = f"{normalise_name(message.get('Name') or '')} {normalise_version(message.get('Version') or '')}"
    name, version = file.name.split("-")[:2]
    if said != f"{normalise_name(name)} {normalise_version(version)}":
        raise ValueError(f"METADATA of {file.name} says that it is {said.strip() or 'nothing'}")
    python = pythons([file], DEFAULT_MACHINE, [file])[0]
    by_package = {package: key for key, packages in names.items() for package in packages}
    pins: dict[str, str] = {}
    for line in message.get_all("Requires-Dist") or []:
        match = _REQUIREMENT.match(" ".join(line.split()))
        key = by_package.get(normalise_name(match.group("name"))) if match else None
        if not match or not key:
            continue
        try:
            meant = evaluate(match.group("marker") or "", marker_environment(python, f"linux-{DEFAULT_MACHINE}"))
        except MarkerError as error:
            raise ValueError(f"METADATA of {file.name}: {error}") from error
        if meant:
            wish = match.group("wish").replace(" ", "")
            pins[key] = wish if key == "triton" else wish.removeprefix("==")
    return Build(file.name, (message.get("Requires-Python") or "").replace(" ", ""), pins)


def of_release(
    version: str, row: Mapping[str, Any], files: Sequence[File], read: Build | None, all_files: Sequence[File]
) -> list[Finding]:
    """What the index says otherwise of one release that is in data."""
    found: list[Finding] = []
    path = ("releases", version)
    if files and all(file.yanked for file in files):
        note = "its authors took it back; releases and locks that name it need another"
        found.append(Finding((*path,), "a release", "yanked", files[0].place, False, note))
    floor = (read.requires_python if read else "") or next((f.requires_python for f in files if f.requires_python), "")
    floor = floor.replace(" ", "")
    if floor and floor != row["requires_python"]:
        found.append(Finding((*path, "requires_python"), row["requires_python"], floor, _place(files, read)))
    for machine, listed in row["python"].items():
        found += _of_pythons((*path, "python", machine), listed, pythons(files, machine, all_files), floor, files)
    if read:
        pins = _of_pins((*path, "default"), row["default"], read)
        variant = row["default"]["variant"]
        if read.variant and read.variant != variant:
            note = "variant, pins and the rows of its line belong together: change them by hand"
            pins = [pin._replace(writable=False, note=note) for pin in pins]
            pins.append(Finding((*path, "default", "variant"), variant, read.variant, _place(files, read), False, note))
        found += pins
    return found


def of_line(line: str, row: Mapping[str, Any], variant: str, read: Build) -> list[Finding]:
    """What the newest release of a line says otherwise of one of its builds (only NCCL and cuDNN stand there)."""
    kept = {key: value for key, value in read.pins.items() if key in ("nccl", "cudnn")}
    return _of_pins(("lines", line, variant), row.get(variant) or {}, read._replace(pins=kept))


def new_releases(known: Iterable[str], offered: Mapping[tuple[str, str], Sequence[File]]) -> list[str]:
    """Releases of the index that are younger than the oldest in data, and not in it."""
    rows = set(known)
    oldest = min(numbers(version) for version in rows) if rows else ()
    plain = {release for (release, label), files in offered.items() if not label and not all(f.yanked for f in files)}
    return sorted((one for one in plain - rows if numbers(one) > oldest), key=numbers)


def newest_builds(reads: Mapping[tuple[str, str], Build]) -> dict[tuple[str, str], Build]:
    """For each line and variant, what its newest release says; a labelled wheel before the plain one."""
    found: dict[tuple[str, str], Build] = {}
    for (release, label), read in sorted(reads.items(), key=lambda item: (numbers(item[0][0]), item[0][1])):
        variant = label or read.variant
        if variant and variant.startswith("cu"):
            found[minor(release), variant] = read
    return found


def unknown_nccl(known: Iterable[str], reads: Iterable[Build]) -> list[Finding]:
    """Releases of NCCL that a wheel pins and data/nccl.yml does not judge."""
    pinned = {read.pins["nccl"]: read.file for read in reads if "nccl" in read.pins}
    note = "a row needs its date and its known faults"
    return [
        Finding(("releases", version), None, "pinned", f"METADATA of {file}", False, note, "data/nccl.yml")
        for version, file in sorted(pinned.items())
        if version not in known
    ]


def _of_pythons(
    path: tuple[str, ...], listed: Sequence[str], told: Sequence[str], floor: str, files: Sequence[File]
) -> list[Finding]:
    """Pythons that the index adds or that the wheels' own floor excludes. A missing wheel alone removes nothing."""
    if not told:
        return []
    merged = sorted((one for one in {*listed, *told} if _allowed(one, floor)), key=numbers)
    found: list[Finding] = []
    if merged != list(listed):
        found.append(Finding(path, list(listed), merged, files[0].place))
    if unseen := [one for one in listed if one not in told and one in merged]:
        note = "a place may list less than there is: remove it by hand, if it never was"
        found.append(Finding(path, unseen, "no wheel listed", files[0].place, False, note))
    return found


def _of_pins(path: tuple[str, ...], row: Mapping[str, Any], read: Build) -> list[Finding]:
    found: list[Finding] = []
    where = f"METADATA of {read.file}"
    for key, value in read.pins.items():
        if row.get(key) == value:
            continue
        exact = key == "triton" or re.fullmatch(r"[0-9]+(\.[0-9]+)+", value) is not None
        note = "" if exact else "not one exact version: the row's form does not hold it"
        found.append(Finding((*path, key), row.get(key), value, where, exact, note))
    for key in ("nccl", "cudnn", "cuda_runtime", "cuda_toolkit", "triton"):
        if key in row and key not in read.pins and path[0] == "releases":
            note = "the wheel asks for none: remove it by hand, if it never did"
            found.append(Finding((*path, key), row[key], "not asked for", where, False, note))
    return found


def _allowed(python: str, floor: str) -> bool:
    """Can a Python 3.9.x meet `>=3.9.0`? Only floors exclude: other bounds are about single patch releases."""
    return all(satisfies(f"{python}.99", ">=", wish) is not False for wish in re.findall(r">=([^,]+)", floor))


def _place(files: Sequence[File], read: Build | None) -> str:
    return f"METADATA of {read.file}" if read else files[0].place
