"""Controller side of trainrig.gpu.budget: what a verification does in its time, by data/budgets.yml."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.judge import health
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.budget import BudgetError, choose
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import probes
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

_ASKED: dict[str, dict[str, Any]] = {
    "backend": {"type": "str", "choices": ["nccl", "gloo"], "required": True},
    "stages": {"type": "list", "elements": "str", "required": True},
    "collectives": {"type": "list", "elements": "str", "required": True},
    "max_bytes": {"type": "str", "required": True},
    "pairs_bytes": {"type": "str", "required": True},
    "seconds": {"type": "dict", "required": True},
}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "budget": {"type": "str", "default": ""},
    "asked": {"type": "dict", "required": True, "options": _ASKED},
}


class ActionModule(ActionBase):
    """Reads data/ only; contacts no node."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _validated, validated = self.validate_argument_spec(_ARGUMENTS)
        arguments = plain(validated)
        try:
            chosen = choose(arguments["budget"], arguments["asked"], load("budgets"))
        except BudgetError as error:
            raise AnsibleActionFail(str(error)) from error
        return {"changed": False, "looks": _looks(), **chosen}


def _looks() -> dict[str, list[str]]:
    """The commands of the probes that tell how the hardware is while it is loaded."""
    chosen = probes.choose(probes.table(), health.PROBES)
    parts = {name: part for name, probe in chosen.items() for part in probe.parts}
    return {name: list(part.argv) for name, part in parts.items() if isinstance(part, probes.Command)}
