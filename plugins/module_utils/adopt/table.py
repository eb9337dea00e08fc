"""The table at the end: one line a node, and below it what needs more room."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.report.summary import gpu_groups, part, usable_gpus

#: What a node says must not move the cursor.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
HEAD = ("HOST", "SYSTEM", "GPUS", "DRIVER", "PRIVATE ADDRESS", "RESULT", "NEXT STEP")


def printable(text: str) -> str:
    """The text for a terminal: lines, and nothing else that a terminal would obey."""
    return _CONTROL.sub("?", text)


class Row(NamedTuple):
    """A node's line."""

    host: str
    result: str
    next_step: str = ""
    observation: Optional[Mapping[str, Any]] = None
    container: bool = False
    private_address: Optional[str] = None


def system(observation: Mapping[str, Any], container: bool) -> str:
    """debian 12, x86_64; said where it is no machine of its own."""
    name = " ".join(filter(None, (part(observation, "os", "id"), part(observation, "os", "version_id"))))
    words = [name or "unknown", part(observation, "os", "arch") or ""]
    return " ".join(filter(None, words)) + (" (container)" if container else "")


def gpus(observation: Mapping[str, Any]) -> str:
    """8 x MODEL; what the bus shows where no driver answers."""
    usable = usable_gpus(observation)
    groups = gpu_groups({"nvidia": {"gpus": usable}})
    if groups is None:
        return "unknown"
    counts = [f"{one['count']} x {one['model'] or one['name'] or 'unknown model'}" for one in groups]
    lost = sum(1 for gpu in part(observation, "nvidia", "gpus") or [] if gpu.get("lost"))
    return ", ".join([*counts, *([f"{lost} lost"] if lost else [])]) or "none"


def driver(observation: Mapping[str, Any]) -> str:
    versions = [part(observation, "nvidia", "driver", key) for key in ("module", "library")]
    return next((str(version) for version in versions if version), "none")


def shown(rows: Sequence[Row]) -> str:
    """The table as text. Long texts stand below it, so that the columns stay readable."""
    cells: List[Sequence[str]] = [HEAD]
    for row in rows:
        seen = row.observation
        facts = (system(seen, row.container), gpus(seen), driver(seen)) if seen else ("-", "-", "-")
        cells.append((row.host, *facts, row.private_address or "-", row.result, row.next_step or "-"))
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)
