"""The rules of health under load; judge/catalogue.py merges them into its own."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Dict

from ansible_collections.trainrig.gpu.plugins.module_utils.judge.rule import Rule

_XIDS = "NVIDIA Xid catalog; data/xids.yml"
_ECC = "NVIDIA GPU Memory Error Management"
_NIC = "NVIDIA NVSentinel documentation, NIC Health Monitor; data/health.yml"
_DCGM = "NVIDIA DCGM, health watches; data/health.yml"

RULES: Dict[str, Rule] = {
    "health.rebooted": Rule(
        "fail",
        "ask_provider",
        "The node booted again while it was verified: its power failed, its kernel stopped under the load, or somebody "
        "restarted it. What it had counted before is lost.",
        "Look at the last lines before the restart (`journalctl -k -b -1 -e`). If nobody restarted it, show them to "
        "the provider: a node that goes down under load is not fit for training.",
        "Linux kernel documentation, /proc/sys/kernel/random/boot_id",
    ),
    "health.gpu_lost": Rule(
        "fail",
        "power_cycle",
        "The GPU answered before the load and does not answer after it: it fell off the bus, or its driver gave up.",
        "Take the node out of use and power-cycle it. If the GPU is lost under load again, the provider has to replace "
        "it.",
        _XIDS + " (Xid 79)",
    ),
    "health.xid": Rule(
        "fail",
        "reset",
        "The driver reported a fault of the GPU while it was under load; what it had reported before does not count "
        "here.",
        "{next}",
        _XIDS,
    ),
    "health.xid_of_job": Rule(
        "warn",
        "ask_provider",
        "The driver blames the program for this fault, and the program was the verification itself, which runs clean "
        "on sound hardware. So a GPU that corrupts data, its memory or its link may be the reason.",
        "Verify again. If it comes back on the same GPU, exchange the GPU; if it follows the software, look at the "
        "driver and torch.",
        _XIDS,
    ),
    "health.sxid": Rule(
        "fail",
        "ask_provider",
        "An NVSwitch reported an error while its links were under load.",
        "Show the lines to the provider. After a fatal one the GPUs and switches have to be reset together before "
        "anything else runs.",
        "NVIDIA Fabric Manager User Guide, NVSwitch SXid errors; data/xids.yml",
    ),
    "health.pcie_errors": Rule(
        "fail",
        "ask_provider",
        "The PCIe link of this device made errors while data went over it: the slot, a riser, a retimer or the card is "
        "electrically unsound.",
        "Show the lines to the provider, with the address of the device.",
        "Linux kernel documentation, PCI Express Advanced Error Reporting",
    ),
    "health.pcie_replays": Rule(
        "warn",
        "ask_provider",
        "Packets had to be sent again over the GPU's PCIe link more often than a sound link needs; each costs time, "
        "and a link that gets worse is lost in the end.",
        "Verify again; if the count rises again, show both to the provider (riser, retimer, seat of the card).",
        _DCGM,
    ),
    "health.pcie_link": Rule(
        "fail",
        "ask_provider",
        "A PCIe link goes up to its full speed and width when the GPU works. This one did not, or lost lanes under the "
        "load.",
        "Show it to the provider: the slot, the riser or the card. In a virtual machine only the provider can see the "
        "real link.",
        "PCI Express Base Specification, link training and power management",
    ),
    "health.memory_errors": Rule(
        "fail",
        "reset",
        "The GPU's memory made errors under the load. One that cannot be corrected kills the job it hits; the driver "
        "then replaces the row, which takes effect with the next reset.",
        "{next}",
        _ECC,
    ),
    "health.nvlink_down": Rule(
        "fail",
        "ask_provider",
        "NVLinks that were up before the load are down: collectives lose that part of the bandwidth, or fail.",
        "Show it to the provider with the lines in the evidence; a reset of all GPUs of the board may bring the links "
        "back until the next load.",
        "nvidia-smi, nvlink --status; NVIDIA Fabric Manager User Guide",
    ),
    "health.nvlink_errors": Rule(
        "fail",
        "ask_provider",
        "The NVLinks of this GPU counted errors while data went over them.",
        "Verify again; if the same links count again, show both to the provider.",
        _DCGM,
    ),
    "health.throttled": Rule(
        "fail",
        "ask_provider",
        "Under load the GPU was slowed down, for a reason that was not there before: cooling, power supply or the "
        "board do not carry the load it is sold for.",
        "Show it to the provider: air flow, inlet temperature, power supplies. Such a node slows down every job that "
        "has a rank on it.",
        "NVIDIA NVML API reference, clocks event reasons; data/rules.yml",
    ),
    "health.temperature": Rule(
        "warn",
        "ask_provider",
        "Under load the GPU reached the temperature from which it slows itself down; on a warmer day or after hours it "
        "will.",
        "Compare with the other GPUs of the node; show it to the provider (air flow, fans, inlet temperature).",
        "nvidia-smi, temperature: slowdown threshold and T.Limit",
    ),
    "health.rdma_link": Rule(
        "fail",
        "ask_provider",
        "A port that was up before the load is down, slower or gone: the cable, the transceiver, the switch port or "
        "the adapter.",
        "Show it to the provider, with the device and its port. Until then leave the node out of jobs over several "
        "nodes.",
        "Linux kernel documentation, ABI/stable/sysfs-class-infiniband",
    ),
    "health.rdma_errors": Rule(
        "fail",
        "ask_provider",
        "A port counted errors while data went over it, more than a sound link makes in that time.",
        "Verify again; if the same port counts again, show both to the provider: cable, transceiver, switch port.",
        _NIC,
    ),
}
