"""Which parser reads which probe, and the joins that make one fact of several; by name, so a module's zip has all."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Callable

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers import documents, machine, system
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Parser

#: Probe id -> parser. A parser takes a Reading and returns {place in the Observation: value}.
PARSERS: dict[str, Parser] = {
    # the system
    "os_release": system.os_release,
    "uname": system.uname,
    "cmdline": system.cmdline,
    "modules": system.modules,
    "boot_id": system.boot_id,
    "kernels": system.kernels,
    "identity": system.identity,
    # the machine
    "numa": machine.numa,
    "cpu": machine.cpu,
    "virt": machine.virt,
    "memory": machine.memory,
    "disks": machine.disks,
    "shm": machine.shm,
    "sysctl": machine.sysctl,
    # documents
    "manifest": documents.manifest,
    "pending_reboot": documents.pending_reboot,
    "python_env": documents.python_env,
}

#: Name -> join: (facts placed under "join.", Observation so far) -> facts. In this order, after all parsers.
JOINS: dict[str, Callable[[Facts, dict[str, Any]], Facts]] = {}
