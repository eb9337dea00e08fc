"""What each layer takes of a locked system on one node: exact packages, what has to go for them, what it costs."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import member
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import driver_part

System = Mapping[str, Any]
#: The layer that has the say over the driver's whole family.
DRIVER = "driver"


def of_system(
    system: System, installed: Mapping[str, str], families: Mapping[str, Any], competing: Sequence[str]
) -> Dict[str, Any]:
    """layer -> {packages: {name: version}, beside: {name: version}, remove: [name]}, for the layers that install.

    The driver's also has `family`, the patterns of its packages' names, and `competing`, kernel modules that would take
    the GPU instead: what data/families.yml and data/pci.yml (`drivers`) say.

    `packages` follow from the lock alone, so that they can decide whether a layer is clean. The others follow from what
    is on the node too, `installed` (name -> version): `beside` are installed members of the driver's family at the
    locked driver's version, which the lock does not name and an upgrade must not move either; `remove` is what has to
    go, of other branches and versions.
    """
    pinned: Dict[str, Dict[str, str]] = {layer: {} for layer in system["install"]}
    for row in system["packages"]:
        if row["pin"] and row["layer"] in pinned:
            pinned[row["layer"]][row["name"]] = row["version"]
    found = {layer: {"packages": rows, "beside": {}, "remove": []} for layer, rows in pinned.items()}
    if DRIVER in found:
        others = _others(system, installed, families)
        driver = (system["resolution"].get("driver") or {}).get("version")
        going = {*system["remove"], *system["conflicts"]}
        beside = {
            name: version
            for name, version in others.items()
            if name not in going and driver and driver_part(version) == driver
        }
        leaving = {name for name in others if name not in beside} | {*system["remove"]} & set(installed)
        found[DRIVER].update(beside=beside, remove=sorted(leaving))
        found[DRIVER].update(family={"family": DRIVER, **families[DRIVER]}, competing=sorted(competing))
    return found


def _others(system: System, installed: Mapping[str, str], families: Mapping[str, Any]) -> Dict[str, str]:
    """Installed members of the driver's family that the lock does not have."""
    locked = {row["name"] for row in system["packages"]}
    return {
        name: version
        for name, version in sorted(installed.items())
        if name not in locked
        and (member(families["driver"], name) or member(families["exactly_driver"], name))
        and driver_part(version)
    }


def cost(system: System, layer: str, installed: Mapping[str, str]) -> Dict[str, int]:
    """Bytes to download and bytes on the disk of what is not there yet, dependencies included."""
    rows: List[Mapping[str, Any]] = [
        row for row in system["packages"] if row["layer"] == layer and installed.get(row["name"]) != row["version"]
    ]
    return {
        "download_bytes": sum(int(row.get("size", 0)) for row in rows),
        "installed_bytes": sum(int(row.get("installed_size", 0)) for row in rows),
    }
