"""Judges a node's health under load: what the load changed, not what was there before it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import SEVERITIES, Finding, ordered
from ansible_collections.trainrig.gpu.plugins.module_utils.judge import health_gpu, health_links
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import POOL, finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.changes import Looks, at
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.health_gpu import Hit, Outcome, Proof

STAGE = "health"
#: Probes that a look while the load runs needs; a whole observation is as good.
PROBES = ("nvidia_smi_xml", "nvidia_smi_nvlink", "lspci", "ibstat", "rdma_link")


class Data(NamedTuple):
    """The files of data/ that health is judged by."""

    rules: Mapping[str, Any]
    xids: Mapping[str, Any]
    health: Mapping[str, Any]


#: Check -> what it looks at. Each is a row of the report and a JUnit case.
CHECKS: Dict[str, Callable[[Looks], Optional[Outcome]]] = {
    "still running": lambda looks: _running(looks),
    "GPUs answer": health_gpu.answering,
    "Xid errors": health_gpu.xids,
    "memory": health_gpu.memory,
    "clocks": health_gpu.throttled,
    "temperature": health_gpu.temperature,
    "NVLinks": health_links.nvlinks,
    "NVSwitch errors": health_links.sxids,
    "PCIe errors": health_links.pcie_errors,
    "PCIe replays": health_links.pcie_replays,
    "PCIe link under load": health_links.pcie_link,
    "RDMA links": health_links.rdma_links,
    "RDMA errors": health_links.rdma_errors,
}


def judge(
    before: Mapping[str, Any],
    during: Optional[Sequence[Mapping[str, Any]]],
    after: Mapping[str, Any],
    host: Optional[str],
    data: Data,
    pool: str = POOL,
) -> Tuple[List[Finding], List[Dict[str, Any]]]:
    """Return findings and measurements: one measurement a check that this hardware has.

    ``before``, ``after`` and each of ``during`` are observations as trainrig.gpu.observe returns them. Without
    ``during`` what only shows under load is not judged, and that is said.
    """
    looks = Looks(before, list(during or []), after, host, data.rules, data.xids, data.health)
    findings: List[Finding] = []
    measurements: List[Dict[str, Any]] = []
    for name, check in CHECKS.items():
        outcome = check(looks)
        if outcome is None:  # this node has no such part
            continue
        found = [_finding(hit, host, pool) for hit in outcome.hits]
        findings += found
        measurements.append(_measured(name, outcome, found, looks))
    return ordered(findings), measurements


def _finding(hit: Hit, host: Optional[str], pool: str) -> Finding:
    made = finding(f"{STAGE}.{hit.rule}", host, hit.summary, hit.proof, hit.severity, pool, next=hit.say)
    if hit.action:
        made["action"]["kind"] = hit.action
    return made


def _running(looks: Looks) -> Outcome:
    was, now = (at(look, "boot", "boot_id") for look in (looks.before, looks.after))
    if not was or not now:
        return Outcome(unknown="the boot id could not be read")
    if not looks.rebooted:
        return Outcome(seen="the same boot before and after")
    proof: Proof = [("boot_id", f"before the load {was}, after it {now}")]
    return Outcome([Hit("rebooted", "the node booted again while it was verified", proof)])


def _measured(name: str, outcome: Outcome, found: List[Finding], looks: Looks) -> Dict[str, Any]:
    """A measurement in the form of all others; what does not apply to a check of health is None."""
    worst = min((SEVERITIES.index(one["severity"]) for one in found), default=None)
    status = "pass" if worst is None else SEVERITIES[worst]
    reason = "; ".join(one["summary"] for one in found) or outcome.seen
    if not found and outcome.unknown:
        status, reason = "info", f"not known: {outcome.unknown}"
    elif outcome.unknown:
        reason += f"; not known: {outcome.unknown}"
    nothing = ("collective", "backend", "ranks", "size_bytes", "dtype", "time_us", "algbw_gb_s", "busbw_gb_s")
    row: Dict[str, Any] = {"stage": STAGE, "check": name, "nodes": 1, **dict.fromkeys(nothing)}
    row.update(hosts=[looks.host] if looks.host else [], host=looks.host, seconds=looks.seconds)
    row.update(threshold_gb_s=None, ceiling_gb_s=None, source=None, status=status, reason=reason)
    return {**row, "known": not outcome.unknown}
