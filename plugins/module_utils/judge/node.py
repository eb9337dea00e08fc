"""Judges everything that the verification of one node brought back."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding, ordered
from ansible_collections.trainrig.gpu.plugins.module_utils.judge import (
    collectives,
    ddp,
    health,
    identity,
    meeting,
    mpi,
    runs,
    thresholds,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import POOL, finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.job import describe

#: The stages in the order in which they run.
STAGES = ("environment", "collectives", "ddp", "pairs", "fleet", "nodes")


class Looks(NamedTuple):
    """Observations right before the first stage, while the collectives ran, and after the last stage."""

    before: Mapping[str, Any]
    during: Sequence[Mapping[str, Any]]
    after: Mapping[str, Any]
    data: health.Data


class Context(NamedTuple):
    """What the node is, what it should be, and the data to judge by."""

    host: Optional[str]
    observation: Mapping[str, Any]
    profile: Optional[Mapping[str, Any]]
    requirements: Optional[str]
    gpus: Mapping[str, Any]
    thresholds: Mapping[str, Any]
    site_rows: Sequence[Mapping[str, Any]] = ()
    pool: str = POOL
    left_out: Sequence[Mapping[str, Any]] = ()
    mpi: Mapping[str, Any] = {}
    looks: Optional[Looks] = None  # of a node with hardware whose health can be looked at


def judge(outputs: Mapping[str, Mapping[str, Any]], context: Context) -> Dict[str, Any]:
    """Return measurements, findings and versions.

    ``outputs`` maps each stage that should have run to {run, document, asked}: how it ran (bounded.py's report),
    what it measured, what it was asked for; or to {skipped: why}, {apart: {rule, text}}, or {record} of what nodes
    measured together. A stage that is not named was switched off.
    """
    thresholds.check_site_rows(context.site_rows)
    job = describe(context.host, context.observation, context.gpus, context.thresholds)
    measurements: List[Dict[str, Any]] = []
    findings: List[Finding] = []
    versions: Dict[str, Any] = {}
    for name in STAGES:
        if name not in outputs:
            continue
        stage = outputs[name]
        if stage.get("record"):
            conditions = collectives.Conditions(job, stage.get("asked") or {}, context.thresholds, context.site_rows)
            measured, found = meeting.judge(name, stage["record"], conditions)
            measurements, findings = measurements + measured, findings + found
            continue
        findings += runs.judge(name, stage, context.host)
        document = stage.get("document")
        if not document:
            continue
        asked = stage.get("asked") or {}
        if name == "environment":
            versions = identity.versions(document, context.observation)
            findings += identity.judge(document, context.observation, job, context.profile, context.requirements)
        elif name == "collectives":
            conditions = collectives.Conditions(job, asked, context.thresholds, context.site_rows)
            measured, found = collectives.judge(document, conditions)
            measurements, findings = measurements + measured, findings + found
        else:
            measured, found = ddp.judge(document, job, asked, context.thresholds["smoke"])
            measurements, findings = measurements + measured, findings + found
    if context.looks:
        looks = context.looks
        found, measured = health.judge(looks.before, looks.during, looks.after, context.host, looks.data, context.pool)
        measurements, findings = measurements + measured, findings + found
    findings += mpi.judge(context.mpi, context.host)
    if context.left_out:
        text = f"{context.left_out[0]['why']} leaves out: {', '.join(str(one['what']) for one in context.left_out)}"
        findings.append(finding("verify.budget_left_out", context.host, text))
    for one in findings:
        one["pool"] = context.pool
    return {"measurements": measurements, "findings": ordered(findings), "versions": versions}
