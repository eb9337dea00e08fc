"""`systemctl show` of several units: one block of properties a unit, blocks apart by an empty line."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.unread import Unread
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.schema import Unit

_PROPERTY = re.compile(r"([A-Za-z][A-Za-z0-9]{0,63})=(.*)$")


def units(reading: Reading) -> Facts:
    """Unit name -> state. A unit that the node does not have is there with `load: not-found`."""
    found: dict[str, Unit] = {}
    unread = Unread(reading)
    nameless = 0
    block: dict[str, str] = {}
    for line in [*reading.lines, ""]:
        match = _PROPERTY.match(line)
        # An empty line ends a block; where it got lost, the next Id does.
        if block and (not line.strip() or (match and match[1] == "Id" and "Id" in block)):
            if block.get("Id"):
                found[block["Id"]] = _unit(block)
            else:
                nameless += 1
            block = {}
        if match and match[1] in block:
            # A list property has one line an entry (DeviceAllow).
            block[match[1]] += ", " + match[2]
        elif match:
            block[match[1]] = match[2]
        else:
            unread.add(line)
    if nameless:
        reading.note(f"{nameless} blocks have no Id")
    return {"units": found} if unread.close(bool(found)) else {}


def _unit(block: dict[str, str]) -> Unit:
    return {
        "load": block.get("LoadState") or None,
        "active": block.get("ActiveState") or None,
        "sub": block.get("SubState") or None,
        "enabled": block.get("UnitFileState") or None,
        "result": block.get("Result") or None,
        "condition_result": block.get("ConditionResult") or None,
        "properties": {name: value for name, value in block.items() if name != "Id"},
    }
