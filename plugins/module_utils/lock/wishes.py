"""From what a user declares to the profiles a lock should have, with what each needs of driver, GPU and Python."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import minor, numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, listed
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.profile import runs_on
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.stack import offered_variants, releases

_PLATFORM = "linux-x86_64"
_MACHINES = ("x86_64", "aarch64")


def from_stack(stack: Mapping[str, str], torch: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """The profiles that a validated declaration means when none are spelled out, the preferred one first."""
    candidates = releases(torch, stack["pytorch"])
    variant, accelerator = stack["variant"], stack["accelerator"]
    chosen: List[Dict[str, Any]] = []
    if variant != "auto":
        versions = [version for version in candidates if variant in offered_variants(torch, version)]
        return [_wish(versions[0], variant, stack)] if versions else []
    if accelerator in ("auto", "cpu"):
        chosen.append(_wish(candidates[0], "cpu", stack))
    if accelerator in ("auto", "nvidia"):
        floors: List[Tuple[int, ...]] = []
        for version in candidates:
            build = torch["releases"][version]["default"]["variant"]
            floor = numbers(torch["variants"][build]["driver_min"])
            # The newest, and for older drivers the newest one that asks for less.
            if not floors or (stack["pytorch"] == "auto" and len(floors) == 1 and floor < floors[0]):
                floors.append(floor)
                chosen.append(_wish(version, build, stack))
    return chosen


def _wish(version: str, variant: str, stack: Mapping[str, str]) -> Dict[str, Any]:
    wish: Dict[str, Any] = {"name": variant, "pytorch": version, "variant": variant}
    if stack["python"] != "auto":
        wish["python"] = [stack["python"]]
    return wish


def problem(wish: Mapping[str, Any], torch: Mapping[str, Any], where: str) -> Optional[Problem]:
    """Why a wish cannot become a profile, as far as data/torch.yml tells; its keys are right (settings.checked)."""
    key = f"trainrig_lock.profiles.{wish['name']}"
    version, variant = wish["pytorch"], wish["variant"]
    if version not in torch["releases"]:
        fix = f"write an exact one, for example {releases(torch, 'auto')[0]}"
        return _problem(where, f"{key}.pytorch", version, "no such PyTorch release is known", fix)
    if variant not in offered_variants(torch, version):
        fix = f"use one of {listed(offered_variants(torch, version))}"
        return _problem(where, f"{key}.variant", variant, f"PyTorch {version} does not exist in this variant", fix)
    platform = wish.get("platform", _PLATFORM)
    if platform not in [f"linux-{machine}" for machine in _MACHINES]:
        fix = f"use one of {listed(f'linux-{machine}' for machine in _MACHINES)}"
        return _problem(where, f"{key}.platform", platform, "no wheels are known for it", fix)
    served = torch["releases"][version]["python"][platform.partition("-")[2]]
    missing = [python for python in wish.get("python", []) if python not in served]
    if missing:
        text = f"PyTorch {version} has no wheels for it"
        return _problem(where, f"{key}.python", missing[0], text, f"use some of {listed(served)}")
    return None


def profile(
    wish: Mapping[str, Any], torch: Mapping[str, Any], drivers: Mapping[str, Any], gpus: Mapping[str, Any]
) -> Dict[str, Any]:
    """All of a profile that needs no index. The last three: contents of data/torch.yml, drivers.yml and gpus.yml."""
    version, variant = wish["pytorch"], wish["variant"]
    line = torch["lines"][minor(version)].get(variant, {})
    floor: Optional[str] = torch["variants"][variant]["driver_min"]
    compiled = line.get("compute_capabilities")
    own = _stricter_floors(compiled, floor, drivers, gpus) if compiled else {}
    platform = wish.get("platform", _PLATFORM)
    served = torch["releases"][version]["python"][platform.partition("-")[2]]
    return {
        "name": wish["name"],
        "pool": wish.get("pool", "default"),
        "platform": platform,
        "python": sorted(wish.get("python") or served, key=numbers),
        "accelerator": "cpu" if variant == "cpu" else "nvidia",
        "driver_min": floor,
        "gpu_driver_min": own,
        "compute_capabilities": compiled,
        "pytorch": {"version": version, "variant": variant},
    }


def requirement(version: str, variant: str, torch: Mapping[str, Any]) -> str:
    """How the wheel of this variant is asked for: the default wheel carries no local version on the package index."""
    default = torch["releases"][version]["default"]["variant"]
    return f"torch=={version}" if variant == default else f"torch=={version}+{variant}"


def _stricter_floors(
    compiled: Sequence[str], floor: Optional[str], drivers: Mapping[str, Any], gpus: Mapping[str, Any]
) -> Dict[str, str]:
    """Compute capability or GPU model -> the driver it needs itself, where that is more than the build needs.

    Models: only those that the open module alone drives, because for the others a proprietary driver older than the
    open module's own list may serve them.
    """
    least = numbers(floor or "0")
    first = {
        capability: row["first_branch"]
        for row in drivers["architectures"].values()
        for capability in row["compute_capabilities"]
        if row.get("first_branch") and numbers(row["first_branch"]) > least and runs_on(compiled, capability)
    }
    own: Dict[str, str] = {capability: first[capability] for capability in sorted(first, key=numbers)}
    for model, row in sorted(drivers["gpu_minimum"].items()):
        gpu = gpus["gpus"].get(model, {})
        if gpu.get("kernel_module") == "open" and numbers(row["driver"]) > least:
            own[model] = row["driver"]
    return own


def _problem(where: str, key: str, value: str, text: str, fix: str) -> Problem:
    return {"rule": "lock.wish", "where": where, "key": key, "value": value, "text": text, "fix": fix}
