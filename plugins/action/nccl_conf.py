"""Controller side of trainrig.gpu.nccl_conf: hands observation, declaration and data/ to module_utils/nccl."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.conf import Facts, decide, render
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import message
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

_ARGUMENTS = {
    "observation": {"type": "dict", "required": True},
    "private_address": {"type": "str", "default": ""},
    "peers": {"type": "list", "elements": "str", "default": []},
    "settings": {"type": "dict", "default": {}},
}


class ActionModule(ActionBase):
    """Returns the text of one node's nccl.conf, or fails with everything that is wrong with the declaration."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(_ARGUMENTS)
        given = plain(arguments)
        rules = load("rules")
        conf = decide(
            given["observation"],
            given["private_address"],
            given["peers"],
            given["settings"],
            Facts(load("nccl_variables"), rules["nccl_switches"], rules["local_interfaces"]),
        )
        if conf.problems:
            raise AnsibleActionFail("\n".join(map(message, conf.problems)))
        return {"changed": False, "text": render(conf), "lines": [line._asdict() for line in conf.lines]}
