"""Controller side of trainrig.gpu.offers: is what the lock names still on offer, before anything is changed."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.document import NAME
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.systems import platform_of
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import listed, message
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.profile import DEFAULT_POOL
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.lock_files import lock_place, read_lock
from ansible_collections.trainrig.gpu.plugins.plugin_utils.lock_settings import lock_settings
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain
from ansible_collections.trainrig.gpu.plugins.plugin_utils.system_lock import SystemLocker, SystemLockError

_FIX = "make the lock again with playbooks/lock.yml, or point trainrig_repositories at a mirror that keeps old versions"
#: A lock may name hundreds of packages; this many say what is the matter.
_SHOWN = 5


class ActionModule(ActionBase):
    """Returns one refusing finding for each host whose locked system packages are not there any more."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        self.validate_argument_spec({})
        variables = task_vars or {}
        hostvars = variables["hostvars"]
        findings: dict[str, list[dict[str, Any]]] = {name: [] for name in plain(variables["groups"]["all"])}
        for system, hosts in self._asked(variables):
            known = hostvars[hosts[0]]
            written, directory = plain(known.get("trainrig_repositories")), Path(str(known["inventory_dir"]))
            settings, problems = lock_settings(None, written, directory, str(directory))
            if problems:
                raise AnsibleActionFail("\n".join(map(message, problems)))
            try:
                missing = SystemLocker(settings["repositories"], "").missing(system)
                more = f" and {len(missing) - _SHOWN} more" if missing[_SHOWN:] else ""
                text = f"names what is not on offer: {listed(missing[:_SHOWN])}{more}"
                cause, fix = "the repository has another version now, or none", _FIX
            except SystemLockError as error:
                missing, text = ["?"], f"cannot be compared with its repositories: system {system['name']}"
                cause, _, fix = str(error).removeprefix(f"system {system['name']}: ").partition(" To fix it: ")
            for name in hosts if missing else []:
                pool = str(hostvars[name].get("trainrig_pool", DEFAULT_POOL))
                findings[name].append(_finding(name, pool, text, cause, fix or _FIX))
        return {"changed": False, "findings": findings}

    @staticmethod
    def _asked(variables: dict[str, Any]) -> list[tuple[dict[str, Any], list[str]]]:
        """Each system of a lock with the hosts that it is for and on which something is to be done."""
        layers, found = set(load("packages")["layers"]), {}
        for name in plain(variables["groups"]["all"]):
            known = variables["hostvars"][name]
            dirty = plain(known.get("trainrig_plan") or {}).get("dirty")
            if not dirty or not known.get("trainrig_lock_digest") or not layers & set(plain(known["group_names"])):
                continue
            place = (str(known.get("trainrig_pool", DEFAULT_POOL)), platform_of(plain(known["trainrig_observation"])))
            directory = lock_place(known)
            for system in read_lock(directory)["systems"]:
                if (system["pool"], system["platform"]) == place:
                    found.setdefault((directory, system["name"]), (system, []))[1].append(name)
        return list(found.values())


def _finding(host: str, pool: str, text: str, cause: str, fix: str) -> dict[str, Any]:
    return {
        "rule": "lock.not_offered",
        "severity": "refuse",
        "layer": "sources",
        "host": host,
        "pool": pool,
        "scope": "host",
        "summary": f"{NAME} {text}",
        "cause": cause,
        "action": {"kind": "configure", "text": fix},
        "evidence": [],
        "phase": "preflight",
    }
