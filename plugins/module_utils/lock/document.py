"""The lock as a document: its digest, whether it is whole, and whether it is still what was declared."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, Mapping, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem

SCHEMA = 1
#: What every reader of a lock counts on: key -> kind of value.
_LOCK: Mapping[str, Any] = {
    "index_date": str,
    "data_revision": str,
    "asked": str,
    "declared": list,
    "systems": list,
    "sources": list,
}
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
_SYSTEM: Mapping[str, Any] = {
    "name": str,
    "pool": str,
    "platform": str,
    "resolution": dict,
    "install": dict,
    "origins": list,
    "packages": list,
    "remove": list,
    "conflicts": list,
}
_ORIGIN: Mapping[str, Any] = {"id": str, "suite": str, "components": list}
_PACKAGE: Mapping[str, Any] = {"name": str, "version": str, "origin": str, "layer": str, "sha256": str, "pin": bool}


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
    shape = _shape(lock, _LOCK, "") + _rows(lock["profiles"], _PROFILE, "profiles.")
    for system in lock["systems"] if not shape else []:
        shape += _shape(system, _SYSTEM, "systems.")
        if not shape:
            shape += _rows(system["origins"], _ORIGIN, "systems.origins.")
            shape += _rows(system["packages"], _PACKAGE, "systems.packages.")
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


def _rows(rows: List[Any], expected: Mapping[str, Any], place: str) -> List[Tuple[str, str]]:
    return [line for row in rows for line in _shape(row, expected, place)]


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


def stale(
    lock: Mapping[str, Any], pool: str, stack: Mapping[str, Any], settings: Any, revision: str, where: str = NAME
) -> List[Problem]:
    """Whether what a host's lock was made from is still so: its declaration, the inventory's settings, data/.

    `settings`: the inventory's trainrig_lock; `revision`: of data/ today.
    """
    if declaration(pool, stack) not in lock["declared"]:
        text = "the declaration was changed after the lock was made"
        value = f"pool {pool}: {json.dumps(said(stack))}"
        return [_problem("lock.declaration_changed", where, "declared", value, text, _UPDATE)]
    if lock["asked"] != asked(settings):
        text = "the inventory asks for other profiles or sources since the lock was made"
        return [_problem("lock.settings_changed", where, "asked", "trainrig_lock", text, _UPDATE)]
    if lock["data_revision"] != revision:
        text = "files of data/ that the lock was made from were changed after it"
        return [_problem("lock.data_changed", where, "data_revision", str(lock["data_revision"])[:12], text, _UPDATE)]
    return []


def declaration(pool: str, stack: Mapping[str, Any]) -> Dict[str, Any]:
    """What the lock keeps of a host's declaration."""
    return {"pool": pool, "stack": said(stack)}


def asked(settings: Any) -> str:
    """One value for an inventory's trainrig_lock. The date is left out: the lock has one of its own."""
    rest = (
        {key: value for key, value in settings.items() if key != "index_date"} if isinstance(settings, Mapping) else {}
    )
    return sha256(json.dumps(rest, sort_keys=True, default=str))[:16]


def said(stack: Mapping[str, Any]) -> Dict[str, Any]:
    """A declaration in one spelling, without what means the same as leaving it out."""
    found: Dict[str, Any] = {}
    for key, value in sorted(stack.items()):
        if isinstance(value, list):
            value = sorted({str(one) for one in value})
        else:
            value = "off" if value is False else str(value).strip()  # YAML reads off as false
        if value not in ("auto", [], "None"):
            found[key] = value
    return found


def _problem(rule: str, where: str, key: str, value: str, text: str, fix: str) -> Problem:
    return {"rule": rule, "where": where, "key": key, "value": value, "text": text, "fix": fix}
