"""What a node is called in an inventory: as it calls itself, made valid and unique."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Collection

#: What images call themselves before anybody gave them a name; words that YAML or Ansible read otherwise.
_NO_NAMES = {"", "localhost", "localhost4", "localhost6", "all", "ungrouped", "true", "false", "yes", "no", "on", "off"}
_NO_NAMES |= {"null", "none", "y", "n", "hosts", "vars", "children"}


def inventory_name(hostname: str, address: str, taken: Collection[str]) -> str:
    """A name for an inventory that is not among the names (of hosts and groups) that are taken."""
    name = _valid(hostname.partition(".")[0])
    if name in _NO_NAMES:
        name = _valid(f"node-{address}")
    if not name[0].isalpha():
        name = f"node-{name}"
    if name not in taken:
        return name
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"


def _valid(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:63].rstrip("-_")
