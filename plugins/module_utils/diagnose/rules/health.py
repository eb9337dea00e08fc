"""Rules about each GPU's health: does it answer, is its memory sound, what does it do."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Iterator

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule


@host_rule("gpu.lost")
def lost(host: Host) -> Iterator[Hit]:
    if not host.driver_loaded and not host.gpus:
        return
    fallen = {
        xid.get("pci_address"): xid
        for xid in host.get("kernel_log", "xids") or []
        if xid.get("xid") in (host.fact("rules", "xid_lost") or [])
    }
    for gpu in host.gpus:
        if not gpu.get("lost") or gpu.get("hidden"):
            continue
        address = gpu.get("pci_address")
        shown = [evidence("nvidia_smi_xml", gpu.get("raw") or f"GPU {address} does not answer")]
        xid = fallen.get(address)
        if xid:
            shown.append(evidence("dmesg", xid.get("raw")))
        yield Hit(f"GPU {address} is on the bus but does not answer", shown, address=address)
