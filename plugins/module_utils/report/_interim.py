"""Verdict."""
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List


def verdict(findings: List[Dict[str, Any]], measurements: List[Dict[str, Any]], states: Dict[str, str]) -> str:
    found = {str(one.get("severity")) for one in findings} | {str(one.get("status")) for one in measurements}
    if "refuse" in found:
        return "refuse"
    if "fail" in found or "failed" in states.values():
        return "fail"
    if set(states.values()) & {"unreachable", "deferred"}:
        return "incomplete"
    return "warn" if "warn" in found else "pass"
