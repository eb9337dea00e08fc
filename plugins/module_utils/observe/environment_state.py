"""Looks at a Python environment on the node, read-only: is it still what the lock says and what was built?"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.differences import (
    file_changes,
    lock_changes,
    package_changes,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.markers import MarkerError
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.requirements import (
    RequirementError,
    parse,
    select,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import (
    normalise_name,
    normalise_version,
)

#: What a finished build leaves in its environment; an environment without it is an interrupted build.
BUILD_RECORD = ".trainrig.json"
BUILD_SCHEMA = 1
#: Files that tools rewrite at will and that no program imports.
_IGNORED_FILES = frozenset((BUILD_RECORD, ".lock"))
_INTERPRETER_TIMEOUT_S = 60
_MARKERS = """
import json, os, platform, sys
i = sys.implementation.version
v = "%d.%d.%d" % i[:3] + ("" if i[3] == "final" else i[3][0] + str(i[4]))
print(json.dumps({"implementation_name": sys.implementation.name, "implementation_version": v, "os_name": os.name,
    "platform_machine": platform.machine(), "platform_python_implementation": platform.python_implementation(),
    "platform_release": platform.release(), "platform_system": platform.system(),
    "platform_version": platform.version(), "python_full_version": platform.python_version(),
    "python_version": ".".join(platform.python_version_tuple()[:2]), "sys_platform": sys.platform}))
"""


def environment_state(path: str, requirements_text: str) -> Dict[str, Any]:
    """Compare the environment behind the link (or directory) `path` with a hash-checked requirement file.

    Returns `target` (the real directory or None), `python` (its version), `packages` (name -> version),
    `stat_digest` (of all its files, cheap to take again) and `problems`: [] exactly when the installed set is
    the locked one, no file is missing or altered, and no foreign file was added (bytecode aside).
    """
    link = Path(path)
    state: Dict[str, Any] = {"target": None, "python": None, "packages": {}, "stat_digest": None, "problems": []}
    if not link.exists():
        dangling = link.is_symlink()
        state["problems"] = [f"{path} points to nothing" if dangling else f"{path} does not exist"]
        return state
    root = link.resolve()
    state["target"] = str(root)
    record = read_record(root)
    if record is None:
        state["problems"] = [f"{root} is not a finished build ({BUILD_RECORD} missing or unreadable)"]
        return state
    try:
        markers = marker_environment(root / "bin" / "python")
    except InterpreterError as error:
        state["problems"] = [str(error)]
        return state
    state["python"] = markers["python_full_version"]
    try:
        wanted = select(parse(requirements_text), markers)
    except (RequirementError, MarkerError) as error:
        state["problems"] = [f"requirement file: {error}"]
        return state
    locked = {name: (entry[0], entry[1]) for name, entry in record["locked"].items()}
    installed = installed_packages(root)
    state["packages"] = {name: versions[0] for name, versions in sorted(installed.items())}
    problems = lock_changes(wanted, locked)
    if record["python"] != markers["python_full_version"]:
        problems.append(f"interpreter moved {record['python']} -> {markers['python_full_version']}")
    problems += package_changes({name: entry[0] for name, entry in locked.items()}, installed)
    listing = list_files(root)
    state["stat_digest"] = stat_digest(listing)
    if state["stat_digest"] != record["stat_digest"]:
        recorded = {name: (entry[0], entry[1]) for name, entry in record["files"].items()}
        problems += file_changes(recorded, read_files(root, listing))
    state["problems"] = problems
    return state


class InterpreterError(Exception):
    """An interpreter that is not there or does not start."""


def marker_environment(python: Path) -> Dict[str, str]:
    """What the interpreter itself says about the things a requirement's marker may ask."""
    if not python.exists():
        raise InterpreterError(f"interpreter {python} is missing or points to nothing")
    try:
        # -I: neither the caller's PYTHON* variables nor the current directory may change the answer.
        done = subprocess.run(
            [str(python), "-I", "-S", "-c", _MARKERS],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_INTERPRETER_TIMEOUT_S,
            check=True,
        )
        answer: Dict[str, str] = json.loads(done.stdout.decode())
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise InterpreterError(f"interpreter {python} does not start: {error}") from error
    return answer


