"""Package versions as PEP 440 orders them, and version numbers of drivers: parse, normalise, compare."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Optional, Tuple

_PEP440 = re.compile(
    r"""^\s*v?
    (?:(?P<epoch>[0-9]+)!)?
    (?P<release>[0-9]+(?:\.[0-9]+)*)
    (?P<pre>[-_.]?(?P<pre_l>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>[0-9]+)?)?
    (?P<post>(?:-(?P<post_n1>[0-9]+))|(?:[-_.]?(?:post|rev|r)[-_.]?(?P<post_n2>[0-9]+)?))?
    (?P<dev>[-_.]?dev[-_.]?(?P<dev_n>[0-9]+)?)?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?
    \s*$""",
    re.VERBOSE | re.IGNORECASE,
)
_PRE = {"alpha": "a", "a": "a", "beta": "b", "b": "b", "preview": "rc", "pre": "rc", "c": "rc", "rc": "rc"}
_NAME = re.compile(r"[-_.]+")


def normalise_name(name: str) -> str:
    """The one spelling of a package's name: `Typing_Extensions` and `typing-extensions` are the same."""
    return _NAME.sub("-", name.strip()).lower()


def normalise_version(version: str) -> str:
    """The one spelling of a version, its local part included: `2.6.0+CPU` -> `2.6.0+cpu`; unknown text stays."""
    match = _PEP440.match(version)
    if match is None:
        return version.strip().lower()
    text = ".".join(str(int(part)) for part in match.group("release").split("."))
    if match.group("epoch") and int(match.group("epoch")):
        text = f"{int(match.group('epoch'))}!{text}"
    if match.group("pre"):
        text += f"{_PRE[match.group('pre_l').lower()]}{int(match.group('pre_n') or 0)}"
    if match.group("post"):
        text += f".post{int(match.group('post_n1') or match.group('post_n2') or 0)}"
    if match.group("dev"):
        text += f".dev{int(match.group('dev_n') or 0)}"
    if match.group("local"):
        text += f"+{_NAME.sub('.', match.group('local').lower())}"
    return text


def version_key(version: str) -> Optional[Tuple[Any, ...]]:
    """A key that sorts as PEP 440 says; None where the text is not a version."""
    match = _PEP440.match(version)
    if match is None:
        return None
    release = tuple(int(part) for part in match.group("release").split("."))
    while len(release) > 1 and release[-1] == 0:
        release = release[:-1]
    pre: Tuple[Any, ...]
    if match.group("pre"):
        pre = (1, _PRE[match.group("pre_l").lower()], int(match.group("pre_n") or 0))
    elif match.group("dev") and not match.group("post"):
        pre = (0,)  # 1.0.dev1 comes before 1.0a1
    else:
        pre = (2,)
    post = int(match.group("post_n1") or match.group("post_n2") or 0) if match.group("post") else -1
    dev = (0, int(match.group("dev_n") or 0)) if match.group("dev") else (1, 0)
    local: Tuple[Any, ...] = ()
    if match.group("local"):
        parts = _NAME.split(match.group("local").lower())
        local = tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts)
    return (int(match.group("epoch") or 0), release, pre, post, dev, local)


def satisfies(version: str, operator: str, wanted: str) -> Optional[bool]:
    """Does the version meet `>= 1.2`, `== 1.*`, `~= 1.4`? None where that cannot be told."""
    wildcard = wanted.endswith(".*")
    wanted = wanted[:-2] if wildcard else wanted
    if "+" not in wanted:
        version = version.split("+")[0]  # a local version counts only where it is asked for
    left, right = version_key(version), version_key(wanted)
    if left is None or right is None or (wildcard and operator not in ("==", "!=")):
        return None
    if operator in ("==", "===", "!="):
        length = len(wanted.split("."))
        padded = (version.split(".") + ["0"] * length)[:length]
        equal = version_key(".".join(padded)) == right if wildcard else left == right
        return equal != (operator == "!=")
    if operator == "~=":
        prefix = wanted.rsplit(".", 1)[0]
        return left >= right and bool(satisfies(version, "==", f"{prefix}.*"))
    answers = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
    return answers.get(operator)


def numbers(version: str) -> Tuple[int, ...]:
    """`580.65.06` -> (580, 65, 6): how driver versions and compute capabilities are compared."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", version.split("+")[0]))


def minor(version: str) -> str:
    """`3.11.7` -> `3.11`."""
    return ".".join(version.split(".")[:2])
