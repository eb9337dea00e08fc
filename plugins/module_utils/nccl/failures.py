"""What launchers, NCCL, torch and MPI say when a job fails: which line means what, and what to do next."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import POOL, finding
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.failure_texts import (
    ANYWHERE,
    CONSEQUENCE,
    TABLE,
    Failure,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.lines import Line, Message, split

#: Lines that a finding quotes.
_QUOTED = 4
#: Names or ranks that a summary lists.
_LISTED = 8


Hit = Tuple[Failure, "re.Match[str]", str]


def failures(lines: Sequence[str], host: Optional[str], pool: str = POOL) -> List[Finding]:
    """What the lines of a stage's output say about why it failed; empty where they say nothing."""
    found: Dict[str, List[Hit]] = {}
    program, messages = split("\n".join(lines))
    for text, kind in _readable(program, messages):
        for failure in TABLE:
            match = failure.pattern.search(text)
            if match and (not kind or failure.kind == ANYWHERE or kind == "warned"):
                found.setdefault(failure.rule, []).append((failure, match, text))
                break
    causes = [hits for hits in found.values() if hits[0][0].kind != CONSEQUENCE]
    return [_finding(hits, host, pool) for hits in causes or list(found.values())[:1]]


def texts(program: Iterable[Line], messages: Iterable[Message], is_whole: bool) -> List[str]:
    """The lines that say that a job failed.

    What NCCL only warns of counts where the job did not come to its end (not ``is_whole``).
    """
    found: List[str] = []
    for text, kind in _readable(program, messages):
        hit = next((failure for failure in TABLE if failure.pattern.search(text)), None)
        if hit and (not kind or hit.kind == ANYWHERE or (kind == "warned" and not is_whole)):
            found.append(text.lstrip("# "))
    return found


def _readable(program: Iterable[Line], messages: Iterable[Message]) -> List[Tuple[str, str]]:
    """Every line in its order: ("", of a program), ("warned" or "told", of NCCL)."""
    lines = [(line.number, line.text.strip(), "") for line in program]
    lines += [(one.number, one.raw, "told" if one.level in ("INFO", "TRACE") else "warned") for one in messages]
    return [(text, kind) for _number, text, kind in sorted(lines, key=lambda line: line[0])]


def _finding(hits: Sequence[Hit], host: Optional[str], pool: str) -> Finding:
    failure, match, _text = hits[0]
    names = {name: value or "unknown" for name, value in match.groupdict().items()}
    for group in ("rank", "host"):
        told = [other.groupdict().get(group) for _failure, other, _said in hits]
        names[f"{group}s"] = _listed(dict.fromkeys(value for value in told if value))
    proof = list(dict.fromkeys(text for _failure, _match, text in hits))[:_QUOTED]
    return finding(failure.rule, host, failure.summary.format(**names), [("log", text) for text in proof], pool=pool)


def _listed(values: Iterable[str]) -> str:
    names = list(values)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more if names else "unknown"
