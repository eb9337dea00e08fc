"""The rules of comparing a node with its like and with its own past; judge/catalogue.py merges them into its own."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Dict

from ansible_collections.trainrig.gpu.plugins.module_utils.judge.rule import Rule

_PEERS = "Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993); data/thresholds.yml, pairs and peers"
_BASELINE = "The inventory's verify_baseline.yml; data/thresholds.yml, baseline"

RULES: Dict[str, Rule] = {
    "verify.slower_than_peers": Rule(
        "warn",
        "ask_provider",
        "The node is slower than the others of its pool with the same hardware on the same measurement. Nothing "
        "published is needed to see that. Usual reasons: NVLink or PCIe at a lower rate, a GPU throttled, another job "
        "on the node.",
        "Compare its clocks, throttle reasons, NVLink and PCIe state with a peer's in the report; verify it again "
        "while it is idle; then show the provider both rows.",
        _PEERS,
    ),
    "verify.below_baseline": Rule(
        "fail",
        "configure",
        "The result is below what this site recorded of the same job, so something changed since: a driver, a library, "
        "a setting, or the hardware.",
        "Compare the lock digest in the evidence with today's and read the health findings. If the change is meant, "
        "record anew: `playbooks/verify.yml -e baseline=record`.",
        _BASELINE,
    ),
    "verify.baseline_missing": Rule(
        "info",
        "none",
        "The site recorded a baseline, and it has no row for this measurement: other hardware, another number of "
        "nodes or GPUs, or a smaller message.",
        "When the results are as they should be, record them too: `playbooks/verify.yml -e baseline=record`.",
        _BASELINE,
    ),
}
