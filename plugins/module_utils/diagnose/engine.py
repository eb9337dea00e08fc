"""Judges a fleet: runs every rule over every host and pool, and turns what fired into Findings.

Pure: what was observed, what is declared, facts and a date in; findings out, always in the same order.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose import catalogue
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.commands import commands
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import (
    ACTIONS,
    SEVERITIES,
    Finding,
    evidence,
    natural,
    ordered,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host, Pool
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import HOST_RULES, POOL_RULES, Hit

Facts = Mapping[str, Any]
if not catalogue.MODULES:  # importing the catalogue is what registers every rule
    raise ImportError("there are no rules")


def diagnose(
    stack: Optional[Facts],
    lock: Optional[Facts],
    fleet: Mapping[str, Facts],
    data: Facts,
    today: str,
    force: Iterable[str] = (),
    allow_missing: bool = False,
    phase: str = "preflight",
) -> List[Finding]:
    """Return the findings of a fleet.

    ``fleet``: host -> {observation, pool, stack}; no observation = unreachable (``missing`` may say why). A host's own
    stack wins over ``stack`` key by key. ``data``: name of a file under data/ -> its content. ``force``: `rule@host`.
    """
    hosts: List[Host] = []
    missing: Dict[str, Dict[str, str]] = {}
    for name in sorted(fleet, key=natural):
        entry = fleet[name]
        pool = str(entry.get("pool") or "default")
        observation = entry.get("observation")
        if not isinstance(observation, Mapping):
            missing.setdefault(pool, {})[name] = str(entry.get("missing") or "it could not be reached")
            continue
        own = {**(stack or {}), **(entry.get("stack") or {})}
        hosts.append(Host(name, observation, own or None, data, today, pool, lock, bool(entry.get("alone"))))
    judged: List[_Judged] = []
    for host in hosts:
        for rule, judge in HOST_RULES.items():
            try:
                hits = list(judge(host))
            except Exception as error:
                judged.append(_unjudged(rule, host.name, host.pool, error, phase))
                continue
            judged += [_finding(rule, hit, host, phase) for hit in hits]
    for name in sorted({host.pool for host in hosts} | set(missing)):
        pool_hosts = [host for host in hosts if host.pool == name]
        together = Pool(name, pool_hosts, missing.get(name, {}), allow_missing)
        by_name = {host.name: host for host in pool_hosts}
        for rule, judge_pool in POOL_RULES.items():
            try:
                hits = list(judge_pool(together))
            except Exception as error:
                judged.append(_unjudged(rule, None, name, error, phase))
                continue
            for hit in hits:
                reader = by_name.get(hit.host or "") or (
                    pool_hosts[0] if pool_hosts else Host(name, {}, None, data, today, name)
                )
                judged.append(_finding(rule, hit, reader, phase))
    return ordered(_forced(_without_symptoms(_once(judged), data), set(force)))


def force_problems(force: Iterable[str], hosts: Iterable[str]) -> List[str]:
    """What is wrong with the entries of `trainrig_force`: each must be `rule@host` of this fleet."""
    known_hosts, known_rules = set(hosts), set(HOST_RULES) | set(POOL_RULES)
    problems = []
    for entry in force:
        rule, at, host = str(entry).partition("@")
        if not at or not rule or not host:
            problems.append(f"'{entry}' is not rule@host")
        elif rule not in known_rules:
            problems.append(f"'{entry}': there is no rule {rule}")
        elif host not in known_hosts:
            problems.append(f"'{entry}': there is no host {host}")
    return problems


class _Judged(NamedTuple):
    """A finding, and the part of the host that it is about, where there is one."""

    finding: Finding
    about: Optional[str]


class _Known(Dict[str, Any]):
    """Leaves a {name} that nothing fills as it is, so that a text never breaks a diagnosis."""

    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


def _finding(rule: str, hit: Hit, host: Host, phase: str) -> _Judged:
    row = host.data["rules"]["rules"][rule]
    severity = hit.severity or row["severity"]
    kind = hit.action or row["action"]
    if severity not in SEVERITIES or kind not in ACTIONS:
        raise ValueError(f"{rule}: {severity}, {kind}")
    values = _Known(commands(host.get("os") or {}, host.data["rules"]))
    values.update({"host": host.name, "kernel": host.kernel or "the running kernel", **hit.values})
    text = row["texts"][hit.say] if hit.say else row["next"]
    about = hit.values.get("address")
    finding: Finding = {
        "rule": rule,
        "severity": severity,
        "layer": row["layer"],
        "host": hit.host or (host.name if row["scope"] == "host" else None),
        "pool": host.pool,
        "scope": row["scope"],
        "summary": _line(hit.summary),
        "cause": _line(hit.cause or row["cause"].format_map(values)),
        "action": {"kind": kind, "text": _line(text.format_map(values))},
        "evidence": hit.evidence[:8],
        "phase": phase,
    }
    return _Judged(finding, None if about is None else str(about))


def _line(text: str) -> str:
    return " ".join(text.split())


def _unjudged(rule: str, host: Optional[str], pool: str, error: Exception, phase: str) -> _Judged:
    """An observation in a shape no rule expected must not hide the other findings."""
    finding: Finding = {
        "rule": "diagnose.unjudged",
        "severity": "warn",
        "layer": "preflight",
        "host": host,
        "pool": pool,
        "scope": "host" if host else "pool",
        "summary": f"{rule} could not be judged",
        "cause": "What was observed has a shape that this rule does not understand.",
        "action": {"kind": "none", "text": "Report it with the bundle of this host; the other rules were judged."},
        "evidence": [evidence("diagnose", f"{type(error).__name__}: {error}")],
        "phase": phase,
    }
    return _Judged(finding, None)


def _once(judged: Iterable[_Judged]) -> List[_Judged]:
    seen: Set[Tuple[str, Optional[str], str]] = set()
    kept = []
    for one in judged:
        key = (one.finding["rule"], one.finding["host"], one.finding["summary"])
        if key not in seen:
            seen.add(key)
            kept.append(one)
    return kept


def _without_symptoms(judged: List[_Judged], data: Facts) -> List[Finding]:
    """Drop what another finding of the same host and the same part of it explains: the cause is shown, not its echo."""
    table = data["rules"]["rules"]

    def explains(cause: _Judged, echo: _Judged) -> bool:
        return (
            cause.finding["host"] == echo.finding["host"]
            and (cause.about is None or echo.about is None or cause.about == echo.about)
            and SEVERITIES.index(cause.finding["severity"]) <= SEVERITIES.index(echo.finding["severity"])
        )

    causes: Dict[str, List[_Judged]] = {}
    for one in judged:
        for symptom in (table.get(one.finding["rule"]) or {}).get("explains") or []:
            if one.finding["severity"] != "info":
                causes.setdefault(symptom, []).append(one)
    return [
        echo.finding
        for echo in judged
        if not any(explains(cause, echo) for cause in causes.get(echo.finding["rule"], []))
    ]


def _forced(findings: Iterable[Finding], force: Set[str]) -> List[Finding]:
    """A refusal that the user overrides, by rule and host, stays visible as a warning."""
    result: List[Finding] = []
    for one in findings:
        if one["severity"] == "refuse" and f"{one['rule']}@{one['host']}" in force:
            entry = f"{one['rule']}@{one['host']}"
            one = {
                **one,
                "severity": "warn",
                "summary": f"{one['summary']} (refusal forced by trainrig_force: {entry})",
            }
        result.append(one)
    return result
