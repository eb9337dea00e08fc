"""What each layer takes of a locked system on one node: exact packages, what has to go for them, what it costs."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import AbstractSet, Any, Dict, List, Mapping, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import member
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import driver_part
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.ownership import ours

System = Mapping[str, Any]
#: The layer that has the say over the driver's whole family.
DRIVER = "driver"


def of_system(
    system: System,
    installed: Mapping[str, str],
    manifest: Any,
    families: Mapping[str, Any],
    competing: Sequence[str],
) -> Dict[str, Any]:
    """layer -> {packages: {name: version}, beside: {name: version}, remove: [name]}, for layers that install, or did.

    `packages` follow from the lock alone, so that they can decide whether a layer is clean. The others follow from what
    is on the node too, `installed` (name -> version) and the `manifest`: `beside` are installed members of the driver's
    family at the locked driver's version, which the lock does not name and an upgrade must not move either; `remove` is
    what trainrig installed and the lock does not name any more, and of the driver's family all other versions.

    The driver's also has `family`, the patterns of its packages' names, and `competing`, kernel modules that would take
    the GPU instead: what data/families.yml and data/pci.yml (`drivers`) say.
    """
    pinned: Dict[str, Dict[str, str]] = {layer: {} for layer in system["install"]}
    for row in system["packages"]:
        if row["pin"] and row["layer"] in pinned:
            pinned[row["layer"]][row["name"]] = row["version"]
    locked = {row["name"] for row in system["packages"]}
    entries = manifest.get("layers") if isinstance(manifest, Mapping) else None
    mine = {
        layer: ours(entry, "packages") for layer, entry in (entries if isinstance(entries, Mapping) else {}).items()
    }
    found: Dict[str, Any] = {}
    for layer in [*pinned, *(layer for layer in mine if mine[layer] and layer not in pinned)]:
        going = sorted((mine.get(layer, set()) - locked) & set(installed))
        found[layer] = {"packages": pinned.get(layer, {}), "beside": {}, "remove": going}
    if DRIVER in pinned:
        others = _others(locked, installed, families)
        driver = (system["resolution"].get("driver") or {}).get("version")
        said = {*system["remove"], *system["conflicts"], *found[DRIVER]["remove"]}
        beside = {
            name: version
            for name, version in others.items()
            if name not in said and driver and driver_part(version) == driver
        }
        leaving = set(others) - set(beside) | {*system["remove"], *found[DRIVER]["remove"]} & set(installed)
        found[DRIVER].update(beside=beside, remove=sorted(leaving))
        modules = sorted(name for name in competing if name == name.lower())
        found[DRIVER].update(family={"family": DRIVER, **families[DRIVER]}, competing=modules)
    return found


def _others(locked: AbstractSet[str], installed: Mapping[str, str], families: Mapping[str, Any]) -> Dict[str, str]:
    """Installed members of the driver's family, and pins for it, that the lock does not have."""
    return {
        name: version
        for name, version in sorted(installed.items())
        if name not in locked
        and (
            member(families["pinning"], name)
            or (driver_part(version) and any(member(families[one], name) for one in (DRIVER, "exactly_driver")))
        )
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
