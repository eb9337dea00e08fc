"""Controller side of trainrig.gpu.report: builds the report, writes it, says what was found."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.trainrig.gpu.plugins.module_utils.judge import peers
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.verdict import verdict
from ansible_collections.trainrig.gpu.plugins.module_utils.report import recorded, standing
from ansible_collections.trainrig.gpu.plugins.module_utils.report.build import STOPPING, VERDICTS, build
from ansible_collections.trainrig.gpu.plugins.module_utils.report.table import closing, findings_table, to_type
from ansible_collections.trainrig.gpu.plugins.plugin_utils import baseline_file, report_files, report_inputs
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

_ARGUMENTS = {
    "directory": {"type": "path"},
    "phase": {"type": "str", "choices": ["site", "verify", "plan", "preflight"], "default": "site"},
    "hosts": {"type": "dict"},
    "lock_digest": {"type": "str"},
    "started": {"type": "str"},
    "baseline": {"type": "str", "choices": ["compare", "record"], "default": "compare"},
    "fail_on": {"type": "list", "elements": "str", "choices": list(VERDICTS), "default": list(STOPPING)},
}


class ActionModule(ActionBase):
    """Writes a report of the whole run; fails, after writing, on the verdicts that ask for it."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, arguments = self.validate_argument_spec(_ARGUMENTS)
        arguments = plain(arguments)
        now = datetime.now(timezone.utc)
        sources = report_inputs.inventory_sources(variables)
        inventory = report_inputs.inventory_name(sources)
        hosts = arguments["hosts"] if arguments["hosts"] is not None else report_inputs.hosts(variables, now)
        hosts = standing.placed(hosts, lambda rows, kinds, pool: peers.judge(rows, kinds, load("thresholds"), pool))
        trouble: list[str] = []
        places = report_inputs.by_record(variables, hosts)
        if arguments["baseline"] == "compare":
            hosts = self._compared(hosts, places, trouble)
        report = build(
            hosts=hosts,
            judge=verdict,
            inventory=inventory,
            phase=arguments["phase"],
            finished=now.strftime(report_inputs.TIME_FORMAT),
            started=arguments["started"] or report_inputs.first(variables, "trainrig_started"),
            lock_digest=arguments["lock_digest"] or report_inputs.first(variables, "trainrig_lock_digest"),
            sources=sources,
            data={"gpus": load("gpus")["gpus"], "tolerances": load("acceptance")["tolerances"]},
        )
        said = []
        if arguments["baseline"] == "record" and not self._task.check_mode:
            said = self._record(hosts, places, report, trouble)
        directory = Path(arguments["directory"] or Path("reports") / inventory)
        return self._publish(
            report, directory, now.strftime("%Y%m%dT%H%M%SZ"), arguments["fail_on"], "; ".join(trouble) or None, said
        )

    @staticmethod
    def _compared(hosts: dict[str, Any], places: dict[Path | None, list[str]], trouble: list[str]) -> dict[str, Any]:
        """The hosts beside what was recorded of them. A record that cannot be read costs no report."""
        found = dict(hosts)
        for path, names in places.items():
            try:
                record = baseline_file.read(path) if path else None
            except AnsibleActionFail as error:
                trouble.append(str(error))
                continue
            if record:
                found.update(recorded.against({name: hosts[name] for name in names}, record, _data()))
        return found

    @staticmethod
    def _record(
        hosts: dict[str, Any], places: dict[Path | None, list[str]], report: dict[str, Any], trouble: list[str]
    ) -> list[str]:
        """Record what passed; nothing of a run that is not good as a whole."""
        if report["verdict"] not in ("pass", "warn"):
            return [f"baseline: nothing recorded, because the verdict is {report['verdict']}"]
        said = []
        for path, names in places.items():
            made = recorded.record(
                {name: hosts[name] for name in names}, report["finished"], report["lock_digest"], _data()
            )
            if path is None:
                trouble.append(
                    "baseline: no inventory to keep it beside. To fix it: name an inventory of files with -i"
                )
                continue
            try:
                said.append(f"baseline: {baseline_file.write(path, made)} rows recorded in {path}")
            except AnsibleActionFail as error:
                trouble.append(str(error))
        return said

    def _publish(
        self,
        report: dict[str, Any],
        directory: Path,
        stamp: str,
        fail_on: list[str],
        trouble: str | None,
        said: list[str],
    ) -> dict[str, Any]:
        written = None
        if self._task.check_mode:
            report_files.check(report)
        else:
            try:
                written = report_files.write(report, directory, stamp)
            except report_files.NotWritten as error:
                trouble = "; ".join(filter(None, [trouble, f"not written, {error}"]))
        if trouble and written:
            said = [*said, trouble]
        self._say(report, said)
        shown = os.path.relpath(written) if written and written.resolve().is_relative_to(Path.cwd()) else written
        paths = {name: f"{shown}/report.{name}" if shown else None for name in ("json", "html", "xml")}
        lines = closing(report["verdict"], report["reasons"], paths["html"] or trouble or "not written in check mode")
        # A report on the controller is no change of a node: never `changed`.
        result: dict[str, Any] = {
            "changed": False,
            "verdict": report["verdict"],
            "reason": "; ".join(report["reasons"]),
            "directory": str(shown) if shown else None,
            "report": paths["html"],
            "paths": paths,
            "trouble": trouble,
            "msg": "\n".join([*said, *lines]),
            # Where another callback prints the run, this is how a person sees the verdict.
            "_ansible_verbose_always": True,
        }
        # In check mode nothing could be verified, so that an incomplete proof is the normal end.
        tolerated = {"incomplete"} if self._task.check_mode else set()
        if trouble or report["verdict"] in set(fail_on) - tolerated:
            result["failed"] = True
        return result

    def _say(self, report: dict[str, Any], said: list[str]) -> None:
        width = min(shutil.get_terminal_size((120, 24)).columns, 160)
        lines = findings_table(report["findings"], width)
        if report["verdict"] in ("pass", "warn"):
            lines += to_type(report["next"])
        lines += said
        if lines:
            Display().display("\n".join(["", *lines]))


def _data() -> recorded.Data:
    return recorded.Data(load("gpus"), load("thresholds"))
