"""Judges the DDP smoke: equality with one process, samples, loss, resume after a kill; scaling is reported."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.job import Job

STAGE = "ddp"
#: What is compared, and how a person calls it.
_EQUALITY = {
    "losses": "losses",
    "gradients_first_step": "gradients of the first step",
    "gradients_last_step": "gradients of the last step",
    "parameters": "parameters at the end",
    "parameters_between_ranks": "parameters of the ranks among themselves",
}


def judge(
    document: Mapping[str, Any], job: Job, asked: Mapping[str, Any], bounds: Mapping[str, Any]
) -> Tuple[List[Dict[str, Any]], List[Finding]]:
    """Return the measurement and the findings of one document of ddp_check.py. ``bounds`` is thresholds' smoke."""
    host = job.host
    nodes = int(document.get("nodes") or 1)
    allowed = float(bounds["relative_difference_max"]["value"])
    findings = _errors(document, job, nodes)
    equal = falling = resumed = None
    if "equality" in document:
        checks = [
            _as_asked(document, host, asked),
            _gradients(document, host, allowed),
            _indices(document, host),
            _loss(document, host, float(bounds["loss_ratio_max"]["value"])),
        ]
        equal, falling = not checks[1], not checks[3]
        findings += [one for check in checks for one in check]
    if "resume" in document:
        problems = _resume(document, host, allowed)
        resumed = not problems
        findings += problems
    scaling = document.get("scaling") or {}
    broken = [one for one in findings if one["severity"] == "fail"]
    return [
        {
            "stage": STAGE,
            "backend": document.get("backend"),
            "nodes": nodes,
            "ranks": document.get("ranks"),
            "hosts": list(dict.fromkeys(document.get("hosts") or [])),
            "samples_per_s": scaling.get("samples_per_s"),
            "samples_per_s_one": scaling.get("samples_per_s_one"),
            "scaling_efficiency": scaling.get("scaling_efficiency"),
            "loss_first": document.get("loss_first"),
            "loss_last": document.get("loss_last"),
            "loss_falls": falling,
            "gradients_equal": equal,
            "resumed": resumed,
            "killed_after_step": ((document.get("resume") or {}).get("killed") or {}).get("after_step"),
            "steps": document.get("steps"),
            "seed": document.get("seed"),
            "status": "fail" if broken else "pass",
            "reason": broken[0]["summary"]
            if broken
            else "equal to one process, all samples visited, loss falls, resumed after a kill",
        }
    ], findings


def _errors(document: Mapping[str, Any], job: Job, nodes: int) -> List[Finding]:
    findings = []
    option = "verify_nodes_seconds" if nodes > 1 else "verify_ddp_seconds"
    for error in document["errors"]:
        rule = "verify.timeout" if error["kind"] == "timeout" else "verify.stage_failed"
        proof = [(STAGE, line) for line in error["tail"][-8:]]
        findings.append(finding(rule, job.host, f"DDP smoke, run {error['text']}", proof, option=option))
    if not document["complete"] and not findings:
        findings.append(finding("verify.stage_failed", job.host, "DDP smoke: not all of its runs were done"))
    compared = "equality" in document and "resume" in document and document.get("indices")
    if document["complete"] and not compared:
        findings.append(finding("verify.nothing_measured", job.host, "DDP smoke: the document lacks its comparisons"))
    return findings


def _as_asked(document: Mapping[str, Any], host: Optional[str], asked: Mapping[str, Any]) -> List[Finding]:
    return [
        finding("verify.ranks_differ", host, f"DDP smoke, {key}: asked for {asked[key]}, ran with {document.get(key)}")
        for key in ("nodes", "ranks", "backend")
        if asked.get(key) is not None and asked[key] != document.get(key)
    ]


def _within(difference: Mapping[str, Any], allowed: float) -> bool:
    """Unknown is not equal."""
    relative = difference.get("relative")
    return relative is not None and math.isfinite(relative) and relative <= allowed


