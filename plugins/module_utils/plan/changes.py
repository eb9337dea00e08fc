"""Names what differs between a layer as it was applied and as it is now, in words a human reads."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, List, Mapping

#: Longest list of changed files that a reason spells out.
_NAMED_FILES = 3
#: An option's value is shown up to this length.
_SHOWN = 60
#: Secrets are stored as "hmac:<hex>" and never shown.
SECRET_PREFIX = "hmac:"
#: Long lists are stored as "digest:<hex>"; that one changed is all there is to say.
DIGEST_PREFIX = "digest:"
#: Entries of a mapping, such as packages with their versions, that a reason spells out.
_NAMED_ENTRIES = 2


def input_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> List[str]:
    """Reasons why the recorded inputs are not the present ones; empty when they are the same."""
    reasons: List[str] = []
    files = sorted(_differing(before.get("code") or {}, after.get("code") or {}))
    if files:
        more = f" and {len(files) - _NAMED_FILES} more" if len(files) > _NAMED_FILES else ""
        reasons.append(f"trainrig's own files changed: {', '.join(files[:_NAMED_FILES])}{more}")
    for part, word in (("options", "option"), ("lock", "lock"), ("observed", "machine")):
        old, new = before.get(part) or {}, after.get(part) or {}
        reasons += [f"{word} {key} changed{_values(old, new, key)}" for key in sorted(_differing(old, new))]
    if before.get("mode") != after.get("mode"):
        reasons.append(f"mode changed: {before.get('mode')} -> {after.get('mode')}")
    return reasons


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> List[str]:
    return [key for key in {**old, **new} if key not in old or key not in new or old[key] != new[key]]


def _values(old: Mapping[str, Any], new: Mapping[str, Any], key: str) -> str:
    if isinstance(old.get(key), Mapping) and isinstance(new.get(key), Mapping):
        return _entries(old[key], new[key])
    texts = [_shown(side, key) for side in (old, new)]
    if any(text.startswith(SECRET_PREFIX) for text in texts):
        return " (its value is not shown)"
    if any(text.startswith(DIGEST_PREFIX) for text in texts):
        return ""
    return f": {texts[0]} -> {texts[1]}"


def _entries(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What differs in a mapping, the first of it spelled out."""
    names = sorted(_differing(old, new))
    shown = [f"{name} {_shown(old, name)} -> {_shown(new, name)}" for name in names[:_NAMED_ENTRIES]]
    more = f" and {len(names) - _NAMED_ENTRIES} more" if len(names) > _NAMED_ENTRIES else ""
    return f": {', '.join(shown)}{more}"


def _shown(side: Mapping[str, Any], key: str) -> str:
    if key not in side:
        return "not there"
    text = str(side[key]) if side[key] != "" else "''"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def fingerprint_changes(before: Mapping[str, Any], now: Mapping[str, Any] | None) -> List[str]:
    """Reasons why what the layer put in place is not there any more as it was.

    Both arguments: resource kind -> name -> state, as ``observe.fingerprints.take`` returns them.
    Anything that cannot be read now counts as changed.
    """
    if now is None:
        return ["what it put in place could not be looked at"]
    reasons: List[str] = []
    for kind in sorted(before):
        for name in sorted(before[kind]):
            state = (now.get(kind) or {}).get(name)
            reasons += _resource_changes(kind, name, before[kind][name], state)
    return reasons


def _resource_changes(kind: str, name: str, before: Mapping[str, Any], now: Mapping[str, Any] | None) -> List[str]:
    if not now:
        return [f"{_WORDS.get(kind, kind)} {name} could not be looked at"]
    if now.get("unreadable"):
        return [f"{_WORDS.get(kind, kind)} {name} cannot be read: {now['unreadable']}"]
    if now.get("problems"):  # an exact check on the node already names what is wrong
        return [f"{name}: {problem}" for problem in now["problems"]]
    keys = [key for key in sorted({**before, **now}) if key not in _EVIDENCE_ONLY and before.get(key) != now.get(key)]
    if kind in _LISTINGS and keys == [_LISTINGS[kind]]:
        return _listing_changes(kind, name, before.get(keys[0]) or {}, now.get(keys[0]) or {})
    if "state" in keys:  # what is gone has no mode, owner or content either
        keys = ["state"]
    return [_change(kind, name, key, before.get(key), now.get(key)) for key in keys]


def _listing_changes(kind: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> List[str]:
    """One reason for each entry that came, went or changed."""
    where = f"{_WORDS[kind]} {name}"
    reasons = []
    for entry in sorted(_differing(old, new)):
        shown = f" {new[entry]}" if kind == "families" and entry in new else ""
        if entry not in old:
            reasons.append(f"{where}: {entry}{shown} was added")
        elif entry not in new:
            reasons.append(f"{where}: {entry} was removed")
        elif kind == "families":
            reasons.append(f"{where}: {entry} moved {old[entry]} -> {new[entry]}")
        else:
            reasons.append(f"{where}: {entry} was edited")
    return reasons


#: Kinds that are lists of what is there, and under which key.
_LISTINGS = {"directories": "entries", "families": "packages"}
#: How a reason calls each resource kind of meta/resources.yml.
_WORDS = {
    "files": "file",
    "absent": "path",
    "directories": "directory",
    "families": "package family",
    "links": "link",
    "environments": "environment",
    "packages": "package",
    "holds": "hold of",
    "units": "unit",
    "modules": "kernel module",
}
#: Recorded to make the next look cheap; a difference alone means nothing (the exact check found no problem).
_EVIDENCE_ONLY = {"stat_digest", "problems", "unreadable"}


def _change(kind: str, name: str, key: str, old: Any, new: Any) -> str:
    word = _WORDS.get(kind, kind)
    if key == "state":
        return f"{word} {name} is {new}, was {old}"
    if key == "sha256":
        return f"{word} {name} was edited"
    if key == "packages":
        return f"{word} {name}: packages differ from what was installed"
    if key == "version":
        return f"{word} {name} moved {old} -> {new}"
    return f"{word} {name}: {key} moved {old} -> {new}"
