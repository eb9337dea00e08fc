"""Judges what nodes measured together, in pairs and all at once: rows become measurements, blame becomes findings.

Every node of the pool has the whole record, and each thing is told once: what is wrong with a node by that node,
what is wrong between nodes by the first of them, a group's rows by the group's first.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge import collectives, runs
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import finding
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.failures import failures
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.log import path_findings

Measurement = Dict[str, Any]
_RULES = {
    "node": "verify.node_slow",
    "link": "verify.link_slow",
    "rail": "verify.rail_slow",
    "switch": "verify.switch_bad",
    "set": "verify.set_bad",
    "undecided": "verify.pairs_undecided",
}
#: Outcomes that a finding quotes.
_QUOTED = 6


def judge(
    stage: str, record: Mapping[str, Any], conditions: collectives.Conditions
) -> Tuple[List[Measurement], List[Finding]]:
    """Return this host's measurements and findings of a record of trainrig.gpu.pairing."""
    own = conditions.job.host
    measurements: List[Measurement] = []
    findings: List[Finding] = []
    for number, members in enumerate(record["rounds"]):
        for group in members:
            if group["hosts"][0] == own:
                measured, found = _group(stage, number, group, conditions)
                measurements, findings = measurements + measured, findings + found
            findings += _stuck(stage, group, own)
            findings += _path(group, own, conditions.asked.get("declared") or {})
            if group["error"]:
                run = (group["runs"].get(own) or {}) if own else {}
                findings += failures(runs.printed([run], group["document"] if own == group["hosts"][0] else None), own)
    findings += _shut(stage, record, own, conditions.asked.get("port"))
    for kind in ("nodes", "links", "rails", "switches", "sets", "undecided"):
        for blame in (record.get("conclusion") or {}).get(kind) or []:
            if _tells(blame, record, own):
                findings.append(_blamed(stage, blame))
    if record["late"] and record["hosts"][0] == own:
        text = f"{stage}: the time was up after {len(record['rounds'])} rounds, before all was known"
        findings.append(_of_all("verify.pairs_undecided", text, []))
    return measurements, once(findings)


def once(findings: Sequence[Finding]) -> List[Finding]:
    """Rounds that show the same thing tell it once."""
    seen: Dict[Tuple[str, Optional[str], str], Finding] = {}
    for one in findings:
        seen.setdefault((one["rule"], one["host"], one["summary"]), one)
    return list(seen.values())


def _of_all(rule: str, summary: str, proof: Sequence[Tuple[str, object]]) -> Finding:
    """A finding about several hosts."""
    return finding(rule, None, summary, proof, scope="pool")


def _group(
    stage: str, number: int, group: Mapping[str, Any], conditions: collectives.Conditions
) -> Tuple[List[Measurement], List[Finding]]:
    """The rows of one group, and what was wrong with its run whoever is to blame."""
    document = group["document"]
    where = {"round": number, "rail": group["rail"]}
    measured: List[Measurement] = []
    found: List[Finding] = []
    if document and document.get("rows"):
        asked = {"ranks": group["ranks"], "nodes": len(group["hosts"]), **conditions.asked}
        if document.get("script") == "nccl-tests":
            asked["backend"] = None  # the program has its own
        measured, found = collectives.judge(document, conditions._replace(stage=stage, asked=asked))
        for one in measured:
            one.update(where, hosts=list(group["hosts"]))
        # Nodes are compared with each other here, so that no figure is missed.
        found = [one for one in found if one["rule"] not in ("verify.bandwidth_not_judged", "verify.stage_failed")]
    if group["error"]:
        if not measured:
            measured = [{**_nothing(stage, group, conditions), **where}]
        for one in measured:
            one.update(status="fail", reason=group["error"])
        proof = [(stage, f"{host}: {line}") for host, line in group["tails"]]
        if not group["unreached"] and not group["stuck"]:
            found.append(_of_all("verify.group_failed", f"{stage}, round {number + 1}: {group['error']}", proof))
    return measured, found


def _nothing(stage: str, group: Mapping[str, Any], conditions: collectives.Conditions) -> Measurement:
    """The row of a group that came to no result."""
    unknown = dict.fromkeys(
        (
            "size_bytes",
            "count",
            "dtype",
            "time_us",
            "algbw_gb_s",
            "busbw_gb_s",
            "wrong",
            "threshold_gb_s",
            "ceiling_gb_s",
            "source",
        )
    )
    return {
        **unknown,
        "stage": stage,
        "collective": "all_reduce",
        "backend": conditions.asked.get("backend"),
        "nodes": len(group["hosts"]),
        "ranks": group["ranks"],
        "hosts": list(group["hosts"]),
    }


def _path(group: Mapping[str, Any], own: Optional[str], declared: Mapping[str, Any]) -> List[Finding]:
    """What NCCL's log on this node says of the way that the data took. A fast way may be the wrong one."""
    seen = group["evidence"].get(own)
    if seen is None or group["error"]:
        return []
    return path_findings(seen, {**declared, "nodes": len(group["hosts"])}, own)


def _shut(stage: str, record: Mapping[str, Any], own: Optional[str], port: Optional[int]) -> List[Finding]:
    """Told by the node whose port it is."""
    mine = [group for members in record["rounds"] for group in members if group["hosts"][0] == own]
    met = [(host, text) for group in mine for host, text in group["unreached"]]
    if not met:
        return []
    names = ", ".join(dict.fromkeys(host for host, _text in met))
    proof = [(stage, f"{host}: {text}") for host, text in met]
    summary = f"{own} cannot be reached at {met[0][1].rpartition(': ')[0]} from {names}"
    return [finding("verify.port_blocked", own, summary, proof, port=port)]


def _stuck(stage: str, group: Mapping[str, Any], own: Optional[str]) -> List[Finding]:
    """Told by the node whose rank it is."""
    mine = [text for text in group["stuck"] if f" {own} " in text]
    if not mine or not group["error"] or group["unreached"]:
        return []
    proof = [(stage, f"{host}: {line}") for host, line in group["tails"]]
    return [finding("verify.rank_stuck", own, f"{stage}: {mine[0]}; {', '.join(group['hosts'])} waited", proof)]


def _tells(blame: Mapping[str, Any], record: Mapping[str, Any], own: Optional[str]) -> bool:
    if blame["what"] == "node":
        return bool(own in blame["hosts"])
    return bool((blame["hosts"] or record["hosts"])[0] == own)


def _blamed(stage: str, blame: Mapping[str, Any]) -> Finding:
    rule, best = _RULES[blame["what"]], blame["gb_s"]
    if blame["what"] == "node" and best is None:
        rule = "verify.node_cut_off"
    proof = [(stage, said(one)) for one in blame["outcomes"][:_QUOTED]]
    named = ", ".join(blame["hosts"])
    speed = f": at best {best:.3g} GB/s" if best is not None else ""
    held = blame["expected_gb_s"]
    speed += f", held against {held:.3g} GB/s of the other pairs" if speed and held is not None else ""
    way = f" over {blame['rail']}" if blame["rail"] else ""
    way += f" ({', '.join(blame['switches'])})" if blame["switches"] else ""
    summary = f"{named}{way}{speed}: {blame['cause']}"
    if blame["what"] == "node":
        return finding(rule, blame["hosts"][0], summary, proof)
    return _of_all(rule, summary, proof)


def said(outcome: Mapping[str, Any]) -> str:
    """One outcome for a person."""
    text = outcome["error"] or f"{outcome['gb_s']:.3g} GB/s"
    way = f" over {outcome['rail']}" if outcome["rail"] else ""
    return f"{' - '.join(outcome['group'])}{way}: {text}"
