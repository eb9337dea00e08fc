"""The findings as lines for a terminal: severity, host, rule, summary and next step; the verdict last."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import textwrap
from typing import Any, List, Mapping

from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import count, one_line

#: Narrower than this, a table of five columns cannot be read: one block a finding instead.
_NARROW = 100
_MARGIN = "  "
#: Widest first columns; the last two share what is left.
_WIDEST = (8, 20, 34)
_HEADINGS = ("severity", "host", "rule", "what was found", "next step")


def _row(finding: Mapping[str, Any]) -> List[str]:
    action = finding.get("action") or {}
    return [
        one_line(finding.get("severity")),
        one_line(finding.get("host")) or "all",
        one_line(finding.get("rule")),
        one_line(finding.get("summary")),
        one_line(action.get("text")) or "-",
    ]


def _wrap(text: str, width: int) -> List[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def _columns(rows: List[List[str]], width: int) -> List[str]:
    everything = [list(_HEADINGS), *rows]
    fixed = [min(max(len(row[column]) for row in everything), limit) for column, limit in enumerate(_WIDEST)]
    rest = max(width - sum(fixed) - 4 * len(_MARGIN), 40)
    widths = [*fixed, rest // 2, rest - rest // 2]
    lines = []
    for row in everything:
        cells = [_wrap(cell, size) for cell, size in zip(row, widths)]
        for index in range(max(map(len, cells))):
            pieces = [(cell[index] if index < len(cell) else "").ljust(size) for cell, size in zip(cells, widths)]
            lines.append(_MARGIN.join(pieces).rstrip())
    return lines


def _blocks(rows: List[List[str]], width: int) -> List[str]:
    lines = []
    for severity, host, rule, summary, action in rows:
        lines += [f"{severity}  {host}  {rule}"]
        for text in (summary, f"next: {action}"):
            lines += [_MARGIN + line for line in _wrap(text, width - len(_MARGIN))]
    return lines


def findings_table(findings: List[Mapping[str, Any]], width: int = 120, information_too: bool = False) -> List[str]:
    """What asks for something, the worst first; information is only counted where a report has it."""
    shown = [_row(one) for one in findings if information_too or one.get("severity") != "info"]
    lines = []
    if shown:
        lines += _blocks(shown, max(width, 40)) if width < _NARROW else _columns(shown, width)
    information = len(findings) - len(shown)
    if information:
        lines += _wrap(f"{count(information, 'finding')} of severity info: see the report", max(width, 40))
    return lines


def to_type(following: Mapping[str, Any]) -> List[str]:
    """What a person types now, where the hosts are ready: the environment and the launch line."""
    lines = [str(following[key]) for key in ("environment", "torchrun") if following.get(key)]
    return [f"{'to train now:' if index == 0 else '':<14}{line}" for index, line in enumerate(lines)]


def closing(verdict: str, reasons: List[str], path: str) -> List[str]:
    """The last two lines: the verdict with its reasons, and where the report is."""
    why = "; ".join(map(one_line, reasons))
    return [f"verdict: {verdict}" + (f" ({why})" if why else ""), f"report: {path}"]
