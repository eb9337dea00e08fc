"""Names of the packages that a resolution means on its platform: by family, origin and driver branch."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.keys import BY_NAME
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.rows_node import Data, Row, precompiled_rows


def packages(
    chosen: Mapping[str, Row], given: Mapping[str, Row], wishes: Mapping[str, str], data: Data
) -> Dict[str, Any]:
    """{what: [name]} of what is to be installed, with `driver_pin` and `driver_stream` where there are such."""
    table, driver, platform, pool = data["packages"], chosen["driver"], given["platform"], given["pool"]
    found: Dict[str, Any] = {}
    words = _words(chosen, wishes)
    if wishes["kernel"] not in BY_NAME["kernel"].words:
        row = _fitting(table["kernel"], None, platform, None)
        if row:
            found["kernel"] = _named(row["names"], words)
    if driver["present"] and driver["managed"] and not driver["kept"]:
        row = _fitting(table["driver"], driver["branch"], platform, wishes["origin"])
        if row:
            found["driver"] = _named(row[driver["flavour"]], words)
            if "pin" in row:
                found["driver_pin"] = _named([row["pin"]], words)
            persistence = _fitting(table["beside_driver"].get("persistence", []), None, platform, wishes["origin"])
            if persistence:
                found["persistence"] = list(persistence["names"])
            stream = row.get("stream", {}).get(driver["flavour"])
            if wishes["module_build"] == "precompiled":
                compiled = precompiled_rows(platform["code"], platform["family"], data).get(wishes["origin"], {})
                stream = compiled.get("stream", {}).get(driver["flavour"], stream)
                if driver["flavour"] in compiled:
                    found["module"] = _named(compiled[driver["flavour"]], words)
            if stream:
                found["driver_stream"] = _named([stream], words)
    if driver["present"]:
        wanted = {"fabric_manager": needs_fabric_manager(given, wishes), "imex": pool["needs_imex"]}
        for what, needed in wanted.items():
            row = _fitting(table["with_driver"][what], driver["branch"], platform, wishes["origin"]) if needed else None
            if row:
                found[what] = _named([row["name"]], words)
        if needs_fabric_manager(given, wishes) and pool["needs_subnet_manager"]:
            found["subnet_manager"] = list(table["beside_driver"].get("subnet_manager", {}).get("names", []))
    if chosen["cuda"]["minor"]:
        row = _fitting(table["cuda_toolkit"], None, platform, wishes["origin"])
        if row:
            found["cuda_toolkit"] = _named([row["name"]], words)
    if wishes["accelerator"] == "nvidia" and wishes["nccl"] not in ("auto", "wheel"):
        row = _fitting(table["nccl"], None, platform, wishes["origin"])
        if row:
            found["nccl"] = list(row["names"])
    if wishes["container_toolkit"] != "off" and wishes["accelerator"] == "nvidia":
        found["container_toolkit"] = list(table["container_toolkit"]["names"])
    return found


def needs_fabric_manager(given: Mapping[str, Row], wishes: Mapping[str, str]) -> bool:
    return bool(given["pool"]["needs_fabric_manager"]) and wishes["fabric_manager"] != "off"


def _words(chosen: Mapping[str, Row], wishes: Mapping[str, str]) -> Dict[str, str]:
    minor = str(chosen["cuda"]["minor"] or "")
    return {
        "branch": str(chosen["driver"]["branch"]),
        "version": str(chosen["driver"]["version"]),
        "cuda": minor.replace(".", "-"),
        "kernel": wishes["kernel"],
    }


def _named(names: List[str], words: Mapping[str, str]) -> List[str]:
    return [name.format(**words) for name in names]


def _fitting(rows: List[Any], branch: Optional[str], platform: Row, origin: Optional[str]) -> Any:
    """The first row for this platform, origin and branch; without an origin, of any."""
    for row in rows:
        families = row.get("families") or [row.get("family")]
        if platform["family"] not in families or (origin and origin != row["origin"]):
            continue
        if platform["code"] not in row.get("platforms", [platform["code"]]):
            continue
        if branch and not numbers(row.get("from", "0")) <= numbers(branch) <= numbers(row.get("to", branch)):
            continue
        return row
    return None