def _said(difference: Mapping[str, Any]) -> str:
    if difference.get("relative") is None:
        return "cannot be compared (missing, of another length, or not a number)"
    return f"differ by {difference['max_difference']:.3g} where the largest is {difference['scale']:.3g}"


def _gradients(document: Mapping[str, Any], host: Optional[str], allowed: float) -> List[Finding]:
    equality = document["equality"]
    bad = {key: equality.get(key) or {} for key in _EQUALITY if not _within(equality.get(key) or {}, allowed)}
    if not bad:
        return []
    proof = [(STAGE, f"{_EQUALITY[key]} {_said(one)}; allowed: {allowed:g} of the largest") for key, one in bad.items()]
    proof.append((STAGE, f"seed {document['seed']}"))
    first = next(iter(bad))
    summary = (
        f"{document['ranks']} ranks are not one process over the same batches: {_EQUALITY[first]} {_said(bad[first])}"
    )
    return [finding("verify.gradients_differ", host, summary, proof, ranks=document["ranks"])]


def _indices(document: Mapping[str, Any], host: Optional[str]) -> List[Finding]:
    bad = [row for row in document["indices"] if row["missing"] or row["repeats"] != row["repeats_by_rule"]]
    if not bad:
        return []
    proof = [(STAGE, _epoch(row, document["dataset_size"])) for row in bad]
    return [
        finding(
            "verify.indices_incomplete", host, f"the ranks' samples are not the data set in {len(bad)} epochs", proof
        )
    ]


def _epoch(row: Mapping[str, Any], samples: int) -> str:
    return (
        f"epoch {row['epoch']}: {row['missing']} of {samples} samples missing {row['missing_examples']}, "
        f"{row['repeats']} visited again, {row['repeats_by_rule']} by the sampler's rule"
    )


def _loss(document: Mapping[str, Any], host: Optional[str], ratio: float) -> List[Finding]:
    first, last = document.get("loss_first"), document.get("loss_last")
    if first is not None and last is not None and 0 < first < math.inf and last <= ratio * first:
        return []
    text = (
        f"loss {first} at the first step, {last} after {document.get('steps')} steps; wanted: at most {ratio:g} of it"
    )
    proof = [(STAGE, text)]
    return [finding("verify.loss_not_falling", host, f"loss {first} -> {last}", proof)]


def _resume(document: Mapping[str, Any], host: Optional[str], allowed: float) -> List[Finding]:
    resume = document["resume"]
    problem = _why_not_resumed(resume)
    told = [
        (
            STAGE,
            f"killed {resume['killed']}, restarts {resume['restarts']}, went on at step {resume['resumed_at_step']}",
        ),
        (STAGE, f"a checkpoint every {resume['checkpoint_every']} steps; planned step {resume['planned_step']}"),
        (STAGE, f"seed {document['seed']}"),
    ]
    if problem:
        return [finding("verify.not_resumed", host, f"a killed worker: {problem}", told)]
    proof = [
        (STAGE, f"{_EQUALITY[key]} {_said(resume[key])}")
        for key in ("losses", "parameters")
        if not _within(resume[key], allowed)
    ]
    if resume["steps"] != resume["steps_unbroken"]:
        proof.insert(0, (STAGE, f"{resume['steps']} steps after the kill, {resume['steps_unbroken']} without"))
    if not proof:
        return []
    return [
        finding(
            "verify.resume_differs", host, f"the resumed run is not the unbroken one: {proof[0][1]}", [*proof, *told]
        )
    ]


def _why_not_resumed(resume: Mapping[str, Any]) -> Optional[str]:
    killed, at, every = resume["killed"], resume["resumed_at_step"], resume["checkpoint_every"]
    if not killed:
        return "none was killed, the run was over before the planned step"
    if not resume["restarts"] or at is None:
        return "torchrun did not start the group again"
    if at == 0:
        return "training began anew at step 0, the checkpoint was not used"
    # A step may end between the look and the kill, so one checkpoint more may have been written.
    last = killed["after_step"] // every * every
    if at not in (last, last + every):
        return f"it went on at step {at}, the last checkpoint was of step {last}"
    return None
