"""What an inventory says about locking, `trainrig_lock` and `trainrig_repositories`: normalised, or what is wrong.

Needs no index, no repository and no facts of data/ but the names of origins, so it comes before all of them.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from datetime import date
from typing import Any, Callable, Collection, Dict, List, Mapping, NamedTuple, Optional, Tuple, TypedDict

from ansible_collections.trainrig.gpu.plugins.module_utils.lock.urls import malformed, shown
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, listed, nearest

Trouble = Optional[Tuple[str, str]]  # (what is wrong, what to do)
NAME = "trainrig_lock"
REPOSITORIES = "trainrig_repositories"
KEYS = ("index_date", "profiles", "sources")
_RULE = "lock.settings"
#: A name is a file's (requirements/<name>.txt), so it is no path, no hidden file and no option.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: A name with extras, versions and a marker (PEP 508). No address, file or option: the lock holds none of them.
_VERSION = r"(?:~=|===?|!=|<=?|>=?) *[A-Za-z0-9.*+!_-]+"
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])? *(?:\[[A-Za-z0-9._, -]*\] *)?"
    rf"(?:{_VERSION}(?: *, *{_VERSION})* *)?(?:;[^\n]+)?"
)


class Settings(TypedDict):
    """What is said about locking. What is left out is absent in a row; `index_date`: as written, None when left out."""

    profiles: List[Dict[str, Any]]
    sources: List[Dict[str, str]]
    index_date: Optional[str]
    repositories: Dict[str, Dict[str, Any]]  # origin -> url, key, fingerprints: 40 upper-case hex digits each


def checked(lock: Any, repositories: Any, origins: Mapping[str, Any], where: str) -> Tuple[Settings, List[Problem]]:
    """Both, and all that is wrong with them. None: left out. `origins`: those of data/origins.yml."""
    reader = _Reader(where)
    said = reader.known(NAME, {} if lock is None else lock, KEYS, _EXAMPLES[NAME])
    places = reader.known(REPOSITORIES, {} if repositories is None else repositories, origins, _EXAMPLES[REPOSITORIES])
    settings: Settings = {
        "profiles": reader.rows(f"{NAME}.profiles", said.get("profiles"), _PROFILE),
        "sources": reader.rows(f"{NAME}.sources", said.get("sources"), _SOURCE),
        "index_date": reader.index_date(f"{NAME}.index_date", said.get("index_date")),
        "repositories": {
            origin: reader.row(f"{REPOSITORIES}.{origin}", {} if place is None else place, _REPOSITORY)
            for origin, place in places.items()
        },
    }
    return settings, reader.problems


class _Field(NamedTuple):
    """One key of a row. `example`: a value as YAML has it; `clean` is applied to a text before `check`."""

    example: str
    needed: bool = False
    many: bool = False  # a list of texts
    lone: bool = False  # of which one may stand alone
    check: Callable[[str], Trouble] = lambda _text: None
    clean: Callable[[str], str] = str.strip


def _name(text: str) -> Trouble:
    if _PLAIN_NAME.fullmatch(text):
        return None
    return "cannot name a file", "use letters, digits, dots, dashes and underscores, the first a letter or digit"


def _requirement(text: str) -> Trouble:
    return (
        None if _REQUIREMENT.fullmatch(text) else ("is no package's name", 'write numpy or, for example, "numpy>=2.1"')
    )


def _archive(text: str) -> Trouble:
    return malformed(text) if "://" in text else None


def _url(text: str) -> Trouble:
    # Paths are appended to it.
    raw = ("has a raw ? or #", "name the directory alone; in a password write %3F for ? and %23 for #")
    return malformed(text) or (raw if re.search("[?#]", text) else None)


def _keyring(text: str) -> Trouble:
    wrong = ("is no path of a keyring", "name a file on this machine, by a path without spaces")
    return wrong if "://" in text or re.search(r"\s", text) else None


def _fingerprint(text: str) -> Trouble:
    wrong = ("is no fingerprint", "write all 40 hex digits, as gpg --show-keys prints them")
    return None if re.fullmatch("[0-9A-F]{40}", text) else wrong


_PROFILE: Mapping[str, _Field] = {
    "name": _Field("cu130", needed=True, check=_name),
    "pool": _Field("default"),
    "platform": _Field("linux-x86_64"),
    "python": _Field('"3.12"', many=True),
    "pytorch": _Field('"X.Y.Z"', needed=True),
    "variant": _Field("cu130", needed=True),
    "packages": _Field("numpy", many=True, check=_requirement),
}
_SOURCE: Mapping[str, _Field] = {
    "name": _Field("nccl-tests", needed=True),
    "tag": _Field("v2.17.6", needed=True),
    "archive": _Field("/srv/archives/nccl-tests-2.17.6.tar.gz", needed=True, check=_archive),
}
_REPOSITORY: Mapping[str, _Field] = {
    "url": _Field("https://HOST/PATH", check=_url),
    "key": _Field("/usr/share/keyrings/NAME.gpg", check=_keyring),
    "fingerprints": _Field(
        '"40 hex digits"', many=True, lone=True, check=_fingerprint, clean=lambda text: "".join(text.split()).upper()
    ),
}
_EXAMPLES = {
    NAME: f'{NAME}: {{profiles: [{{name: cu130, pytorch: "X.Y.Z", variant: cu130}}]}}',
    REPOSITORIES: f"{REPOSITORIES}: {{nvidia: {{url: https://HOST/PATH}}}}",
}


class _Reader:
    """Takes values apart and notes what is wrong with them; what it returns is sound."""

    def __init__(self, where: str) -> None:
        self.problems: List[Problem] = []
        self._where = where

    def known(self, key: str, value: Any, words: Collection[str], example: str) -> Dict[str, Any]:
        """What stands under the known words of a mapping."""
        if not isinstance(value, Mapping):
            self._wrong(key, value, "must be keys with values", f"write for example {example}")
            return {}
        for word in value:
            if word not in words:
                close = nearest(word, words)
                fix = f"did you mean {close}" if close else f"remove it; known are {listed(words)}"
                what = "unknown origin" if key == REPOSITORIES else "unknown key"
                # Beside an address, what stands under an unknown key may well be a password.
                secret = key.startswith((REPOSITORIES, f"{NAME}.sources"))
                self._wrong(f"{key}.{shown(str(word))}", None if secret else value[word], what, fix)
        return {str(word): value[word] for word in value if word in words}

    def rows(self, key: str, value: Any, fields: Mapping[str, _Field]) -> List[Dict[str, Any]]:
        """The rows of a list, no two of one name."""
        if not isinstance(value, (list, tuple)):
            if value is not None:
                fix = f"write for example {key.rpartition('.')[2]}: [{_row(fields)}]"
                self._wrong(key, value, "must be a list", fix)
            return []
        found: List[Dict[str, Any]] = []
        for at, written in enumerate(value):
            name = written.get("name") if isinstance(written, Mapping) else None
            plain = isinstance(name, str) and _PLAIN_NAME.fullmatch(name)
            place = f"{key}.{name}" if plain else f"{key}[{at}]"
            row = self.row(place, written, fields)
            if "name" in row and row["name"] in [other.get("name") for other in found]:
                self._wrong(f"{place}.name", row["name"], "is the name of another one too", "give each its own name")
            found.append(row)
        return found

    def row(self, key: str, value: Any, fields: Mapping[str, _Field]) -> Dict[str, Any]:
        """The sound values of one row."""
        found: Dict[str, Any] = {}
        said = self.known(key, value, fields, _row(fields))
        for word, field in fields.items() if isinstance(value, Mapping) else ():
            if word in said:
                read = self._list if field.many else self._text
                clean = read(f"{key}.{word}", said[word], field)
                if clean:
                    found[word] = clean
            elif field.needed:
                self._wrong(f"{key}.{word}", None, "is missing", f"write for example {word}: {field.example}")
        return found

    def index_date(self, key: str, value: Any) -> Optional[str]:
        """As text; which dates there are is for the caller to say, who has other places to take one from."""
        if isinstance(value, date):
            return value.isoformat()
        return None if value is None else self._text(key, value, _Field('"2026-11-30"'))

    def _list(self, key: str, value: Any, field: _Field) -> List[str]:
        entries: Any = [value] if field.lone and isinstance(value, str) else value
        if not isinstance(entries, (list, tuple)) or not entries:
            own = shown(value.strip()) if isinstance(value, str) else ""
            text = "is empty" if value in (None, "", [], ()) else "must be a list of texts"
            word, example = key.rpartition(".")[2], own or field.example.strip('"')
            self._wrong(key, value, text, f'write {word}: ["{example}"], each in quotes, or leave it out')
            return []
        found = [self._text(key, entry, field) for entry in entries]
        return list(dict.fromkeys(text for text in found if text))

    def _text(self, key: str, value: Any, field: _Field) -> Optional[str]:
        word, text = "" if field.many else f"{key.rpartition('.')[2]}: ", ""
        if isinstance(value, str) and value.strip():
            text = field.clean(value)
            trouble = field.check(text)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            # YAML reads 2.10 as the number 2.1: what was written can no longer be told.
            drops = ", which drops the last zero of 2.10" if isinstance(value, float) else ""
            quoted = field.example.strip('"')
            trouble = f"is a number to YAML{drops}", f'quote it as you wrote it, for example {word}"{quoted}"'
        else:
            what = "is empty" if value is None or isinstance(value, str) else "must be text"
            trouble = what, f"write for example {word}{field.example}{'' if field.needed else ', or leave it out'}"
        if trouble:
            self._wrong(key, value, *trouble)
        return None if trouble else text

    def _wrong(self, key: str, value: Any, text: str, fix: str) -> None:
        self.problems.append(
            {"rule": _RULE, "where": self._where, "key": key, "value": _value(value), "text": text, "fix": fix}
        )


def _row(fields: Mapping[str, _Field]) -> str:
    """An example of a whole row."""
    needed = any(field.needed for field in fields.values())
    some = [word for word, field in fields.items() if (field.needed if needed else not field.many)]
    return "{" + ", ".join(f"{word}: {fields[word].example}" for word in some) + "}"


def _value(value: Any) -> str:
    """A value as it may be printed, on one line."""
    if isinstance(value, Mapping):
        return "{...}" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[...]" if value else "[]"
    return "" if value is None else " ".join(shown(str(value)).split())
