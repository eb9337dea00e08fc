"""Controller side of trainrig.gpu.together: what every host of the play does in its pool's common job."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.together import Run, plan
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "members": {"type": "list", "elements": "str", "required": True},
    "ready": {"type": "str", "required": True},
    "said": {"type": "str", "default": ""},
}


class ActionModule(ActionBase):
    """Looks at the variables of the play's hosts; contacts none."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, arguments = self.validate_argument_spec(_ARGUMENTS)
        hostvars, playing = variables["hostvars"], plain(variables["ansible_play_hosts"])
        members = [host for host in plain(arguments["members"]) if host in hostvars]

        def of_each(name: str) -> dict[str, Any]:
            return {host: plain(hostvars[host].get(name)) for host in members if host in playing}

        run = Run(
            members=members,
            ready={host: one for host, one in of_each(arguments["ready"]).items() if one},
            observations=of_each("trainrig_observation"),
            declared=of_each("trainrig_private_address"),
            at_once=int(variables["ansible_forks"]),
            playing=len(playing),
            said=of_each(arguments["said"]) if arguments["said"] else {},
        )
        return {"changed": False, **plan(plain(variables["inventory_hostname"]), run)}
