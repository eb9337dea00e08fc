"""The lock as a document: its digest, whether it is whole, and what changed between two of them."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, Mapping

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.requirements import RequirementError, parse
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem

SCHEMA = 1
NAME = "stack.lock.yml"
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
    found: List[Problem] = []
    for profile in lock["profiles"]:
        name = profile["requirements"]["file"]
        key = f"profiles.{profile['name']}.requirements"
        if name not in texts:
            found.append(_problem("lock.file_missing", where, key, name, "the file is not beside the lock", _FIX))
        elif sha256(texts[name]) != profile["requirements"]["sha256"]:
            found.append(_problem("lock.file_changed", where, key, name, "the file was edited by hand", _FIX))
    return found


def difference(
    old: Mapping[str, Any], new: Mapping[str, Any], old_texts: Mapping[str, str], new_texts: Mapping[str, str]
) -> List[str]:
    """What changed from one lock to the next, as a person would tell it. [] where nothing did."""
    if not old:
        return [f"new lock with {len(new['profiles'])} profiles: " + ", ".join(p["name"] for p in new["profiles"])]
    lines: List[str] = []
    for key in ("schema", "index_date", "stack"):
        if old.get(key) != new.get(key):
            lines.append(f"{key}: {_shown(old.get(key))} -> {_shown(new.get(key))}")
    before = {profile["name"]: profile for profile in old.get("profiles") or []}
    after = {profile["name"]: profile for profile in new["profiles"]}
    lines += [f"profile {name}: removed" for name in before if name not in after]
    for name, profile in after.items():
        if name not in before:
            torch = profile["pytorch"]
            lines.append(f"profile {name}: new, PyTorch {torch['version']} {torch['variant']}")
            continue
        lines += [f"profile {name}: {line}" for line in _profile_difference(before[name], profile)]
        texts = (old_texts.get(before[name]["requirements"]["file"], ""), new_texts[profile["requirements"]["file"]])
        lines += [f"profile {name}: {line}" for line in _package_difference(*texts)]
    if list(before) != list(after) and set(before) == set(after):
        lines.append("profiles are preferred in another order")
    return lines


def _profile_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> List[str]:
    keys = [key for key in (*old, *(key for key in new if key not in old)) if key not in ("requirements", "name")]
    return [f"{key}: {_shown(old.get(key))} -> {_shown(new.get(key))}" for key in keys if old.get(key) != new.get(key)]


def _package_difference(old: str, new: str) -> List[str]:
    try:
        before, after = _packages(old), _packages(new)
    except RequirementError:
        return ["the requirement file could not be read before"]
    lines: List[str] = []
    for name in sorted(set(before) | set(after)):
        if name not in before:
            lines.append(f"package {name} {', '.join(after[name])} is new")
        elif name not in after:
            lines.append(f"package {name} {', '.join(before[name])} is gone")
        elif list(before[name]) != list(after[name]):
            lines.append(f"package {name} {', '.join(before[name])} -> {', '.join(after[name])}")
        elif before[name] != after[name]:
            lines.append(f"package {name} {', '.join(after[name])}: other files (hashes or markers changed)")
    return lines


def _packages(text: str) -> Dict[str, Dict[str, Any]]:
    """name -> version -> what else is said about it."""
    found: Dict[str, Dict[str, Any]] = {}
    for requirement in parse(text):
        found.setdefault(requirement.name, {})[requirement.version] = (requirement.marker, requirement.hashes)
    return found


def _shown(value: Any) -> str:
    return "none" if value is None else json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _problem(rule: str, where: str, key: str, value: str, text: str, fix: str) -> Problem:
    return {"rule": rule, "where": where, "key": key, "value": value, "text": text, "fix": fix}
