"""Controller side of trainrig.gpu.nccl_result: reads the file and hands its text to module_utils/nccl."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import ordered
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.failures import failures
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.log import DECLARED, path_findings
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.result import held_to, parse
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "log": {"type": "path", "required": True},
    "ranks": {"type": "int"},
    "hosts": {"type": "int"},
    "declared": {"type": "dict", "default": {}},
}


class ActionModule(ActionBase):
    """Returns what a log of nccl-tests says."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _validated, validated = self.validate_argument_spec(_ARGUMENTS)
        given = plain(validated)
        unknown = sorted(set(given["declared"]) - set(DECLARED))
        if unknown:
            raise AnsibleActionFail(
                f"declared: {unknown[0]}: there is no such key. To fix it: use some of {', '.join(DECLARED)}."
            )
        text = _read(Path(given["log"]))
        result = held_to(parse(text), given["ranks"], given["hosts"])
        findings = failures(text.split("\n"), None) if result["verdict"] == "fail" else []
        if given["declared"]:
            findings += path_findings(result["evidence"], given["declared"])
        return {"changed": False, **result, "findings": ordered(findings)}


def _read(path: Path) -> str:
    """The file's text. Bytes that are no UTF-8 (two processes that wrote at once) do not stop the reading."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise AnsibleActionFail(
            f"log: cannot read {path}: {error.strerror or error}. To fix it: name a log file on the controller."
        ) from error
