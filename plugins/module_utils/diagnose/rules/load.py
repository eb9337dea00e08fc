"""Rules about what a GPU does right now: links, throttling, memory in use, somebody's processes."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from collections import Counter
from typing import Dict, Iterator, List

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.rules.health import answering, shown
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import count, listed


@host_rule("gpu.pcie_width")
def pcie_width(host: Host) -> Iterator[Hit]:
    """Width does not change with load. In a virtual machine only a difference between equal GPUs tells something."""
    rows = [
        (gpu, (gpu.get("pcie") or {}).get("width"), (gpu.get("pcie") or {}).get("width_max")) for gpu in answering(host)
    ]
    narrow = [(gpu, width, most) for gpu, width, most in rows if width and most and width < most]
    if not narrow:
        return
    usual, times = Counter(width for _gpu, width, _most in rows if width).most_common(1)[0]
    lines = [shown(gpu, f"PCIe width x{width}, at most x{most}") for gpu, width, most in narrow[:4]]
    text = listed(f"{gpu['pci_address']} x{width} of x{most}" for gpu, width, most in narrow)
    odd = [row for row in narrow if row[1] < usual]
    if host.bare_metal or odd:
        yield Hit(f"PCIe link narrower than it should be: {text}", lines)
    elif times == len(rows):
        # What a virtual machine shows of its root port need not be the card's link.
        yield Hit(
            f"PCIe width x{usual} on all GPUs, in a virtual machine",
            lines,
            severity="info",
            action="none",
            say="virtual",
        )


@host_rule("gpu.pcie_generation")
def pcie_generation(host: Host) -> Iterator[Hit]:
    """An idle GPU trains its link down; only a busy one can be judged."""
    busy_percent = host.threshold("busy_percent")
    slow = []
    for gpu in answering(host):
        pcie = gpu.get("pcie") or {}
        now, most = pcie.get("gen"), pcie.get("gen_max_host") or pcie.get("gen_max")
        most = min(most, pcie["gen_max"]) if most and pcie.get("gen_max") else most
        if now and most and now < most and (gpu.get("utilization_percent") or 0) >= busy_percent:
            slow.append((gpu, now, most))
    if slow:
        text = listed(f"{gpu['pci_address']} generation {now} of {most}" for gpu, now, most in slow)
        lines = [
            shown(gpu, f"PCIe generation {now}, at most {most}, utilisation {gpu['utilization_percent']} %")
            for gpu, now, most in slow[:4]
        ]
        yield Hit(f"PCIe link slow under load: {text}", lines)


@host_rule("gpu.throttled")
def throttled(host: Host) -> Iterator[Hit]:
    table: Dict[str, Dict[str, str]] = host.fact("rules", "throttle_reasons") or {}
    for reason, row in table.items():
        odd = [gpu for gpu in answering(host) if reason in (gpu.get("throttle_reasons") or [])]
        if odd:
            lines = [
                shown(gpu, f"{reason} is active, {gpu.get('temperature_c')} C, {gpu.get('power_w')} W")
                for gpu in odd[:4]
            ]
            names = listed(gpu["pci_address"] for gpu in odd)
            yield Hit(f"clocks held down ({row['title']}) on {names}", lines, severity=row["severity"])


@host_rule("gpu.busy")
def busy(host: Host) -> Iterator[Hit]:
    processes = [row for row in host.get("nvidia", "processes") or [] if row.get("pid")]
    if not processes:
        return
    daemons = tuple(host.fact("rules", "daemons") or ())
    jobs = [row for row in processes if not str(row.get("name") or "").rsplit("/", 1)[-1].startswith(daemons)]
    if jobs:
        lines = [
            evidence(
                "nvidia_processes",
                f"pid {row['pid']} {row.get('name')} {row.get('used_memory_mib')} MiB on {row.get('gpu_uuid')}",
            )
            for row in jobs[:6]
        ]
        pids = listed(sorted({int(row["pid"]) for row in jobs}))
        yield Hit(
            f"{count(len({row['pid'] for row in jobs}), 'process')} on the GPUs: pid {pids}".replace(
                "processs", "processes"
            ),
            lines,
            pids=pids,
        )


@host_rule("gpu.memory_in_use")
def memory_in_use(host: Host) -> Iterator[Hit]:
    """Memory that no visible process holds: a job that died badly, or one in another container."""
    processes = host.get("nvidia", "processes")
    if processes is None:
        return
    owners = {row.get("gpu_uuid") for row in [*processes, *(host.get("nvidia", "graphics_processes") or [])]}
    share = host.threshold("idle_memory_share")
    odd: List[Dict[str, object]] = []
    for gpu in answering(host):
        used, total = gpu.get("memory_used_mib"), gpu.get("memory_mib")
        if used and total and used > share * total and gpu.get("uuid") not in owners and not gpu.get("mig_enabled"):
            odd.append(gpu)
    if odd:
        lines = [
            shown(gpu, f"{gpu['memory_used_mib']} of {gpu['memory_mib']} MiB in use, no process") for gpu in odd[:4]
        ]
        yield Hit(f"memory in use without a process on {listed(gpu['pci_address'] for gpu in odd)}", lines)
