"""One host's entry of a report: its state, its plan, what was applied, and the findings that the run itself makes."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.plan.reboot import pending
from ansible_collections.trainrig.gpu.plugins.module_utils.report import acceptance, topology
from ansible_collections.trainrig.gpu.plugins.module_utils.report.summary import summarise

#: Phases in which layers are applied.
_APPLYING = ("site",)
#: Phases in which a verification is expected.
_VERIFYING = ("site", "verify")
_LAYER_KEYS = ("layer", "title", "state", "reasons", "minutes", "download_bytes")


def layers(host: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """The plan's layers as the report shows them: without the inputs that the plan was made from.

    What the run itself had to leave for later is deferred, whatever was planned.
    """
    rows = (host.get("plan") or {}).get("layers") or []
    waits = host.get("deferred") or {}
    found = [
        {key: row.get(key) for key in _LAYER_KEYS if key in row or key in ("layer", "state", "reasons")} for row in rows
    ]
    return [
        {**row, "state": "deferred", "reasons": [waits[row["layer"]]]} if row["layer"] in waits else row
        for row in found
    ]


def failures(host: Mapping[str, Any]) -> List[Dict[str, Any]]:
    return [{key: one.get(key) for key in ("layer", "task", "message")} for one in host.get("failures") or []]


def applied(host: Mapping[str, Any], phase: str) -> List[str]:
    """The layers this run put in place: said by the run, or the dirty ones up to the first that failed."""
    if phase not in _APPLYING:
        return []
    if host.get("applied") is not None:
        return list(host["applied"])
    failed = {one["layer"] for one in failures(host)}
    done: List[str] = []
    for name in (host.get("plan") or {}).get("dirty") or []:
        if name in failed:
            break
        done.append(name)
    return [] if "preflight" in failed else done


def _unverified(host: Mapping[str, Any], phase: str) -> bool:
    """True where a verification was due and left no result, not even a carried one."""
    if phase not in _VERIFYING or host.get("carried"):
        return False
    verification = (host.get("plan") or {}).get("verify")
    expected = phase == "verify" or verification is None or verification.get("due") or verification.get("left_out")
    return bool(expected) and host.get("measurements") is None


def left_out(host: Mapping[str, Any], phase: str) -> List[str]:
    """Dirty layers that --tags or --skip-tags kept from being applied."""
    if phase not in _APPLYING:
        return []
    chosen = (host.get("plan") or {}).get("dirty") or []
    return [str(row["layer"]) for row in layers(host) if row.get("state") == "dirty" and row["layer"] not in chosen]


def state(host: Mapping[str, Any], phase: str) -> str:
    """ok, failed, unreachable or deferred."""
    if host.get("state"):
        return str(host["state"])
    if not host.get("observation"):
        return "failed" if failures(host) else "unreachable"
    if failures(host):
        return "failed"
    waits = any(row.get("state") == "deferred" for row in layers(host))
    if waits or left_out(host, phase) or pending(host["observation"]) or _unverified(host, phase):
        return "deferred"
    return "ok"


def carried(host: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """Where a verification result was taken over from an earlier run: when it was made and how old it is."""
    record = host.get("carried")
    if not record:
        return None
    return {
        "from": record.get("from") or record.get("at"),
        "age_s": record.get("age_s"),
        "verdict": record.get("verdict"),
    }


def against_order(host: Mapping[str, Any], data: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """What was ordered against what is there; nothing where nothing is known of the host."""
    if not host.get("observation"):
        return []
    gpus, tolerances = data.get("gpus") or {}, data.get("tolerances") or {}
    return acceptance.rows(host["observation"], acceptance.Order(host.get("expected") or {}, gpus, tolerances))


def _observation(host: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    observation = host.get("observation")
    if not observation:
        return None
    return {**summarise(observation, host.get("versions")), "topology": topology.picture(observation)}


def entry(host: Mapping[str, Any], phase: str, data: Mapping[str, Any]) -> Dict[str, Any]:
    """The host's entry of report.json."""
    profile = host.get("profile")
    return {
        "state": state(host, phase),
        "observation": _observation(host),
        "acceptance": against_order(host, data),
        "profile": profile.get("name") if isinstance(profile, Mapping) else profile,
        "plan": {"layers": layers(host)} if host.get("plan") else None,
        "applied": applied(host, phase),
        "failures": failures(host),
        "carried": carried(host),
    }


def run_findings(name: str, host: Mapping[str, Any], phase: str) -> List[Dict[str, Any]]:
    """What the run itself shows about a host: it did not answer, a layer failed, a part had to wait."""
    found: List[Dict[str, Any]] = []

    def add(
        rule: str,
        severity: str,
        layer: str,
        summary: str,
        cause: str,
        kind: str,
        text: str,
        proof: Optional[str] = None,
    ) -> None:
        found.append(
            {
                "rule": rule,
                "severity": severity,
                "layer": layer,
                "host": name,
                "scope": "host",
                "summary": summary,
                "cause": cause,
                "action": {"kind": kind, "text": text},
                "evidence": [{"probe": "run", "text": proof}] if proof else [],
                "phase": phase,
            }
        )

    for one in failures(host):
        layer = str(one["layer"] or "run")
        message = str(one["message"] or "").strip()
        add(
            "run.layer_failed",
            "fail",
            layer,
            f"{layer} failed" + (f" in task: {one['task']}" if one["task"] else ""),
            message or "the task gave no message",
            "none",
            f"mend this, then run again: {message.splitlines()[0] if message else layer + ' failed'}",
        )
    now = state(host, phase)
    if now == "unreachable":
        add(
            "run.unreachable",
            "warn",
            "preflight",
            "the host did not answer",
            "no connection, or --limit left it out; nothing is known about it and nothing was changed on it",
            "configure",
            f"`{host['ssh']}`" if host.get("ssh") else f"run again without --limit, when {name} answers",
            host.get("unreachable"),
        )
    if now == "deferred":
        for row in layers(host):
            if row["state"] == "deferred":
                add(
                    "run.layer_deferred",
                    "info",
                    str(row["layer"]),
                    f"{row['layer']} has to wait",
                    "; ".join(row["reasons"] or []) or "what it needs is not there yet",
                    "wait",
                    "run again when what it needs is there",
                )
        for layer in left_out(host, phase):
            add(
                "run.layer_left_out",
                "info",
                layer,
                f"{layer} was to be applied and was left out",
                "--tags or --skip-tags did not choose it",
                "none",
                "run again without --tags",
            )
        reboot = pending(host.get("observation") or {})
        if reboot:
            add(
                "run.pending_reboot",
                "info",
                "driver",
                f"a reboot is pending: {'; '.join(reboot)}",
                "what was installed takes effect with the next boot",
                "reboot",
                "`sudo systemctl reboot`",
            )
        if _unverified(host, phase):
            add(
                "run.not_verified",
                "info",
                "verify",
                "the verification left no result",
                "a reboot is pending, and what is installed can be proven after it only"
                if reboot
                else "it was due and did not run: it was interrupted, or left out by trainrig_verify=never",
                "none",
                "run again",
            )
    return found
