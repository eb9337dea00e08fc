"""Judges how a stage ran, whatever it measured: time, exit status, open ports, processes left behind."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import finding
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.failures import failures

#: Lines of a stage's output that a finding quotes.
_QUOTED = 8
_LOOPBACK = ("127.", "::1", "::ffff:127.")


def judge(name: str, stage: Mapping[str, Any], host: Optional[str]) -> List[Finding]:
    """Return the findings about one stage's run: {run, document, asked}, {skipped: why} or {apart: {rule, text}}."""
    if stage.get("skipped"):
        return [finding("verify.stage_skipped", host, f"{name} was not run: {stage['skipped']}")]
    asked: Mapping[str, Any] = stage.get("asked") or {}
    apart = stage.get("apart") or asked.get("reason")
    said = [finding(apart["rule"], host, f"the job over several nodes: {apart['text']}")] if apart else []
    if stage.get("apart"):
        return said
    run: Mapping[str, Any] = stage.get("run") or {}
    findings = []
    proof = [(name, line) for line in (run.get("tail") or [])[-_QUOTED:]]
    if run.get("command"):
        proof.insert(0, (name, " ".join(run["command"])))
    document = stage.get("document")
    told = bool(document and document.get("errors"))  # the document names its errors itself
    if run.get("timed_out"):
        seconds = f" of {run['seconds']:.0f} s" if run.get("seconds") else ""
        text = f"{name}: not done within its time{seconds}"
        findings.append(finding("verify.timeout", host, text, proof, option=f"verify_{name}_seconds"))
    elif run.get("rc") not in (0, None) and not told:
        findings.append(finding("verify.stage_failed", host, f"{name}: exit status {run['rc']}", proof))
    elif not document:
        text = f"{name}: the launcher left no account of itself" if not run else f"{name}: ended without a result"
        findings.append(finding("verify.nothing_measured", host, text, proof))
    inside = [run, *_inner(document)]
    if run.get("timed_out") or run.get("rc") not in (0, None) or told:
        findings += failures(printed(inside, document), host)
    return said + findings + _open_ports(name, inside, host, asked.get("address")) + _left(name, inside, host)


def printed(runs: Sequence[Mapping[str, Any]], document: Optional[Mapping[str, Any]]) -> List[str]:
    """The last lines of what ran, and what the ranks themselves say went wrong."""
    errors = (document or {}).get("errors") or []
    lines = [str(error["text"] if isinstance(error, Mapping) else error) for error in errors]
    return [*(str(line) for run in runs for line in run.get("tail") or []), *lines]


def _inner(document: Optional[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    """The runs that a stage started itself."""
    return list(((document or {}).get("runs") or {}).values())


def _open_ports(name: str, runs: List[Mapping[str, Any]], host: Optional[str], private: Optional[str]) -> List[Finding]:
    """``private``: the node's address for the others, which a job over several nodes has to listen on."""
    heard = {(one["address"], one["port"]) for run in runs for one in run.get("listening") or []}
    public = sorted(
        (address, port) for address, port in heard if not address.startswith(_LOOPBACK) and address != private
    )
    if not public:
        return []
    proof = [(name, f"listened on {address} port {port}") for address, port in public[:4]]
    where = f"loopback and {private}" if private else "loopback"
    return [finding("verify.port_open", host, f"{name} listened on other addresses than {where} while it ran", proof)]


def _left(name: str, runs: List[Mapping[str, Any]], host: Optional[str]) -> List[Finding]:
    left = [text for run in runs for text in run.get("left_running") or []]
    if not left:
        return []
    proof = [(name, text) for text in left[:4]]
    return [
        finding("verify.processes_left", host, f"{name} left {len(left)} processes behind; they were stopped", proof)
    ]