def read_record(root: Path) -> Optional[Dict[str, Any]]:
    """The build record of an environment; None where it is missing, damaged or of another schema."""
    try:
        record = json.loads((root / BUILD_RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("schema") != BUILD_SCHEMA:
        return None
    pairs = all(isinstance(record.get(name), dict) and _pairs(record[name]) for name in ("locked", "files"))
    texts = all(isinstance(record.get(name), str) for name in ("python", "stat_digest", "requirements_sha256"))
    return record if pairs and texts else None


def _pairs(mapping: Dict[str, Any]) -> bool:
    return all(isinstance(value, list) and len(value) == 2 for value in mapping.values())


def is_intact(root: Path) -> bool:
    """Was this build finished, and is every file as it was then? (By the cheap digest: a doubt counts as no.)"""
    record = read_record(root)
    return record is not None and record["stat_digest"] == stat_digest(list_files(root))


def site_packages(root: Path) -> List[Path]:
    """The directories that hold the environment's packages."""
    return sorted(path for path in (root / "lib").glob("python*/site-packages") if path.is_dir())


def installed_packages(root: Path) -> Dict[str, List[str]]:
    """Every installed distribution: name -> versions (more than one where an installer left remains)."""
    packages: Dict[str, List[str]] = {}
    for directory in site_packages(root):
        for info in sorted(directory.glob("*.dist-info")):
            name, version = _identity(info)
            packages.setdefault(normalise_name(name), []).append(normalise_version(version))
    return packages


def _identity(info: Path) -> Tuple[str, str]:
    """Name and version from METADATA; from the directory's name where that is damaged."""
    name, _sep, version = info.name[: -len(".dist-info")].partition("-")
    try:
        with (info / "METADATA").open(encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if not line.strip():
                    break
                key, _sep, value = line.partition(":")
                if key.lower() == "name":
                    name = value.strip()
                elif key.lower() == "version":
                    version = value.strip()
    except OSError:
        pass  # the missing METADATA is named by the file check
    return name, version


def list_files(root: Path) -> Dict[str, os.stat_result]:
    """Every file and link below `root` by relative path; bytecode directories and tools' lock files left out."""
    found: Dict[str, os.stat_result] = {}
    for relative, entry in _walk(str(root), ""):
        found[relative] = entry
    return found


def _walk(directory: str, prefix: str) -> Iterator[Tuple[str, os.stat_result]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            relative = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _walk(entry.path, relative + "/")
            elif relative not in _IGNORED_FILES:
                yield relative, entry.stat(follow_symlinks=False)


def stat_digest(listing: Dict[str, os.stat_result]) -> str:
    """One value that changes whenever a file was written, replaced, added, removed, or its mode changed."""
    digest = hashlib.sha256()
    for relative in sorted(listing):
        entry = listing[relative]
        line = f"{relative}\0{entry.st_size}\0{entry.st_mtime_ns}\0{entry.st_ctime_ns}\0{entry.st_mode}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def read_files(root: Path, listing: Dict[str, os.stat_result]) -> Dict[str, Tuple[int, str]]:
    """The exact content of every listed file: permission bits, and sha256 or the link's target."""
    content: Dict[str, Tuple[int, str]] = {}
    for relative, entry in listing.items():
        path = root / relative
        try:
            if stat.S_ISLNK(entry.st_mode):
                content[relative] = (0o777, "-> " + os.readlink(str(path)))
            elif stat.S_ISREG(entry.st_mode):
                content[relative] = (stat.S_IMODE(entry.st_mode), sha256(path))
            else:
                content[relative] = (stat.S_IMODE(entry.st_mode), "not a regular file")
        except FileNotFoundError:
            continue
        except OSError as error:
            content[relative] = (stat.S_IMODE(entry.st_mode), f"unreadable: {error.strerror}")
    return content


def sha256(path: Path) -> str:
    """Hex digest of a file's content, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def package_records(root: Path) -> Dict[str, str]:
    """What all RECORD files of the environment promise: relative path -> sha256 ("" where none is given)."""
    promised: Dict[str, str] = {}
    for directory in site_packages(root):
        base = os.path.relpath(str(directory), str(root))
        for record in sorted(directory.glob("*.dist-info/RECORD")):
            with record.open(encoding="utf-8", newline="") as stream:
                for row in csv.reader(stream):
                    if not row or "/__pycache__/" in row[0]:
                        continue
                    path = os.path.normpath(f"{base}/{row[0]}")
                    promised[path] = _record_digest(row[1]) if len(row) > 1 else ""
    return promised


def _record_digest(text: str) -> str:
    """RECORD's urlsafe base64 without padding as hex; "" for no or another hash."""
    algorithm, _sep, value = text.partition("=")
    if algorithm != "sha256":
        return ""
    return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
