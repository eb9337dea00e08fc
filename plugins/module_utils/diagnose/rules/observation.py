"""Rules about the look itself: could anything be read, did a tool hang."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Iterator

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule

#: Tools that ask the driver: when they hang, the driver does.
_DRIVER_TOOLS = ("nvidia_smi_xml", "nvidia_smi_topo", "nvidia_smi_nvlink", "nvidia_smi_p2p", "nvidia_processes")


@host_rule("observation.empty")
def empty(host: Host) -> Iterator[Hit]:
    states = [str((state or {}).get("status")) for state in (host.get("probes") or {}).values()]
    if not any(state in ("ok", "error", "timeout") for state in states):
        unreadable = states.count("unreadable")
        yield Hit("no probe gave anything that can be read" + (f" (garbled: {unreadable})" if unreadable else ""))


@host_rule("observation.driver_hangs")
def driver_hangs(host: Host) -> Iterator[Hit]:
    hung = [name for name in _DRIVER_TOOLS if host.get("probes", name, "status") == "timeout"]
    if hung:
        yield Hit(
            f"nvidia-smi did not answer in time ({', '.join(hung)})",
            [evidence(hung[0], "no answer within the time-out")],
        )
