"""Checks locked versions against a user's constraint files (uv itself takes only exact ones beside a hashed lock)."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import List, Mapping, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.markers import MarkerError, evaluate
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import normalise_name, satisfies

_LINE = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(?P<clauses>[^;]*)(?:;(?P<marker>.*))?$")
_CLAUSE = re.compile(r"^(===|==|~=|!=|<=|>=|<|>)\s*([A-Za-z0-9.!+*_-]+)$")


def violations(
    texts: Sequence[Tuple[str, str]], versions: Mapping[str, str], environment: Mapping[str, str]
) -> Tuple[List[str], List[str]]:
    """Locked `versions` that break a constraint of the (path, text) files, with its line; and lines not checked."""
    broken: List[str] = []
    unread: List[str] = []
    for path, text in texts:
        for number, raw in enumerate(text.splitlines(), start=1):
            line = re.sub(r"(^|\s)(#|--hash).*$", "", raw).rstrip("\\").strip().strip("()")
            if not line:
                continue
            answer = _holds(line, versions, environment)
            if answer is None:
                unread.append(f"{path}:{number}: constraint not checked: {line[:80]}")
            elif answer:
                broken.append(f"{path}:{number} wants {line}, the lock has {answer}")
    return broken, unread


def _holds(line: str, versions: Mapping[str, str], environment: Mapping[str, str]) -> Optional[str]:
    """ "" where the constraint holds or says nothing here, the locked version where not, None where not understood."""
    match = _LINE.match(line)
    if match is None:
        return None
    version = versions.get(normalise_name(match.group("name")))
    try:
        if version is None or not evaluate((match.group("marker") or "").strip(), environment):
            return ""
    except MarkerError:
        return None
    for clause in filter(None, (part.strip() for part in match.group("clauses").split(","))):
        parts = _CLAUSE.match(clause)
        answer = satisfies(version, parts.group(1), parts.group(2)) if parts else None
        if answer is None:
            return None
        if not answer:
            return version
    return ""
