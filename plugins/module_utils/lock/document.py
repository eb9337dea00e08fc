"""The lock as a document: its digest, whether it is whole, and whether it is still what was declared."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, Mapping, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem

SCHEMA = 1
#: What every reader of a lock counts on: key -> kind of value.
_LOCK: Mapping[str, Any] = {"index_date": str, "data_revision": str, "stacks": list, "systems": list, "sources": list}
_PROFILE: Mapping[str, Any] = {
    "name": str,
    "pool": str,
    "platform": str,
    "python": list,
    "accelerator": str,
    "gpu_driver_min": dict,
    "pytorch": {"version": str, "variant": str},
    "requirements": {"file": str, "sha256": str},
}
NAME = "stack.lock.yml"
_UPDATE = "see what changes with playbooks/lock.yml --check, then make the lock again without --check"
_FIX = "make it again with playbooks/lock.yml, or take the committed one back from version control"


def sha256(text: str) -> str:
    """Hex digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def digest(lock: Mapping[str, Any]) -> str:
    """One value for everything the lock says, itself left out."""
    rest = {key: value for key, value in lock.items() if key != "digest"}
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def sealed(lock: Mapping[str, Any]) -> Dict[str, Any]:
    """The lock with its digest in second place, as it is written."""
    rest = {key: value for key, value in lock.items() if key not in ("schema", "digest")}
    return {"schema": SCHEMA, "digest": digest({"schema": SCHEMA, **rest}), **rest}


def problems(lock: Any, texts: Mapping[str, str], where: str = NAME) -> List[Problem]:
    """What is wrong with a lock that was read. `texts`: content of the requirement files it names, by their name."""
    if not isinstance(lock, Mapping) or not isinstance(lock.get("profiles"), list) or not lock["profiles"]:
        return [_problem("lock.unreadable", where, "profiles", "", "this is no lock", _FIX)]
    if lock.get("schema") != SCHEMA:
        text = f"this version reads schema {SCHEMA}"
        return [_problem("lock.schema", where, "schema", str(lock.get("schema")), text, _FIX)]
    if lock.get("digest") != digest(lock):
        text = "does not match the content: the lock was edited by hand"
        return [_problem("lock.digest", where, "digest", str(lock.get("digest"))[:12], text, _FIX)]
    shape = [
        *_shape(lock, _LOCK, ""),
        *(line for row in lock["profiles"] for line in _shape(row, _PROFILE, "profiles.")),
    ]
    if shape:
        return [_problem("lock.unreadable", where, key, "", text, _FIX) for key, text in shape[:1]]
    found: List[Problem] = []
    for profile in lock["profiles"]:
        name = profile["requirements"]["file"]
        key = f"profiles.{profile['name']}.requirements"
        if name not in texts:
            found.append(_problem("lock.file_missing", where, key, name, "the file is not beside the lock", _FIX))
        elif sha256(texts[name]) != profile["requirements"]["sha256"]:
            found.append(_problem("lock.file_changed", where, key, name, "the file was edited by hand", _FIX))
    names = [profile["name"] for profile in lock["profiles"]]
    for name in sorted({name for name in names if names.count(name) > 1}):
        found.append(_problem("lock.unreadable", where, "profiles", name, "two profiles have this name", _FIX))
    return found


def _shape(part: Any, expected: Mapping[str, Any], place: str) -> List[Tuple[str, str]]:
    """What is missing or of the wrong kind: [(key, what)]."""
    if not isinstance(part, Mapping):
        return [(place.rstrip("."), "must be keys with values")]
    found: List[Tuple[str, str]] = []
    for key, kind in expected.items():
        if isinstance(kind, Mapping):
            found += _shape(part.get(key), kind, f"{place}{key}.")
        elif not isinstance(part.get(key), kind):
            found.append((f"{place}{key}", "is missing or of the wrong kind"))
    return found


def stale(lock: Mapping[str, Any], declared: Mapping[str, Any], revision: str, where: str = NAME) -> List[Problem]:
    """Whether a host's declaration or the facts under data/ were changed after the lock was made."""
    if said(declared) not in lock["stacks"]:
        text = "the declaration was changed after the lock was made"
        return [_problem("lock.declaration_changed", where, "stacks", json.dumps(said(declared)), text, _UPDATE)]
    if lock["data_revision"] != revision:
        text = "files of data/ that the lock was made from were changed after it"
        return [_problem("lock.data_changed", where, "data_revision", str(lock["data_revision"])[:12], text, _UPDATE)]
    return []


def said(declared: Mapping[str, Any]) -> Dict[str, Any]:
    """A declaration without what means the same as leaving it out, so that two can be compared."""
    return {
        key: [str(one) for one in value] if isinstance(value, list) else str(value)
        for key, value in sorted(declared.items())
        if value not in ("auto", [], None)
    }


def _problem(rule: str, where: str, key: str, value: str, text: str, fix: str) -> Problem:
    return {"rule": rule, "where": where, "key": key, "value": value, "text": text, "fix": fix}
