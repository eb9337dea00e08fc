"""Controller side of trainrig.gpu.profile: picks the host's profile of the lock by what was observed."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.rules.fabric import hardware_with_fabric
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.layers import of_system
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.systems import platform_of
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, listed, message
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.profile import DEFAULT_POOL, Seen, select_profile
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.seen import seen
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.stack import NAME
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.layers import OWN_SYSTEM, layer_rows, unmet
from ansible_collections.trainrig.gpu.plugins.plugin_utils.lock_files import (
    LockError,
    lock_place,
    read_lock,
    read_requirements,
)
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import origin, plain

_ARGUMENTS = {
    "observation": {"type": "dict", "required": True},
    "stack": {"type": "dict", "required": True},
    "pool": {"type": "str", "default": DEFAULT_POOL},
    "beyond": {"type": "dict", "default": {}},
}


class ActionModule(ActionBase):
    """Returns the profile, its requirement file and the interpreter, or the finding that stands against all of them."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, arguments = self.validate_argument_spec(_ARGUMENTS)
        arguments = plain(arguments)
        host = plain(variables["inventory_hostname"])
        groups = plain(variables["group_names"])
        without = unmet(arguments["observation"], str(plain(variables.get("trainrig_hardware", "auto"))))
        rows = layer_rows(groups, without)
        off = [row["layer"] for row in layer_rows(groups) if row not in rows]
        notes = [_off(off, host)] if off else _not_installed(arguments["beyond"], rows, host)
        needed = {"system" if key.startswith("system.") else "profile" for row in rows for key in row["lock"]}
        chosen: dict[str, Any] = {"profile": {}, "requirements": "", "interpreter": "", "reasons": [], "system": {}}
        problems: list[Problem] = []
        try:
            lock = read_lock(lock_place(variables)) if needed else {}
            if "profile" in needed:
                problems += self._profile(chosen, lock, arguments, variables)
            if "system" in needed:
                missing = self._system(chosen, lock, arguments, variables)
                # A layer that needs no system of its own does without: nccl.conf follows from the node.
                problems += missing if any(OWN_SYSTEM in row["needs"] for row in rows) else []
        except LockError as error:
            raise AnsibleActionFail(str(error)) from error
        return {"changed": False, **chosen, "findings": notes + [_finding(problem, host) for problem in problems]}

    @staticmethod
    def _profile(
        chosen: dict[str, Any], lock: dict[str, Any], arguments: dict[str, Any], variables: dict[str, Any]
    ) -> list[Problem]:
        """The wheels of this host."""
        node: Seen = seen(arguments["observation"], load("gpus"), load("rules"))
        where = origin(variables.get("trainrig_stack")) or "variable trainrig_stack"
        found = select_profile(lock, arguments["stack"], node, where, arguments["pool"])
        chosen["profile"] = found["profile"] or {}
        chosen["interpreter"], chosen["reasons"] = found["interpreter"] or "", found["reasons"]
        if found["profile"]:
            chosen["requirements"] = read_requirements(lock_place(variables), found["profile"])
        return [found["problem"]] if found["problem"] else []

    @staticmethod
    def _system(
        chosen: dict[str, Any], lock: dict[str, Any], arguments: dict[str, Any], variables: dict[str, Any]
    ) -> list[Problem]:
        """The system packages of this host, and where data/ says that a platform keeps its origins' keys."""
        place = (arguments["pool"], platform_of(arguments["observation"]))
        found = next((row for row in lock["systems"] if (row["pool"], row["platform"]) == place), None)
        if found is None:
            return [
                {
                    "rule": "profile.no_system",
                    "where": lock_place(variables),
                    "key": "systems",
                    "value": f"pool {place[0]}, platform {place[1]}",
                    "text": "the lock has no system packages for it",
                    "fix": "make the lock again with playbooks/lock.yml, or take the host out of the group sources",
                }
            ]
        known = load("origins")["origins"]
        origins = [
            {**row, "layout": known[row["id"]]["layout"], "keyring": known[row["id"]].get("keyring", "")}
            for row in found["origins"]
        ]
        installed = (arguments["observation"].get("packages") or {}).get("dpkg") or {}
        manifest, competing = arguments["observation"].get("manifest"), load("pci")["drivers"]["competing"]
        layers = of_system(found, installed, manifest, load("families"), competing)
        if "nvlink" in layers:
            layers["nvlink"]["needed"] = bool(hardware_with_fabric(_host(arguments)))
        pinned = {row["name"]: row["version"] for row in found["packages"] if row["pin"]}
        chosen["system"] = {**found, "origins": origins, "layers": layers, "pinned": pinned}
        return []


def _host(arguments: dict[str, Any]) -> Host:
    """The node as rules look at it."""
    data = {name: load(name) for name in ("pci", "gpus", "rules")}
    return Host("", arguments["observation"], arguments["stack"], data, today="")


def _off(layers: list[str], host: str) -> dict[str, Any]:
    """Said once: a container-like host has its driver from outside."""
    problem: Problem = {
        "rule": "stack.system_layers_off",
        "where": "",
        "key": "container-like host",
        "value": ", ".join(layers),
        "text": "these layers are off here: kernel, driver and init are those of the machine around it",
        "fix": "nothing, or take the host out of these groups; trainrig_hardware: present or absent switches them on",
    }
    return {**_finding(problem, host), "severity": "info", "layer": layers[0], "action": {"kind": "none", "text": ""}}


def _not_installed(beyond: dict[str, Any], on: list[dict[str, Any]], host: str) -> list[dict[str, Any]]:
    """What is declared of the system, which no layer puts in place on this host: said, not passed over."""
    covered = {key for row in on for key in row["stack"]}
    left = {key: value for key, value in beyond.items() if key not in covered}
    if not left:
        return []
    groups = [row["layer"] for row in load("layers")["layers"] if set(row["stack"]) & set(left)]
    problem: Problem = {
        "rule": "stack.not_installed",
        "where": "",
        "key": NAME,
        "value": ", ".join(f"{key}: {value}" for key, value in sorted(left.items())),
        "text": "is declared, and no layer that is switched on for this host installs it",
        "fix": f"put the host into the group {listed(groups)}"
        if groups
        else "install the packages that stack.lock.yml names under systems, at their versions, and hold them",
    }
    return [
        {
            **_finding(problem, host),
            "severity": "warn",
            "layer": "driver",
            "action": {"kind": "install", "text": problem["fix"]},
        }
    ]


def _finding(problem: Problem, host: str) -> dict[str, Any]:
    """A declaration that cannot be met on this host, as a finding that refuses."""
    return {
        "rule": problem["rule"],
        "severity": "refuse",
        "layer": "pytorch",
        "host": host,
        "pool": None,
        "scope": "host",
        "summary": f"{problem['key']}: {problem['value']}: {problem['text']}",
        "cause": message(problem),
        "action": {"kind": "configure", "text": problem["fix"]},
        "evidence": [],
        "phase": "preflight",
    }
