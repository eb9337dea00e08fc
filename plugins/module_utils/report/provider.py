"""What to send to the provider: for each fault that is theirs, what, where, since when, and the line that shows it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.report.junit import measurement_name
from ansible_collections.trainrig.gpu.plugins.module_utils.report.summary import part, places
from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import number, one_line

#: Actions that a renter cannot do, or that end with a part being exchanged.
THEIRS = ("ask_provider", "replace", "power_cycle")
#: A reset that is due because of a hardware fault under load is theirs when it comes back.
_THEIR_RULES = ("health.xid", "health.memory_errors")
_ADDRESS = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", re.I)
_EVIDENCE = 4


def theirs(finding: Mapping[str, Any]) -> bool:
    """Whether a finding is a fault of what was rented, not of what runs on it."""
    if finding.get("severity") not in ("refuse", "fail", "warn"):
        return False
    if part(finding, "action", "kind") in THEIRS:
        return True
    return finding.get("rule") in _THEIR_RULES and finding.get("severity") == "fail"


def entries(report: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """One entry a fault: ``{host, fault, severity, parts, expected, measured, evidence, time}``, the worst first."""
    found = []
    for one in report["findings"]:
        if theirs(one):
            host = report["hosts"].get(one.get("host") or "") or {}
            found.append(
                {
                    "host": one.get("host"),
                    "rule": one.get("rule"),
                    "severity": one.get("severity"),
                    "fault": one_line(one.get("summary")),
                    "parts": _parts(one, host),
                    "expected": one.get("expected") or _figure(one, report, "threshold_gb_s"),
                    "measured": one.get("measured") or _figure(one, report, "busbw_gb_s"),
                    "evidence": [
                        f"{row.get('probe')}: {one_line(row.get('text'))}"
                        for row in (one.get("evidence") or [])[:_EVIDENCE]
                    ],
                    "time": str(report["finished"]),
                }
            )
    return found


def _parts(finding: Mapping[str, Any], host: Mapping[str, Any]) -> List[Dict[str, Optional[str]]]:
    """The GPUs and adapters that the finding names by their PCI address, with what identifies them for their owner."""
    lines = [finding.get("summary"), *(row.get("text") for row in finding.get("evidence") or [])]
    named = list(dict.fromkeys(address.lower() for line in lines for address in _ADDRESS.findall(str(line or ""))))
    gpus = {str(gpu.get("pci_address")): gpu for gpu in part(host, "observation", "gpu_list") or []}
    found = []
    for address in named:
        gpu = gpus.get(address) or {}
        keys = ("model", "serial", "uuid")
        found.append({"pci_address": address, **{key: gpu.get(key) for key in keys}})
    return found


def _figure(finding: Mapping[str, Any], report: Mapping[str, Any], name: str) -> Optional[str]:
    """A figure of the measurement that a finding about speed is about: its host's failed one at the largest size."""
    if "bandwidth" not in str(finding.get("rule")):
        return None
    rows = [
        one
        for one in report["measurements"]
        if one.get("status") in ("fail", "warn") and finding.get("host") in places(one)
    ]
    rows = [one for one in rows if one.get("busbw_gb_s") is not None and one.get(name) is not None]
    if not rows:
        return None
    row = max(rows, key=lambda one: int(one.get("size_bytes") or 0))
    word = "at least " if name == "threshold_gb_s" else ""
    source = f" ({row['source']})" if name == "threshold_gb_s" and row.get("source") else ""
    return f"{word}{number(row[name])} GB/s, {measurement_name(row)}{source}"


def text(report: Mapping[str, Any]) -> str:
    """Plain text of short lines for a mail or a ticket; empty where nothing is the provider's."""
    found = entries(report)
    if not found:
        return ""
    hosts = sorted({str(one["host"]) for one in found if one["host"]})
    lines = [
        f"Faults found by a verification that ended {report['finished']} (UTC).",
        f"{len(found)} on {', '.join(hosts) if hosts else 'the network between the hosts'}.",
    ]
    for index, one in enumerate(found, start=1):
        lines += ["", f"{index}. {one['host'] or 'several hosts'}: {one['fault']}"]
        for item in one["parts"]:
            known = [
                f"{label} {item[key]}"
                for key, label in (("model", "model"), ("serial", "serial"), ("uuid", "UUID"))
                if item[key]
            ]
            lines.append(f"   part: PCI {item['pci_address']}" + (f", {', '.join(known)}" if known else ""))
        lines += [
            f"   {label}: {one[key]}" for key, label in (("expected", "expected"), ("measured", "measured")) if one[key]
        ]
        lines += [f"   evidence: {row}" for row in one["evidence"]]
        lines.append(f"   rule: {one['rule']} ({one['severity']}), {one['time']}")
    return "\n".join(lines)
