"""Rules about what the kernel logged since boot: Xids, SXids, PCIe errors, memory ran out."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import count, listed


def _by_gpu(host: Host) -> Dict[str, List[Mapping[str, Any]]]:
    found: Dict[str, List[Mapping[str, Any]]] = {}
    for xid in host.get("kernel_log", "xids") or []:
        found.setdefault(str(xid.get("pci_address") or "unknown"), []).append(xid)
    return found


def stated(table: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Optional[str]:
    """The action the driver itself stated last (Xid 154); ``table`` has the words of data/xids.yml, recovery."""
    said = next((str(row.get("raw")) for row in reversed(rows) if row.get("xid") == 154), None)
    match = re.search(r"to 0x[0-9a-fA-F]+ \(([^)]+)\)", said or "")
    if not match:
        return None
    return next(
        (action for words, action in table.items() if str(words).lower() == match.group(1).strip().lower()), "reset"
    )


@host_rule("gpu.xid")
def xid_events(host: Host) -> Iterator[Hit]:
    """One finding a GPU: the worst Xid decides, unless the driver stated what it needs."""
    catalog: Mapping[int, Mapping[str, Any]] = host.fact("xids", "xids") or {}
    gpus = {str(gpu.get("pci_address")): gpu for gpu in host.gpus}
    for address, rows in sorted(_by_gpu(host).items()):
        gpu = gpus.get(address) or {}
        told = stated(host.fact("xids", "recovery") or {}, rows)
        hardware = [row for row in rows if (catalog.get(row["xid"]) or {"kind": "gpu"}).get("kind") != "application"]
        if not hardware:
            continue
        ranked = sorted(
            hardware,
            key=lambda row: ("fail", "warn", "info").index(
                str((catalog.get(row["xid"]) or {}).get("severity", "warn"))
            ),
        )
        first = ranked[0]
        known = catalog.get(first["xid"]) or {}
        severity, action = str(known.get("severity", "warn")), str(known.get("action", "none"))
        ecc = gpu.get("ecc") or {}
        repaired = ecc.get("remap_pending") is False and ecc.get("remap_failed") is False
        recovered = gpu.get("recovery_action") == "None" and gpu.get("index") is not None and not gpu.get("lost")
        if told == "none" or (severity == "fail" and recovered and action == "reset" and told is None):
            severity, action = ("info", "none") if told == "none" else ("warn", action)
        elif told:
            severity, action = "fail", told
        elif known.get("kind") == "memory" and repaired and first["xid"] in (48, 63, 94):
            severity, action = "info", "none"
        title = known.get("title", "not in the catalog")
        others = [f"{row['xid']}" for row in ranked[1:]]
        text = f"GPU {address}: Xid {first['xid']}, {title}" + (f" (also Xid {listed(others)})" if others else "")
        say = (
            "history"
            if action == "none"
            else action
            if action in ("power_cycle", "reboot", "ask_provider", "reinstall", "wait")
            else None
        )
        yield Hit(
            text,
            [evidence("dmesg", row.get("raw")) for row in hardware[-5:]],
            severity=severity,
            action=action,
            say=say,
            address=address,
        )


@host_rule("gpu.xid_of_jobs")
def xid_of_jobs(host: Host) -> Iterator[Hit]:
    """Faults of programs: worth knowing, nothing to repair."""
    catalog: Mapping[int, Mapping[str, Any]] = host.fact("xids", "xids") or {}
    rows = [
        row
        for row in host.get("kernel_log", "xids") or []
        if (catalog.get(row["xid"]) or {}).get("kind") == "application"
    ]
    if rows:
        text = listed(sorted({f"Xid {row['xid']}" for row in rows}))
        yield Hit(
            f"{text}: programs failed on the GPU ({sum(int(row.get('count') or 1) for row in rows)} times)",
            [evidence("dmesg", row.get("raw")) for row in rows[:3]],
        )


@host_rule("gpu.sxid")
def sxid_events(host: Host) -> Iterator[Hit]:
    rows = host.get("kernel_log", "sxids") or []
    for fatal in (True, False):
        found = [row for row in rows if bool(row.get("fatal")) is fatal]
        if found:
            kind = host.fact("xids", "sxid", "fatal" if fatal else "nonfatal") or {}
            numbers = listed(sorted({f"SXid {row['xid']}" for row in found}))
            where = listed(sorted({str(row.get("pci_address")) for row in found}))
            yield Hit(
                f"{numbers} of NVSwitch {where}{', fatal' if fatal else ''}",
                [evidence("dmesg", row.get("raw")) for row in found[:4]],
                severity=kind.get("severity"),
                action=kind.get("action"),
                say=None if fatal else "history",
            )


@host_rule("pcie.errors")
def pcie_errors(host: Host) -> Iterator[Hit]:
    """PCIe errors of GPUs and adapters. Corrected ones only count when there are many."""
    interesting = {
        str(device.get("address"))
        for device in host.pci
        if host.vendor(device, "nvidia") or host.vendor(device, "mellanox")
    }
    many = host.threshold("corrected_pcie_errors")
    for row in host.get("kernel_log", "aer") or []:
        address, severity, times = str(row.get("pci_address")), str(row.get("severity")), int(row.get("count") or 0)
        line = [evidence("dmesg", row.get("raw"))]
        if severity == "fatal" and (address in interesting or not interesting):
            yield Hit(f"fatal PCIe error at {address}", line, severity="fail", address=address)
        elif severity == "nonfatal" and address in interesting:
            yield Hit(f"{count(times, 'uncorrected PCIe error')} at {address}", line, address=address)
        elif severity == "corrected" and address in interesting and times >= many:
            yield Hit(f"{times} corrected PCIe errors at {address} since boot", line, address=address)


@host_rule("machine.out_of_memory")
def out_of_memory(host: Host) -> Iterator[Hit]:
    rows = [row for row in host.get("kernel_log", "oom") or [] if not row.get("cgroup")]
    if rows:
        names = listed(sorted({str(row.get("process")) for row in rows}))
        yield Hit(
            f"the node ran out of memory {count(len(rows), 'time')}; killed: {names}",
            [evidence("dmesg", row.get("raw")) for row in rows[-3:]],
        )
