"""Controller side of trainrig.gpu.judge: gives the pure judge its data and the node's outputs."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.markers import MarkerError
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.requirements import RequirementError
from ansible_collections.trainrig.gpu.plugins.module_utils.judge import health
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import POOL
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.node import Context, Looks, judge
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.outputs import assemble, looks
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.thresholds import ThresholdError
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.verdict import verdict
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, enrich, probes
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.source import Output
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "launches": {"type": "dict", "required": True},
    "files": {"type": "list", "elements": "dict", "default": []},
    "asked": {"type": "dict", "default": {}},
    "observation": {"type": "dict", "default": {}},
    "profile": {"type": "dict", "default": {}},
    "requirements": {"type": "str", "default": ""},
    "thresholds": {"type": "list", "elements": "dict", "default": []},
    "mpi": {"type": "dict", "default": {}},
    "left_out": {"type": "list", "elements": "dict", "default": []},
    "before": {"type": "dict", "default": {}},
    "after": {"type": "dict", "default": {}},
}


class ActionModule(ActionBase):
    """Judges what the verification of one node brought back."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, validated = self.validate_argument_spec(_ARGUMENTS)
        arguments = plain(validated)
        context = Context(
            host=plain(variables.get("inventory_hostname")),
            observation=arguments["observation"],
            profile=arguments["profile"] or None,
            requirements=arguments["requirements"] or None,
            gpus=load("gpus"),
            thresholds=load("thresholds"),
            site_rows=arguments["thresholds"],
            left_out=arguments["left_out"],
            mpi=arguments["mpi"],
            looks=_looks(arguments["before"], arguments["files"], arguments["after"]),
            pool=plain(variables.get("trainrig_pool")) or POOL,
        )
        declared = {"rdma": "rdma" in plain(variables.get("group_names") or [])}
        asked = {stage: {**(one or {}), "declared": declared} for stage, one in arguments["asked"].items()}
        try:
            result = judge(assemble(arguments["launches"], arguments["files"], asked), context)
        except ThresholdError as error:
            raise AnsibleActionFail(str(error)) from error
        except (RequirementError, MarkerError) as error:
            raise AnsibleActionFail(f"the profile's requirement file, {error}") from error
        word = verdict(result["findings"], result["measurements"], {context.host or "localhost": "ok"})
        return {"changed": False, "verdict": word, **result}


def _looks(before: dict[str, Any], files: list[dict[str, Any]], after: dict[str, Any]) -> Looks | None:
    """The looks before and after, and those that bounded.py took meanwhile; none where one of the two is missing."""
    if not before or not after:
        return None
    asked = probes.choose(probes.table(), health.PROBES)
    gpus = load("gpus")
    during = []
    for outputs in looks(files):
        made = {name: Output(**output) for name, output in outputs.items() if name in asked}
        during.append(enrich.enrich(build.build(made, asked), gpus))
    return Looks(before, during, after, health.Data(load("rules"), load("xids"), load("health")))
