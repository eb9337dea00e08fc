"""What changed from one lock to the next, as a person would tell it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
from typing import Any, Dict, Iterable, List, Mapping, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.requirements import RequirementError, parse

Lock = Mapping[str, Any]
#: Told line by line below; the rest of a system is told as a whole.
_TOLD = ("packages", "resolution")
#: Of the packages that are not pinned only the number of changes is told, from this many on.
_FEW = 5


def difference(old: Lock, new: Lock, old_texts: Mapping[str, str], new_texts: Mapping[str, str]) -> List[str]:
    """One line a change, [] where nothing did. The texts: requirement files by the name that the lock uses."""
    if not old:
        lines = [f"new lock with {len(new['profiles'])} profiles: {_names(new['profiles'])}"]
        return lines + ([f"and {len(new['systems'])} systems: {_names(new['systems'])}"] if new.get("systems") else [])
    lines = [
        f"{key}: {_shown(old.get(key))} -> {_shown(new.get(key))}"
        for key in ("schema", "index_date", "declared", "sources")
        if old.get(key) != new.get(key)
    ]
    if old.get("asked") != new.get("asked"):
        lines.append("trainrig_lock was changed since")
    if old.get("data_revision") != new.get("data_revision"):
        lines.append("data/ was changed since; what that means is listed here, nothing else follows from it")
    lines += _profiles(old, new, old_texts, new_texts)
    return lines + _systems(old.get("systems") or [], new.get("systems") or [])


def _profiles(old: Lock, new: Lock, old_texts: Mapping[str, str], new_texts: Mapping[str, str]) -> List[str]:
    before = {profile["name"]: profile for profile in old.get("profiles") or []}
    after = {profile["name"]: profile for profile in new["profiles"]}
    lines = [f"profile {name}: removed" for name in before if name not in after]
    for name, profile in after.items():
        if name not in before:
            torch = profile["pytorch"]
            lines.append(f"profile {name}: new, PyTorch {torch['version']} {torch['variant']}")
            continue
        lines += [f"profile {name}: {line}" for line in _keys(before[name], profile, ("requirements", "name"))]
        texts = (old_texts.get(before[name]["requirements"]["file"], ""), new_texts[profile["requirements"]["file"]])
        lines += [f"profile {name}: {line}" for line in _wheels(*texts)]
    if list(before) != list(after) and set(before) == set(after):
        lines.append("profiles are preferred in another order")
    return lines


def _systems(old: Sequence[Lock], new: Sequence[Lock]) -> List[str]:
    before, after = ({system["name"]: system for system in systems} for systems in (old, new))
    lines = [f"system {name}: removed" for name in before if name not in after]
    for name, system in after.items():
        if name not in before:
            lines.append(f"system {name}: new, {len(system['packages'])} packages")
            continue
        earlier = before[name]
        told = _keys(earlier["resolution"], system["resolution"], ())
        told += _packages(earlier["packages"], system["packages"])
        told += _keys(earlier, system, (*_TOLD, "because", "warnings", "remove", "conflicts"))
        for key in ("remove", "conflicts"):
            if earlier[key] != system[key]:
                told.append(f"{key}: {_moved(earlier[key], system[key])}")
        lines += [f"system {name}: {line}" for line in told]
    return lines


def _packages(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> List[str]:
    before, after = ({row["name"]: row for row in rows} for rows in (old, new))
    pinned: List[str] = []
    others: List[str] = []
    for name in sorted({*before, *after}):
        earlier, later = before.get(name), after.get(name)
        if earlier == later:
            continue
        if earlier is None or later is None:
            row = earlier or later or {}
            line = f"package {name} {row['version']} is {'gone' if later is None else 'new'}"
        elif earlier["version"] != later["version"]:
            line = f"package {name} {earlier['version']} -> {later['version']}"
        else:
            line = f"package {name} {later['version']}: {', '.join(_keys(earlier, later, ()))}"
        (pinned if (earlier or {}).get("pin") or (later or {}).get("pin") else others).append(line)
    if len(others) > _FEW:
        others = [f"{len(others)} packages that are not pinned changed"]
    return pinned + others


def _keys(old: Mapping[str, Any], new: Mapping[str, Any], without: Iterable[str]) -> List[str]:
    keys = [key for key in (*old, *(key for key in new if key not in old)) if key not in without]
    return [f"{key}: {_shown(old.get(key))} -> {_shown(new.get(key))}" for key in keys if old.get(key) != new.get(key)]


def _moved(old: Sequence[str], new: Sequence[str]) -> str:
    parts = [f"+{name}" for name in new if name not in old] + [f"-{name}" for name in old if name not in new]
    return ", ".join(parts[:_FEW]) + (f" and {len(parts) - _FEW} more" if len(parts) > _FEW else "")


def _wheels(old: str, new: str) -> List[str]:
    try:
        before, after = _wheel_versions(old), _wheel_versions(new)
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


def _wheel_versions(text: str) -> Dict[str, Dict[str, Any]]:
    """name -> version -> what else is said about it."""
    found: Dict[str, Dict[str, Any]] = {}
    for requirement in parse(text):
        found.setdefault(requirement.name, {})[requirement.version] = (requirement.marker, requirement.hashes)
    return found


def _names(rows: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(row["name"] for row in rows)


def _shown(value: Any) -> str:
    return "none" if value is None else json.dumps(value) if isinstance(value, (dict, list)) else str(value)
