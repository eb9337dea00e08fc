"""Controller side of trainrig.gpu.observe: reads and writes bundles, names GPU models from data/gpus.yml."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, enrich, probes, source
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "bundle": {"type": "path"},
    "save": {"type": "path"},
    "prefix": {"type": "path"},
    "manifest": {"type": "path"},
    "python": {"type": "path"},
    "peers": {"type": "list", "elements": "str", "default": []},
    "probes": {"type": "list", "elements": "str", "default": []},
    "timeout": {"type": "float"},
    "resources": {"type": "dict", "default": {}},
    "raw": {"type": "bool", "default": False},
}
#: These are the controller's own; the node's module is not told.
_HERE = ("bundle", "save", "raw")


class ActionModule(ActionBase):
    """Returns one node's observation."""

    _requires_connection = False  # a bundle needs no node
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _validated, validated = self.validate_argument_spec(
            _ARGUMENTS, mutually_exclusive=[("bundle", "save"), ("bundle", "python"), ("bundle", "resources")]
        )
        arguments = plain(validated)
        result = self._from_bundle(arguments) if arguments["bundle"] else self._from_node(arguments, task_vars)
        if "observation" in result:
            result["observation"] = enrich.enrich(result["observation"], load("gpus"))
        return result

    def _from_bundle(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            wanted = probes.choose(probes.table(), arguments["probes"])
            outputs = source.BundleSource(arguments["bundle"]).read(wanted.values())
        except (source.SourceError, ValueError) as error:
            raise AnsibleActionFail(str(error)) from error
        result = {"changed": False, "observation": build.build(outputs, wanted)}
        if arguments["raw"]:
            result["outputs"] = {name: output._asdict() for name, output in outputs.items()}
        return result

    def _from_node(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        asked = {name: value for name, value in arguments.items() if name not in _HERE and value is not None}
        asked["raw"] = bool(arguments["save"]) or arguments["raw"]
        before = time.time()
        result: dict[str, Any] = self._execute_module(
            module_name="trainrig.gpu.observe", module_args=asked, task_vars=task_vars
        )
        result = plain(result)
        if (result.get("observation") or {}).get("identity"):
            # Nodes are not looked at all at once: their clocks are compared through the controller's.
            result["observation"]["identity"]["asked_unix_s"] = [before, time.time()]
        outputs = result.get("outputs")
        if arguments["save"] and outputs:
            directory = Path(arguments["save"])
            try:
                asked = probes.choose(probes.table(), arguments["probes"])
                made = {name: source.Output(**output) for name, output in outputs.items()}
                source.write_bundle(directory, made, asked)
            except OSError as error:
                raise AnsibleActionFail(f"save: cannot write to {directory}: {error.strerror or error}") from error
            if not arguments["raw"]:
                del result["outputs"]
        return result
