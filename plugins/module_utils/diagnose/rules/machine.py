"""Rules about the machine around the GPUs: shared memory, disk, clock, reboot that is due."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Iterator

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.reboot import pending


@host_rule("machine.shared_memory_small")
def shared_memory_small(host: Host) -> Iterator[Hit]:
    size = host.get("machine", "shm_mib")
    ranks = max(len(host.gpus), len(host.pci_gpus), host.wants.gpus_per_node or 0)
    needed = host.threshold("shm_mib_per_rank") * max(ranks, 1)
    if size is not None and size < needed:
        need = f"{ranks} local ranks need" if ranks > 1 else "one rank needs"
        text = f"/dev/shm has {size} MiB, {need} {needed:.0f}"
        yield Hit(
            text,
            [evidence("shm", host.get("machine", "shm_raw"))],
            severity="warn" if host.no_gpus and not host.wants.gpus_per_node else None,
            needed=f"{max(needed / 1024, 1):.0f}g",
            say="container" if host.container else None,
        )


@host_rule("machine.shared_memory_full")
def shared_memory_full(host: Host) -> Iterator[Hit]:
    raw = str(host.get("machine", "shm_raw") or "")
    match = re.search(r"\s([0-9]+)\s+([0-9]+)\s+([0-9]+)\s+[0-9]+%\s", raw)
    if not match:
        return
    total, used = int(match.group(1)), int(match.group(2))
    if total and used >= host.threshold("shm_full_share") * total:
        yield Hit(f"/dev/shm is full: {used // 1024} of {total // 1024} MiB", [evidence("shm", raw)])


@host_rule("machine.disk_full")
def disk_full(host: Host) -> Iterator[Hit]:
    for row in host.get("machine", "filesystems") or []:
        if row.get("mount") not in ("/", "/var", "/tmp", "/opt", "/home") or not row.get("size_mib"):
            continue
        free = row.get("available_mib")
        if free is not None and free <= (1 - host.threshold("disk_full_share")) * row["size_mib"]:
            yield Hit(
                f"{row['mount']} is full: {free} of {row['size_mib']} MiB are free",
                [evidence("disks", f"{row.get('device')} on {row['mount']}: {free} MiB free")],
                mount=row["mount"],
            )


@host_rule("machine.clock_not_synchronised")
def clock_not_synchronised(host: Host) -> Iterator[Hit]:
    if host.get("identity", "ntp_synchronized") is False and not host.container:
        yield Hit("the clock is not synchronised", [evidence("identity", "NTPSynchronized=no")])


@host_rule("machine.reboot_pending")
def reboot_pending(host: Host) -> Iterator[Hit]:
    """Ours: a change that takes effect at the next boot, recorded with the boot it was made in."""
    why = ", ".join(pending(host.observation))
    if why:
        yield Hit(f"a reboot is due: {why}", [evidence("pending_reboot", why)])


@host_rule("machine.accelerator_unhealthy")
def accelerator_unhealthy(host: Host) -> Iterator[Hit]:
    """What the tools of other accelerators say of their devices."""
    good = host.fact("rules", "healthy_words") or []
    for device in host.get("accelerators") or []:
        health = str(device.get("health") or "").strip()
        if health and health.lower() not in good:
            words = (device.get("vendor"), device.get("name") or "device", device.get("index"))
            name = " ".join(str(word) for word in words if word is not None)
            yield Hit(
                f"{name}: health is {health}",
                [
                    evidence(
                        {"huawei": "npu_smi", "cambricon": "cnmon"}.get(str(device.get("vendor")), "rocm_smi"),
                        device.get("raw"),
                    )
                ],
            )
