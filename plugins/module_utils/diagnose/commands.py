"""The commands a person would type on a system of this family, to be named in texts."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping


def family(system: Mapping[str, Any], rules: Mapping[str, Any]) -> str:
    """ubuntu, debian, redhat, suse or other. ``system``: `os` of an Observation; ``rules``: data/rules.yml."""
    names = [system.get("id"), *(system.get("id_like") or [])]
    table: Mapping[str, List[str]] = rules.get("families") or {}
    for name in names:
        for one, members in table.items():
            if name in members:
                return one
    return "other"


def commands(system: Mapping[str, Any], rules: Mapping[str, Any]) -> Dict[str, str]:
    """Purpose (install_driver, hold, ...) -> command."""
    own = family(system, rules)
    table: Mapping[str, Mapping[str, str]] = rules.get("commands") or {}
    return {name: row.get(own) or row["default"] for name, row in table.items()}
