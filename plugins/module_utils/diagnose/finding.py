"""What a diagnosis is made of: the Finding people and programs read, its order and the verdict over many."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Iterable, List, Optional, Tuple, TypedDict, Union

#: Worst first. `refuse`: do not start. `fail`: broken. The other two stop nothing.
SEVERITIES = ("refuse", "fail", "warn", "info")
ACTIONS = (
    "none",
    "configure",
    "install",
    "reinstall",
    "reload",
    "reset",
    "reboot",
    "power_cycle",
    "replace",
    "wait",
    "ask_provider",
)
SCOPES = ("host", "pool", "fleet")
#: Longest piece of a raw line that a finding carries.
EVIDENCE_LIMIT = 240


class Evidence(TypedDict):
    probe: str
    text: str


class Action(TypedDict):
    kind: str
    text: str


class Finding(TypedDict):
    rule: str
    severity: str
    layer: str
    host: Optional[str]  # None: the whole pool
    pool: str
    scope: str
    summary: str
    cause: str
    action: Action
    evidence: List[Evidence]
    phase: str


def evidence(probe: str, text: Optional[object]) -> Evidence:
    """One raw line and the probe it came from, cut to a length people can read."""
    line = " ".join(str("" if text is None else text).split())
    return {"probe": probe, "text": line if len(line) <= EVIDENCE_LIMIT else line[: EVIDENCE_LIMIT - 1] + "…"}


def natural(text: str) -> Tuple[Tuple[int, Union[int, str]], ...]:
    """A key that sorts node-2 before node-10."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"([0-9]+)", text) if part)


def ordered(findings: Iterable[Finding]) -> List[Finding]:
    """The worst first, then by host, rule and summary: the same input always gives the same list."""
    return sorted(
        findings,
        key=lambda one: (
            SEVERITIES.index(one["severity"]),
            natural(one["host"] or ""),
            one["rule"],
            natural(one["summary"]),
        ),
    )


def verdict(findings: Iterable[Finding]) -> str:
    """pass, warn, fail or refuse: the worst there is. Information alone is a pass."""
    present = {one["severity"] for one in findings}
    worst = next((name for name in SEVERITIES if name in present), "info")
    return "pass" if worst == "info" else worst
