"""Controller side of trainrig.gpu.profile: picks the host's profile of the lock by what was observed."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.systems import platform_of
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, message
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.profile import DEFAULT_POOL, Seen, select_profile
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.seen import seen
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.stack import NAME
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.lock_files import LockError, read_lock, read_requirements
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
        beyond = [_not_installed(arguments["beyond"], host)] if arguments["beyond"] else []
        needed = _needed(plain(variables["group_names"]))
        chosen: dict[str, Any] = {"profile": {}, "requirements": "", "interpreter": "", "reasons": [], "system": {}}
        problems: list[Problem] = []
        try:
            lock = read_lock(str(variables["inventory_dir"])) if needed else {}
            if "profile" in needed:
                problems += self._profile(chosen, lock, arguments, variables)
            if "system" in needed:
                problems += self._system(chosen, lock, arguments, variables)
        except LockError as error:
            raise AnsibleActionFail(str(error)) from error
        return {"changed": False, **chosen, "findings": beyond + [_finding(problem, host) for problem in problems]}

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
            chosen["requirements"] = read_requirements(str(variables["inventory_dir"]), found["profile"])
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
                    "where": str(variables["inventory_dir"]),
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
        chosen["system"] = {**found, "origins": origins}
        return []


def _needed(groups: list[str]) -> set[str]:
    """Which parts of the lock the layers of this host take: profile, system."""
    keys = [key for row in load("layers")["layers"] if row["layer"] in groups for key in row["lock"]]
    return {"system" if key.startswith("system.") else "profile" for key in keys}


def _not_installed(beyond: dict[str, Any], host: str) -> dict[str, Any]:
    """What is declared of the system, which no layer of this version puts in place: said, not passed over."""
    said = ", ".join(f"{key}: {value}" for key, value in sorted(beyond.items()))
    problem: Problem = {
        "rule": "stack.not_installed",
        "where": "",
        "key": NAME,
        "value": said,
        "text": "is locked and diagnosed; no layer of this version installs it",
        "fix": "install the packages that stack.lock.yml names under systems, at their versions, and hold them",
    }
    return {
        **_finding(problem, host),
        "severity": "warn",
        "layer": "driver",
        "action": {"kind": "install", "text": problem["fix"]},
    }


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
