"""The reboot barrier: what waits for the next boot, which layers wait for the driver, the plan behind it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

#: Values of trainrig_reboot.
NEVER, WHEN_NEEDED = "never", "when_needed"
POLICIES = (NEVER, WHEN_NEEDED)
#: In `needs` of data/layers.yml: the kernel has the driver's module.
LOADED_DRIVER = "loaded_driver"


def pending(observation: Mapping[str, Any]) -> List[str]:
    """Why a reboot is pending. Empty where none is, and where the record is of an earlier boot: it is void."""
    record = observation.get("pending_reboot")
    if not isinstance(record, Mapping) or not record:
        return []
    boot = observation.get("boot")
    boot_id = boot.get("boot_id") if isinstance(boot, Mapping) else None
    if boot_id and record.get("boot_id") not in (None, boot_id):
        return []
    reasons = record.get("reasons")
    said = reasons if isinstance(reasons, list) and reasons else [record.get("reason") or "a change waits for it"]
    return [str(one) for one in said]


def driver_loaded(observation: Mapping[str, Any]) -> bool:
    """Whether the kernel had the driver's module when the node was looked at."""
    nvidia = observation.get("nvidia")
    driver = nvidia.get("driver") if isinstance(nvidia, Mapping) else None
    return bool(isinstance(driver, Mapping) and driver.get("module"))


def deferral(needs: Iterable[str], observation: Mapping[str, Any], driver_comes: bool) -> Optional[str]:
    """Why a layer has to wait, or None. `driver_comes`: this run installs the driver, or boots the node into it."""
    if LOADED_DRIVER not in needs or driver_comes or driver_loaded(observation):
        return None
    reasons = pending(observation)
    waits = f"a reboot is pending ({'; '.join(reasons)})" if reasons else "no layer of this run brings it"
    return f"needs a loaded driver, and none is loaded: {waits}"


def steps(rows: Sequence[Mapping[str, Any]], dirty: Sequence[str], due: bool, chosen: Sequence[str]) -> List[str]:
    """The layers that a run goes through, in order: those to apply, and behind a barrier that does something the rest.

    `rows`: layer and barrier of each; `due`: a reboot is pending; `chosen`: what --tags leaves of all of them.
    """
    found: List[str] = []
    behind = False
    for row in rows:
        name = str(row["layer"])
        behind = behind or (bool(row.get("barrier")) and (name in dirty or due) and name in chosen)
        if name in dirty or (behind and name in chosen):
            found.append(name)
    return found


def joined(before: Mapping[str, Any], now: Mapping[str, Any], barrier: str) -> Dict[str, Any]:
    """The plan made after the barrier, with what the first plan said of the layers up to it: that was done."""
    names = [row["layer"] for row in before["layers"]]
    done = set(names[: names.index(barrier) + 1])
    first = [row for row in before["layers"] if row["layer"] in done]
    rest = [row for row in now["layers"] if row["layer"] not in done]
    dirty = [name for name in before["dirty"] if name in done] + [name for name in now["dirty"] if name not in done]
    due = bool(before["verify"]["due"] or now["verify"]["due"])
    reasons = list(dict.fromkeys([*before["verify"]["reasons"], *now["verify"]["reasons"]]))
    verify = {**now["verify"], "due": due, "reasons": reasons}
    if reasons:
        verify["carried"] = None
    verify["left_out"] = bool(reasons) and not due
    return {**now, "layers": first + rest, "dirty": dirty, "steps": before["steps"], "verify": verify}
