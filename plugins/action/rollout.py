"""Controller side of trainrig.gpu.rollout: the order of an upgrade's hosts, and whether it may go on after one."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.verdict import verdict
from ansible_collections.trainrig.gpu.plugins.module_utils.plan import rollout
from ansible_collections.trainrig.gpu.plugins.module_utils.report.build import build
from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import inventory_options
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.profile import DEFAULT_POOL
from ansible_collections.trainrig.gpu.plugins.plugin_utils import report_inputs
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

_ARGUMENTS = {
    "hosts": {"type": "list", "elements": "str", "default": []},
    "canary": {"type": "list", "elements": "str", "default": []},
    "batch": {"type": "int", "default": 1},
    "judge": {"type": "str"},
    "drained": {"type": "bool", "default": False},
    "again": {"type": "str", "choices": ["upgrade", "rollback"], "default": "upgrade"},
}


class ActionModule(ActionBase):
    """Contacts no host."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, arguments = self.validate_argument_spec(_ARGUMENTS)
        options = plain(arguments)
        return self._judged(variables, options) if options["judge"] else self._order(variables, options)

    def _order(self, variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        known = {name: variables["hostvars"][name] for name in options["hosts"]}
        plans = {name: plain(row.get("trainrig_plan")) or {} for name, row in known.items()}
        # The inventory's order, whatever the play's is.
        todo = [name for name in plain(variables["groups"]["all"]) if plans.get(name, {}).get("steps")]
        pools = {name: str(known[name].get("trainrig_pool", DEFAULT_POOL)) for name in todo}
        batches = rollout.batches(todo, pools, options["canary"], options["batch"])
        clean = len(options["hosts"]) - len(todo)
        first = f"In this order: {'; '.join(', '.join(one) for one in batches)}." if todo else "Nothing to do."
        self._display.display(f"{first} {clean} of {len(options['hosts'])} host(s) need nothing and are left alone.")
        return {"changed": False, "batches": rollout.turns(batches)}

    def _judged(self, variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        """One host as its report would say it, without what is said of its whole pool: that is half upgraded."""
        name = options["judge"]
        host = report_inputs.hosts(variables, datetime.now(timezone.utc), [name])[name]
        host["findings"] = [one for one in host["findings"] if one.get("host") == name]
        report = build({name: host}, verdict, inventory="", phase="site", finished="")
        # Check mode verifies nothing, so that it ends incomplete where nothing is wrong.
        fine = ("pass", "warn", "incomplete") if self._task.check_mode else ("pass", "warn")
        good = report["verdict"] in fine
        place = inventory_options(report_inputs.inventory_sources(variables))
        command = f"ansible-playbook trainrig.gpu.{options['again']} {place}".strip()
        return {
            "changed": False,
            "verdict": report["verdict"],
            "good": good,
            "findings": [] if good else [rollout.stopped(name, report["verdict"], options["drained"], command)],
        }
