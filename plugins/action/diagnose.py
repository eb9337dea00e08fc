"""Controller side of trainrig.gpu.diagnose: gathers the fleet, has it judged, writes and prints the result."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.engine import diagnose, force_problems
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding, verdict
from ansible_collections.trainrig.gpu.plugins.module_utils.report.table import findings_table
from ansible_collections.trainrig.gpu.plugins.plugin_utils.bundles import BundlesError, read_fleet
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT, load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

SCHEMA = 1
#: The files of data/ that rules read.
DATA = ("rules", "families", "pci", "gpus", "drivers", "torch", "nccl", "floors", "xids", "layers")
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "bundles": {"type": "path"},
    "output": {"type": "path"},
    "observed": {"type": "list", "elements": "dict", "default": []},
    "stack": {"type": "dict"},
    "lock": {"type": "dict"},
    "force": {"type": "list", "elements": "str", "default": []},
    "allow_missing": {"type": "bool", "default": False},
    "floors": {"type": "dict", "default": {}},
    "phase": {"type": "str", "default": "preflight"},
    "today": {"type": "str"},
    "show": {"type": "bool", "default": False},
    "fatal": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):
    """Returns the findings of a fleet."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _validated, validated = self.validate_argument_spec(_ARGUMENTS)
        arguments = plain(validated)
        problem, stack, fleet = None, arguments["stack"], {}
        if arguments["bundles"]:
            try:
                found, fleet = read_fleet(Path(arguments["bundles"]))
                stack = {**(found or {}), **(stack or {})} or None
                problem = (
                    None
                    if fleet
                    else f"bundles: {arguments['bundles']} holds no bundle (no directory <host>/ with probe files)"
                )
            except (BundlesError, OSError) as error:
                problem = str(error)
        else:
            fleet = self._fleet(task_vars or {}, arguments["observed"])
        trouble = force_problems(arguments["force"], fleet) if fleet else []
        if trouble:
            raise AnsibleActionFail(f"trainrig_force: {'; '.join(trouble)}")
        data = facts(arguments["floors"])
        today = arguments["today"] or datetime.now(timezone.utc).date().isoformat()
        findings = diagnose(
            stack,
            arguments["lock"],
            fleet,
            data,
            today,
            arguments["force"],
            arguments["allow_missing"],
            arguments["phase"],
        )
        result = {
            "schema": SCHEMA,
            "verdict": "fail" if problem else verdict(findings),
            "hosts": list(fleet),
            "findings": findings,
        }
        if problem:
            result["error"] = problem
        if arguments["output"]:
            write(Path(arguments["output"]), result)
        if arguments["show"] and not problem:
            Display().display("\n".join(["", *_shown(result)]))
        if problem:
            return {"changed": False, "failed": True, "verdict": result["verdict"], "msg": problem}
        answer = {**result, "changed": False, "by_host": by_host(findings, fleet)}
        if arguments["fatal"] and result["verdict"] in ("fail", "refuse"):
            # Printed and written already; Ansible would print it all once more.
            msg = f"the verdict is {result['verdict']}: see the findings above"
            return {"changed": False, "failed": True, "verdict": result["verdict"], "msg": msg}
        return answer

    def _fleet(self, variables: dict[str, Any], observed: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Every host of the inventory, --limit or not, with what was observed of it in this run."""
        others = {row["item"]: row.get("observation") for row in observed if "item" in row and not row.get("skipped")}
        fleet = {}
        names = plain(variables["groups"]["all"])
        for name in names:
            known = variables["hostvars"][name]
            observation = plain(known.get("trainrig_observation")) or others.get(name)
            failures = plain(known.get("trainrig_failures")) or []
            fleet[name] = {
                "observation": observation,
                "missing": next((f"failed in task: {one['task']}" for one in failures), None),
                "stack": _stack(known),
                "pool": plain(known.get("trainrig_pool")) or "default",
                "alone": len(names) == 1,
            }
        return fleet


def _stack(known: Any) -> dict[str, Any] | None:
    """What a host declares, and whether it has hardware at all."""
    # Where another lock is applied than the inventory's own, what that one was made for is what is declared.
    written = (plain(known.get("trainrig_declared")) or {}).get("written")
    stack, hardware = written or plain(known.get("trainrig_stack")), plain(known.get("trainrig_hardware"))
    return {**(stack or {}), "hardware": hardware} if hardware else stack


def facts(floors: dict[str, Any]) -> dict[str, Any]:
    """The data that rules read; a site's own floors win over the shipped ones, key by key."""
    data = {name: load(name) for name in DATA if (ROOT / "data" / f"{name}.yml").is_file()}
    if floors and "floors" in data:
        data["floors"] = {**data["floors"], "floors": {**data["floors"]["floors"], **floors}}
    return data


def by_host(findings: list[Finding], fleet: dict[str, dict[str, Any]]) -> dict[str, list[Finding]]:
    """Each host's findings: its own, and those over its whole pool."""
    return {
        host: [one for one in findings if one["host"] == host or (one["host"] is None and one["pool"] == entry["pool"])]
        for host, entry in fleet.items()
    }


def write(path: Path, result: dict[str, Any]) -> None:
    """Write the result as a whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(path.name + ".part")
        beside.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise AnsibleActionFail(f"output: cannot write {path}: {error.strerror or error}") from error


def _shown(result: dict[str, Any]) -> list[str]:
    width = shutil.get_terminal_size((140, 40)).columns
    lines = findings_table(result["findings"], width, information_too=True)
    count = len(result["hosts"])
    return [*lines, f"verdict: {result['verdict']} ({count} host{'' if count == 1 else 's'} judged)"]
