"""Controller side of trainrig.gpu.declaration: everything that can be checked before any node is contacted."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.plan import rollout
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.keys import PROFILE
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import message
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.profile import DEFAULT_POOL
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.stack import validate
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.declarations import (
    beyond_the_profile,
    declared,
    misspelt,
    ordered,
)
from ansible_collections.trainrig.gpu.plugins.plugin_utils.lock_files import (
    LockError,
    fresh_lock,
    lock_place,
    other_lock,
)
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import origin, plain

#: Where things go when the inventory does not say. The manifest of a run without root lies in its prefix.
_PREFIX = "/opt/trainrig"
_SYSTEM_MANIFEST = "/etc/trainrig/manifest.json"


class ActionModule(ActionBase):
    """Returns the host's settings with every default filled in, or fails with the one thing that is wrong."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        self.validate_argument_spec({})
        variables = task_vars or {}
        wrong = misspelt(variables) + ordered(self._templar.template(variables.get("trainrig_expected")))
        if wrong:
            raise AnsibleActionFail("\n".join(map(message, wrong)))
        written = self._templar.template(variables.get("trainrig_stack") or {})
        pool = str(variables.get("trainrig_pool", DEFAULT_POOL))
        named = plain(self._templar.template(variables.get("trainrig_lock_directory")))
        directory = lock_place({**variables, "trainrig_lock_directory": named})
        lock: dict[str, Any] = {}
        try:
            if directory != str(variables["inventory_dir"]):
                lock, written = other_lock(directory, pool, plain(written))
            stack = self._stack(written)
            if not lock and self._needs_lock(plain(variables["group_names"])):
                lock = fresh_lock(directory, pool, plain(written), _settings(variables))
        except LockError as error:
            raise AnsibleActionFail(str(error)) from error
        return {
            "changed": False,
            "stack": stack,
            "written": plain(written),
            "beyond": beyond_the_profile(plain(written)),
            "settings": {**self._settings(variables), **self._rollout(variables), "lock_directory": directory},
            "members": self._members(variables),
            "lock_digest": lock.get("digest"),
        }

    @staticmethod
    def _stack(written: Any) -> dict[str, str]:
        where = origin(written) or "variable trainrig_stack"
        stack, problems = validate(plain(written), load("torch"), where)
        if not problems and set(plain(written)) - set(PROFILE):  # that takes more of data/ than most runs need
            problems = declared(plain(written), where)[1]
        for problem in problems:  # the place of the key itself, where this ansible-core knows it
            name = problem["key"].rpartition(".")[2]
            values = written.items() if hasattr(written, "items") else ()
            problem["where"] = next(
                (origin(value) for key, value in values if str(key) == name and origin(value)), where
            )
        if problems:
            raise AnsibleActionFail("\n".join(message(problem) for problem in problems))
        return stack

    @staticmethod
    def _needs_lock(groups: list[str]) -> bool:
        return any(row["lock"] for row in load("layers")["layers"] if row["layer"] in groups)

    def _settings(self, variables: dict[str, Any]) -> dict[str, Any]:
        def setting(name: str, default: str) -> str:
            return str(plain(self._templar.template(variables.get(name, default))))

        prefix = setting("trainrig_prefix", _PREFIX).rstrip("/")
        if not prefix.startswith("/"):
            where = origin(variables.get("trainrig_prefix")) or "variable trainrig_prefix"
            raise AnsibleActionFail(f"{where}: trainrig_prefix: {prefix}: must be an absolute path")
        # A system prefix belongs to root, whose record is the machine's; any other keeps its record inside.
        manifest = _SYSTEM_MANIFEST if prefix == _PREFIX else f"{prefix}/manifest.json"
        return {
            "prefix": prefix,
            "manifest": setting("trainrig_manifest", manifest),
            "subject": setting("trainrig_python", f"{prefix}/env/bin/python"),
        }

    def _rollout(self, variables: dict[str, Any]) -> dict[str, Any]:
        """When to reboot, and how playbooks/upgrade.yml goes from host to host."""
        names = ("reboot", "reboot_timeout", "batch", "canary", "drain", "uncordon")
        given = {f"trainrig_{name}": variables.get(f"trainrig_{name}") for name in names}
        written = {name: plain(self._templar.template(value)) for name, value in given.items()}
        settings, problems = rollout.checked(written, plain(variables["groups"]["all"]))
        for problem in problems:
            problem["where"] = str(origin(given[problem["key"]]) or "")
        if problems:
            raise AnsibleActionFail("\n".join(map(message, problems)))
        for name in ("drain", "uncordon"):
            if "tasks" in settings[name]:
                settings[name]["tasks"] = self._file(variables, f"trainrig_{name}", settings[name]["tasks"])
        return settings

    @staticmethod
    def _file(variables: dict[str, Any], key: str, name: str) -> str:
        """A file that an inventory names: from the inventory's directory on."""
        path = Path(str(variables["inventory_dir"])) / Path(name).expanduser()
        if not path.is_file():
            fix = "give a path from the inventory's directory on, or an absolute one"
            raise AnsibleActionFail(f"{key}.tasks: {name}: there is no file {path}. To fix it: {fix}.")
        return str(path)

    @staticmethod
    def _members(variables: dict[str, Any]) -> list[str]:
        """The hosts that are verified together with this one: the same pool, in the verify group."""
        hostvars = variables["hostvars"]
        pool = str(variables.get("trainrig_pool", DEFAULT_POOL))
        hosts = plain(variables["groups"].get("verify", []))
        return sorted(host for host in hosts if str(hostvars[host].get("trainrig_pool", DEFAULT_POOL)) == pool)


def _settings(variables: dict[str, Any]) -> Any:
    """The trainrig_lock that the inventory's lock is made by: its first host's."""
    first = next(iter(plain(variables["groups"]["all"])))
    return plain(variables["hostvars"][first].get("trainrig_lock"))
