"""Turns what the role brought back from a node into the stages' outputs that `node.judge` takes."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
from base64 import b64decode
from typing import Any, Dict, Iterable, List, Mapping

#: Lines kept of a launcher that never came as far as writing its own account.
_TAIL = 20


def assemble(
    launches: Mapping[str, Mapping[str, Any]],
    files: Iterable[Mapping[str, Any]],
    asked: Mapping[str, Mapping[str, Any]],
) -> Dict[str, Dict[str, Any]]:
    """Return {stage: {run, document, asked} or {skipped: why}}.

    ``launches`` are the registered results of the commands by stage, ``files`` what slurp returned
    (`<stage>.run.json` by bounded.py, `<stage>.json` by the stage itself).
    """
    contents = {str(one.get("source", "")).rpartition("/")[2]: _decoded(one) for one in files}
    outputs: Dict[str, Dict[str, Any]] = {}
    for stage, launch in launches.items():
        if launch.get("skipped"):
            outputs[stage] = {"skipped": str(launch.get("false_condition") or launch.get("skip_reason") or "skipped")}
            continue
        run = contents.get(f"{stage}.run.json") or _account(launch)
        outputs[stage] = {"run": run, "document": contents.get(f"{stage}.json"), "asked": dict(asked.get(stage) or {})}
    return outputs


def _decoded(slurped: Mapping[str, Any]) -> Any:
    """The JSON of a file; None where it is none (a half-written file is no result)."""
    try:
        return json.loads(b64decode(slurped.get("content") or ""))
    except ValueError:
        return None


def _account(launch: Mapping[str, Any]) -> Dict[str, Any]:
    """What Ansible knows of a command that left no account of its own."""
    lines: List[str] = [*(launch.get("stdout_lines") or []), *(launch.get("stderr_lines") or [])]
    if launch.get("msg"):
        lines.append(str(launch["msg"]))
    return {
        "command": list(launch.get("cmd") or []),
        "rc": launch.get("rc"),
        "timed_out": False,
        "tail": [line for line in lines if line.strip()][-_TAIL:],
        "listening": [],
        "left_running": [],
    }
