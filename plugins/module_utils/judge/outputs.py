"""Turns what the role brought back from a node into the stages' outputs that `node.judge` takes."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
from base64 import b64decode
from typing import Any, Dict, Iterable, List, Mapping

_LOOK = re.compile(r"/look\.([0-9]+)\.json$")
#: Lines kept of a launcher that never came as far as writing its own account.
_TAIL = 20
#: What a stage depends on beside torch: one on this node, one over several.
_DEPENDS = (
    "the collectives did not come to an end, and gradients travel through them",
    "a stage on this node alone did not come to an end",
)
_APART = "this node cannot talk to all others: see what the pairs have shown"
#: Stages in which nodes work together.
_TOGETHER = ("pairs", "fleet", "nodes")


def assemble(
    launches: Mapping[str, Mapping[str, Any]],
    files: Iterable[Mapping[str, Any]],
    asked: Mapping[str, Mapping[str, Any]],
) -> Dict[str, Dict[str, Any]]:
    """Return {stage: {run, document, asked}}, or {record, asked} of what nodes measured together, or {skipped: why}, or
    {apart: {rule, text}} with nothing wrong here.

    ``launches`` are the registered results of the commands by stage, ``files`` what slurp returned
    (`<stage>.run.json` by bounded.py, `<stage>.json` by the stage itself).
    """
    contents: Dict[str, Any] = {str(one.get("source", "")).rpartition("/")[2]: _decoded(one) for one in files}
    outputs: Dict[str, Dict[str, Any]] = {}
    told = False
    for stage, launch in launches.items():
        if "record" in launch:
            outputs[stage] = {"record": launch["record"], "asked": dict(asked.get(stage) or {})}
            continue
        if launch.get("skipped"):
            # What keeps a node from the others is told once.
            if stage in _TOGETHER and told:
                continue
            told = told or stage in _TOGETHER
            reason = (asked.get(stage) or {}).get("reason")
            outputs[stage] = {"apart": reason} if reason else {"skipped": _why(stage, launches, contents)}
            continue
        run = contents.get(f"{stage}.run.json") or _account(launch)
        outputs[stage] = {"run": run, "document": contents.get(f"{stage}.json"), "asked": dict(asked.get(stage) or {})}
    return outputs


def looks(files: Iterable[Mapping[str, Any]]) -> List[Dict[str, Dict[str, Any]]]:
    """What tools said of the hardware under load, round by round: {probe: {text, rc, err}} (bounded.py's Looker)."""
    rounds: Dict[int, Any] = {}
    for one in files:
        found = _LOOK.search(str(one.get("source", "")))
        content = _decoded(one) if found else None
        if found and isinstance(content, dict) and content:
            rounds[int(found[1])] = content
    return [rounds[number] for number in sorted(rounds)]


def _why(stage: str, launches: Mapping[str, Mapping[str, Any]], contents: Mapping[str, Any]) -> str:
    """Which earlier stage a skipped one depends on. The role skips for no other reason."""
    environment = contents.get("environment.json")
    if launches.get("environment", {}).get("rc") or not environment or environment["torch"]["error"]:
        return "torch cannot be used in this environment"
    if any("record" in launch for launch in launches.values()):
        return _APART  # so that its own stages were well
    return _DEPENDS[stage in _TOGETHER]


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
    command = [str(word) for word in launch.get("cmd") or []]
    return {
        "command": command,
        "rc": launch.get("rc"),
        # The role starts everything under coreutils' timeout: 124, or 137 where that had to kill.
        "timed_out": command[:1] == ["timeout"] and launch.get("rc") in (124, 137),
        "seconds": None,
        "tail": [line for line in lines if line.strip()][-_TAIL:],
        "listening": [],
        "left_running": [],
    }
