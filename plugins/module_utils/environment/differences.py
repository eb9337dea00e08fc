"""Says in words how an environment differs from its lock and from the day it was built."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Dict, List, Mapping, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.requirements import Requirement

#: How many files of each kind are named before the rest is only counted.
NAMED = 4
#: name -> (version, hashes the lock allowed), as the build record keeps it.
Locked = Mapping[str, Tuple[str, Sequence[str]]]
#: relative path -> (permission bits, content: sha256 of a file or "-> target" of a link).
Files = Mapping[str, Tuple[int, str]]


def lock_changes(wanted: Mapping[str, Requirement], locked: Locked) -> List[str]:
    """What the lock asks for now and did not when the environment was built."""
    changes: List[str] = []
    for name in sorted(set(wanted) | set(locked)):
        if name not in locked:
            changes.append(f"lock changed: package {name} {wanted[name].version} is new")
        elif name not in wanted:
            changes.append(f"lock changed: package {name} {locked[name][0]} is no longer in it")
        elif wanted[name].version != locked[name][0]:
            changes.append(f"lock changed: package {name} {locked[name][0]} -> {wanted[name].version}")
        elif not set(locked[name][1]) <= set(wanted[name].hashes):
            changes.append(f"lock changed: package {name} {locked[name][0]} has other hashes")
    return changes


def package_changes(expected: Mapping[str, str], installed: Mapping[str, Sequence[str]]) -> List[str]:
    """How the installed packages moved away from the expected ones. A name may be installed more than once."""
    changes: List[str] = []
    for name in sorted(set(expected) | set(installed)):
        versions = list(installed.get(name, ()))
        if not versions:
            changes.append(f"package {name} missing")
        elif len(versions) > 1:
            changes.append(f"package {name} is installed more than once: {', '.join(sorted(versions))}")
        elif name not in expected:
            changes.append(f"package {name} {versions[0]} is not in the lock")
        elif versions[0] != expected[name]:
            changes.append(f"package {name} moved {expected[name]} -> {versions[0]}")
    return changes


def file_changes(recorded: Files, present: Files) -> List[str]:
    """Which files are altered, foreign or missing, named as a person would look for them: a few of each kind."""
    kinds: Dict[str, List[str]] = {"edited": [], "mode": [], "foreign": [], "missing": []}
    for path in sorted(set(recorded) | set(present)):
        shown = short_path(path)
        if path not in present:
            kinds["missing"].append(f"file {shown} missing")
        elif path not in recorded:
            kinds["foreign"].append(f"file {shown} is foreign")
        elif recorded[path][1] != present[path][1]:
            kinds["edited"].append(f"file {shown} edited")
        elif recorded[path][0] != present[path][0]:
            kinds["mode"].append(f"file {shown} has mode {present[path][0]:04o}, was {recorded[path][0]:04o}")
    # A deleted folder must not hide the one file that somebody edited.
    texts = [text for found in kinds.values() for text in found[:NAMED]]
    rest = sum(len(found) for found in kinds.values()) - len(texts)
    return [*texts, f"and {rest} more files"] if rest else texts


def short_path(path: str) -> str:
    """`lib/python3.11/site-packages/torch/x.py` -> `torch/x.py`."""
    return path.split("/site-packages/", 1)[-1]


def record_mismatches(record: Mapping[str, str], present: Files) -> List[str]:
    """Which files are not what the packages' own RECORD says (relative path -> sha256, "" = not recorded)."""
    problems: Dict[str, str] = {}
    for path, digest in record.items():
        if path not in present:
            problems[path] = f"file {short_path(path)} missing"
        elif digest and present[path][1] != digest:
            problems[path] = f"file {short_path(path)} is not what its package's RECORD says"
    return [problems[path] for path in sorted(problems)]
