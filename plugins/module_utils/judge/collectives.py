"""Judges the collectives: every row becomes a measurement, everything that is not right a finding."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.job import Job
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.thresholds import ceiling, fit

Measurement = Dict[str, Any]

#: busbw / algbw for n ranks, by nccl-tests' definition (doc/PERFORMANCE.md).
BUS_FACTOR: Dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "all_to_all": lambda n: (n - 1) / n,
}
#: The document carries times with three decimals of a microsecond; this is far above that rounding.
_ARITHMETIC = 1e-3
STAGE = "collectives"


class Conditions(NamedTuple):
    """What the sweep was asked for and what its numbers are held against."""

    job: Job
    asked: Mapping[str, Any]  # {ranks, backend, collectives}
    thresholds: Mapping[str, Any]  # data/thresholds
    site_rows: Sequence[Mapping[str, Any]]
    stage: str = STAGE


def judge(document: Mapping[str, Any], conditions: Conditions) -> Tuple[List[Measurement], List[Finding]]:
    """Return the measurements and findings of one document of collectives.py."""
    measurements = [_measurement(row, document, conditions.stage) for row in document["rows"]]
    findings = _as_asked(document, conditions)
    findings += _incomplete(document, conditions)
    if document["ranks"] == 1:
        findings.append(finding("verify.single_rank", conditions.job.host, "one rank: nothing was sent"))
    for row, measurement in zip(document["rows"], measurements):
        if not _consistent(row, int(document["ranks"])):
            _mark(measurement, "fail", "size, time, algbw and busbw do not belong together")
            findings.append(
                finding(
                    "verify.result_inconsistent",
                    conditions.job.host,
                    f"{row['collective']} at {row['size_bytes']} bytes contradicts itself",
                    [(STAGE, text_of(measurement))],
                )
            )
    findings += _wrong(document, measurements, conditions.job)
    findings += _bandwidth(measurements, conditions)
    return measurements, findings


def text_of(row: Mapping[str, Any]) -> str:
    """One row in the words of nccl-tests' table."""
    return (
        f"{row['collective']} {row['size_bytes']} B, {row['ranks']} ranks: {row['time_us']} us, "
        f"algbw {row['algbw_gb_s']:.3g} GB/s, busbw {row['busbw_gb_s']:.3g} GB/s, wrong {row['wrong']}"
    )


def _measurement(row: Mapping[str, Any], document: Mapping[str, Any], stage: str) -> Measurement:
    hosts = list(dict.fromkeys(document["hosts"]))
    return {
        "stage": stage,
        "collective": row["collective"],
        "backend": document["backend"],
        "nodes": document["nodes"],
        "ranks": document["ranks"],
        "size_bytes": row["size_bytes"],
        "count": row["count"],
        "dtype": row["dtype"],
        "time_us": row["time_us"],
        "algbw_gb_s": row["algbw_gb_s"],
        "busbw_gb_s": row["busbw_gb_s"],
        "wrong": row["wrong"],
        "hosts": hosts,
        "threshold_gb_s": None,
        "ceiling_gb_s": None,
        "source": None,
        "status": "pass",
        "reason": "the result is exact; speed is not judged here",
    }


def _mark(measurement: Measurement, status: str, reason: str) -> None:
    """Set the status, never from a worse one to a better one."""
    order = ("info", "pass", "warn", "fail")
    if order.index(status) >= order.index(measurement["status"]):
        measurement.update(status=status, reason=reason)


def _as_asked(document: Mapping[str, Any], conditions: Conditions) -> List[Finding]:
    """Two jobs that each ran alone, or a fall-back to another backend, would both look healthy."""
    got = {"ranks": document["ranks"], "backend": document["backend"], "nodes": document["nodes"]}
    wanted = {key: conditions.asked[key] for key in got if conditions.asked.get(key) is not None}
    return [
        finding(
            "verify.ranks_differ",
            conditions.job.host,
            f"{key}: asked for {value}, ran with {got[key]}",
            [(STAGE, document["hosts"])],
        )
        for key, value in wanted.items()
        if value != got[key]
    ]


def _incomplete(document: Mapping[str, Any], conditions: Conditions) -> List[Finding]:
    host = conditions.job.host
    findings = []
    if document["errors"] or not document["complete"]:
        texts = document["errors"] or ["the sweep was not finished"]
        findings.append(
            finding("verify.stage_failed", host, f"collectives: {texts[0]}", [(STAGE, text) for text in texts])
        )
    present = {row["collective"] for row in document["rows"]}
    explained = {entry["collective"] for entry in [*document["skipped"], *document["left_out"]]}
    missing = [name for name in conditions.asked.get("collectives") or BUS_FACTOR if name not in present | explained]
    if missing and document["complete"]:
        findings.append(finding("verify.collective_missing", host, f"no result of {', '.join(missing)}"))
    if not present and document["complete"]:
        findings.append(finding("verify.nothing_measured", host, "the sweep ended without a single row"))
    for entry in document["left_out"]:
        text = f"{entry['collective']} from {entry['from_bytes']} bytes on: {entry['reason']}"
        some = entry["collective"] in present or (entry["collective"] == "all" and present)
        findings.append(finding("verify.left_out", host, text, severity=None if some else "warn"))
    for entry in document["skipped"]:
        text = f"{entry['collective']}: the backend {document['backend']} does not have it"
        findings.append(finding("verify.left_out", host, text, [(STAGE, entry["reason"])]))
    return findings


