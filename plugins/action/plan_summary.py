"""Controller side of trainrig.gpu.plan_summary: prints the whole fleet's plan."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.summary import (
    drifted,
    plan_lines,
    site_command,
    trouble,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.report.table import findings_table
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain
from ansible_collections.trainrig.gpu.plugins.plugin_utils.report_inputs import inventory_sources, why_missing


class ActionModule(ActionBase):
    """Prints every host's plan; fails where there is none, and on drift when asked to be strict."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, arguments = self.validate_argument_spec({"strict": {"type": "bool", "default": False}})
        hosts = plain(variables["groups"]["all"])
        plans = {host: plain(variables["hostvars"][host].get("trainrig_plan")) for host in hosts}
        missing = {host: why_missing(variables["hostvars"][host]) for host in hosts if not plans[host]}
        failed = [host for host in hosts if variables["hostvars"][host].get("trainrig_failures")]
        found = [one for host in hosts for one in plain(variables["hostvars"][host].get("trainrig_findings") or [])]
        table = findings_table([one for one in found if one["severity"] != "info"]) if found else []
        chosen = {host: plain(variables["hostvars"][host].get("trainrig_chosen")) or {} for host in hosts}
        choices = {host: choice.get("reasons") or [] for host, choice in chosen.items()}
        refusals = sum(one["severity"] == "refuse" for one in found)
        command = site_command(inventory_sources(variables), plain(variables.get("ansible_limit")))
        lines = plan_lines(plans, choices, refusals, command, missing)
        Display().display("\n".join(["", *table, *([""] if table else []), *lines]))
        result: dict[str, Any] = {"changed": False, "drift": drifted(plans)}
        problem = trouble(plans, failed, arguments["strict"])
        return {**result, "failed": True, "msg": problem} if problem else result