def _consistent(row: Mapping[str, Any], ranks: int) -> bool:
    """Recompute both bandwidths from size and time."""
    if row["collective"] not in BUS_FACTOR or not row["time_us"] or row["time_us"] <= 0:
        return False
    algbw = float(row["size_bytes"] / row["time_us"] / 1e3)
    busbw = algbw * BUS_FACTOR[row["collective"]](ranks)
    allowed = _ARITHMETIC * algbw
    return abs(float(row["algbw_gb_s"]) - algbw) <= allowed and abs(float(row["busbw_gb_s"]) - busbw) <= allowed


def _wrong(document: Mapping[str, Any], measurements: List[Measurement], job: Job) -> List[Finding]:
    """One finding for all wrong rows: the ranks that saw them are what helps to find the culprit."""
    bad = [(row, one) for row, one in zip(document["rows"], measurements) if row["wrong"] != 0]
    if not bad:
        return []
    ranks = set()
    for row, measurement in bad:
        _mark(measurement, "fail", f"{row['wrong']} wrong elements")
        ranks |= {rank for rank, count in enumerate(row.get("wrong_by_rank") or []) if count}
    where = ", ".join(f"{rank} ({document['hosts'][rank]}, {document['devices'][rank]})" for rank in sorted(ranks))
    names = list(dict.fromkeys(row["collective"] for row, _one in bad))
    proof = [(STAGE, text_of(one)) for _row, one in bad[:5]]
    proof += [(STAGE, f"seen by rank {where}")] if where else []
    proof.append((STAGE, f"seed {document['seed']}"))
    total = sum(row["wrong"] for row, _one in bad)
    summary = f"{', '.join(names)}: {total} wrong elements in {len(bad)} of {len(measurements)} sizes"
    return [finding("verify.collective_wrong", job.host, summary, proof)]


def _bandwidth(measurements: List[Measurement], conditions: Conditions) -> List[Finding]:
    job, data = conditions.job, conditions.thresholds
    for one in measurements:
        one["ceiling_gb_s"] = (
            ceiling(job, one["collective"], one["nodes"], one["ranks"], data) if one["backend"] != "gloo" else None
        )
    findings = [
        finding(
            "verify.bandwidth_above_ceiling",
            job.host,
            f"{one['collective']} at {one['size_bytes']} bytes: busbw {one['busbw_gb_s']:.4g} GB/s, "
            f"the links carry {one['ceiling_gb_s']:.4g}",
            [(STAGE, text_of(one))],
        )
        for one in measurements
        if one["ceiling_gb_s"] is not None and one["busbw_gb_s"] > one["ceiling_gb_s"]
    ]
    reduced = [one for one in measurements if one["collective"] == "all_reduce"]
    if not reduced or reduced[0]["backend"] == "gloo" or reduced[0]["ranks"] < 2:
        return findings  # gloo has no published figure; one rank moves nothing
    # The largest size is what the floors are about; averages over a sweep say nothing.
    return findings + _against_floors(max(reduced, key=lambda one: int(one["size_bytes"])), conditions)


def _against_floors(one: Measurement, conditions: Conditions) -> List[Finding]:
    job = conditions.job
    figures = fit(job, one["nodes"], one["ranks"], one["size_bytes"], conditions.thresholds, conditions.site_rows)
    one.update(threshold_gb_s=figures.fail_below or figures.warn_below, source=figures.source)
    proof = [(STAGE, text_of(one)), *(("thresholds", text) for text in figures.shown)]
    if one["threshold_gb_s"] is None:
        why = f"no floor is published for {one['ranks']} x {job.model or 'this hardware'}"
        if figures.from_bytes is not None:
            why = f"the floor holds from {figures.from_bytes} bytes on, the sweep ended at {one['size_bytes']}"
        return [
            finding("verify.bandwidth_not_judged", job.host, f"all_reduce {one['busbw_gb_s']:.4g} GB/s: {why}", proof)
        ]
    severity = _severity(one["busbw_gb_s"], figures.fail_below, figures.warn_below)
    if severity is None:
        _mark(one, "pass", f"busbw is not below {one['threshold_gb_s']:g} GB/s")
        return []
    limit = figures.fail_below if severity == "fail" else figures.warn_below
    _mark(one, severity, f"busbw {one['busbw_gb_s']:.4g} GB/s is below {limit:g}")
    summary = f"all_reduce at {one['size_bytes']} bytes: busbw {one['busbw_gb_s']:.4g} GB/s, floor {limit:g} GB/s"
    proof.append(("thresholds", f"floor: {figures.source}"))
    return [finding("verify.bandwidth_below_threshold", job.host, summary, proof, severity=severity)]


def _severity(busbw: float, fail_below: Optional[float], warn_below: Optional[float]) -> Optional[str]:
    if fail_below is not None and busbw < fail_below:
        return "fail"
    if warn_below is not None and busbw < warn_below:
        return "warn"
    return None
