"""Chooses the profile of the lock that a node gets, by what was seen there, and says why."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, TypedDict

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import minor, numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, listed
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.stack import NAME
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.wanted import matching

Profile = Mapping[str, Any]
#: The pool of a host, and of a profile, that names none.
DEFAULT_POOL = "default"


class SeenGpu(TypedDict):
    model: Optional[str]  # key of data/gpus.yml
    sm: Optional[str]  # compute capability


class Seen(TypedDict, total=False):
    """What one node has."""

    platform: Optional[str]  # linux-x86_64
    pythons: Sequence[Tuple[str, str]]  # (path, version), the preferred one first
    gpus: Sequence[SeenGpu]  # those the driver shows
    driver: Optional[str]  # version of the loaded driver; None = no working driver
    gpu_on_pci: bool
    install_driver: str  # the command that installs the driver on this system


class Selection(TypedDict):
    profile: Optional[Dict[str, Any]]
    interpreter: Optional[str]
    python: Optional[str]
    reasons: List[str]
    problem: Optional[Problem]


class _Refused(Exception):
    def __init__(self, rule: str, key: str, value: str, text: str, fix: str) -> None:
        super().__init__(text)
        self.found = (rule, key, value, text, fix)


def select_profile(
    lock: Mapping[str, Any], stack: Mapping[str, str], seen: Seen, where: str = "", pool: str = DEFAULT_POOL
) -> Selection:
    """The first profile of the lock that meets the (validated) declaration and fits the node, or the one problem.

    Profiles stand in the lock in order of preference; they are never mixed. Those of the node's own pool are for it
    alone; a pool that has none gets the default pool's.
    """
    reasons: List[str] = []
    profiles = list(lock.get("profiles") or [])
    own = [profile for profile in profiles if profile["pool"] == pool]
    try:
        profile, interpreter, python = _select(
            own or [profile for profile in profiles if profile["pool"] == DEFAULT_POOL], stack, seen, reasons
        )
    except _Refused as refused:
        rule, key, value, text, fix = refused.found
        problem: Problem = {"rule": rule, "where": where, "key": key, "value": value, "text": text, "fix": fix}
        return {"profile": None, "interpreter": None, "python": None, "reasons": reasons, "problem": problem}
    return {
        "profile": dict(profile),
        "interpreter": interpreter,
        "python": python,
        "reasons": reasons,
        "problem": None,
    }


def _select(
    profiles: List[Profile], stack: Mapping[str, str], seen: Seen, reasons: List[str]
) -> Tuple[Profile, str, str]:
    profiles = _by_platform(profiles, seen)
    accelerator = _accelerator(stack, seen, reasons)
    fitting = [profile for profile in profiles if profile["accelerator"] == accelerator]
    if not fitting:
        has = listed(sorted({str(profile["accelerator"]) for profile in profiles}))
        raise _Refused(
            "profile.accelerator",
            f"{NAME}.accelerator",
            stack["accelerator"],
            f"the lock has no profile for {accelerator}, only for {has}",
            "add one and make the lock with playbooks/lock.yml, or declare another accelerator",
        )
    fitting = _by_version(fitting, profiles, stack)
    if accelerator == "nvidia":
        fitting = _by_hardware(fitting, stack, seen, reasons)
    return _by_python(fitting, stack, seen, reasons)


def _by_platform(profiles: List[Profile], seen: Seen) -> List[Profile]:
    platform = seen.get("platform")
    if not platform:
        return profiles
    fitting = [profile for profile in profiles if profile["platform"] == platform]
    if fitting:
        return fitting
    has = listed(sorted({str(profile["platform"]) for profile in profiles}))
    fix = "add a profile for it and make the lock with playbooks/lock.yml"
    raise _Refused("profile.platform", "stack.lock.yml", platform, f"the lock serves {has}, not this machine", fix)


def _accelerator(stack: Mapping[str, str], seen: Seen, reasons: List[str]) -> str:
    declared, variant = stack["accelerator"], stack["variant"]
    if declared == "cpu" or (declared == "auto" and variant == "cpu"):
        reasons.append(f"the CPU, because {NAME} says so")
        return "cpu"
    driver = seen.get("driver")
    gpus = list(seen.get("gpus") or [])
    if gpus and driver:
        reasons.append(f"{len(gpus)} NVIDIA GPU{'s' if len(gpus) > 1 else ''} with driver {driver}")
        return "nvidia"
    if seen.get("gpu_on_pci") or gpus:
        raise _Refused(
            "profile.gpu_without_driver",
            f"{NAME}.accelerator",
            declared,
            "there is an NVIDIA GPU on the PCI bus, but no working driver",
            f"install NVIDIA's driver ({seen.get('install_driver') or 'see its installation guide'}), reboot and "
            "run this again, or declare accelerator: cpu to leave the GPU alone",
        )
    if declared == "nvidia" or variant not in ("auto", "cpu"):
        key = "accelerator" if declared == "nvidia" else "variant"
        fix = f"declare {key}: auto, which takes the CPU where there is no GPU"
        raise _Refused("profile.no_gpu", f"{NAME}.{key}", stack[key], "no NVIDIA GPU was found on this machine", fix)
    reasons.append("the CPU, because no NVIDIA GPU was found")
    return "cpu"


def _by_version(fitting: List[Profile], profiles: List[Profile], stack: Mapping[str, str]) -> List[Profile]:
    wanted, variant = stack["pytorch"], stack["variant"]
    has = listed(f"{profile['pytorch']['version']} {profile['pytorch']['variant']}" for profile in profiles)
    fix = f"the lock has {has}: declare one of these, or make the lock again with playbooks/lock.yml"
    version = [p for p in fitting if matching([p["pytorch"]["version"]], wanted)]
    if not version:
        text = "this PyTorch exists but is not in the lock for this machine"
        raise _Refused("profile.pytorch", f"{NAME}.pytorch", wanted, text, fix)
    chosen = [profile for profile in version if variant in ("auto", profile["pytorch"]["variant"])]
    if not chosen:
        text = f"the lock has no such variant of PyTorch {version[0]['pytorch']['version']}"
        raise _Refused("profile.variant", f"{NAME}.variant", variant, text, fix)
    return chosen


def _by_hardware(fitting: List[Profile], stack: Mapping[str, str], seen: Seen, reasons: List[str]) -> List[Profile]:
    driver = str(seen.get("driver"))
    chosen: List[Profile] = []
    refusals: List[str] = []
    for profile in fitting:
        name = f"PyTorch {profile['pytorch']['version']} {profile['pytorch']['variant']}"
        against = _driver_too_old(profile, driver, seen) or _not_compiled_for(profile, seen)
        if against:
            refusals.append(f"{name} {against}")
        elif not chosen:
            reasons.append(f"{name}: driver {driver} serves it (at least {profile.get('driver_min') or 'any'})")
            chosen.append(profile)
        else:
            chosen.append(profile)
    if chosen:
        reasons.extend(f"passed over: {refusal}" for refusal in refusals)
        return chosen
    floors = [str(profile["driver_min"]) for profile in fitting if profile.get("driver_min")]
    lowest = min(floors, key=numbers) if floors else "newer"
    raise _Refused(
        "profile.hardware",
        f"{NAME}.pytorch",
        stack["pytorch"],
        f"nothing in the lock runs on this machine: {'; '.join(refusals)}",
        f"install driver {lowest} or newer, declare pytorch: auto, or lock another version with playbooks/lock.yml",
    )


def _driver_too_old(profile: Profile, driver: str, seen: Seen) -> Optional[str]:
    floor = profile.get("driver_min")
    if floor and numbers(driver) < numbers(floor):
        return f"needs driver {floor} or newer, here is {driver}"
    own: Mapping[str, str] = profile.get("gpu_driver_min") or {}
    for gpu in seen.get("gpus") or []:
        for name in (gpu.get("model"), gpu.get("sm")):
            least = own.get(name or "")
            if least and numbers(driver) < numbers(least):
                shown = gpu.get("model") or f"compute capability {gpu.get('sm')}"
                return f"on {shown} needs driver {least} or newer, here is {driver}"
    return None


def _not_compiled_for(profile: Profile, seen: Seen) -> Optional[str]:
    compiled = profile.get("compute_capabilities")
    if not compiled:
        return None
    for gpu in seen.get("gpus") or []:
        if gpu.get("sm") and not runs_on(compiled, str(gpu["sm"])):
            name = gpu.get("model") or "a GPU"
            return f"has no code for {name} (compute capability {gpu['sm']}; it has {listed(compiled)})"
    return None


def runs_on(compiled: Sequence[str], capability: str) -> bool:
    """Code for X.z runs on X.y with z <= y; code marked +PTX also on everything newer."""
    mine = numbers(capability)
    for entry in compiled:
        built = numbers(entry)
        if built[0] == mine[0] and built[1] <= mine[1]:
            return True
        if entry.endswith("+PTX") and built <= mine:
            return True
    return False


def _by_python(
    fitting: List[Profile], stack: Mapping[str, str], seen: Seen, reasons: List[str]
) -> Tuple[Profile, str, str]:
    wanted = stack["python"]
    pythons = list(seen.get("pythons") or [])
    for profile in fitting:
        for path, version in pythons:
            if minor(version) in profile["python"] and wanted in ("auto", minor(version)):
                why = "as declared" if wanted != "auto" else "the first found that the lock serves"
                reasons.append(f"Python {version} at {path}: {why}")
                return profile, path, version
    served = sorted({python for profile in fitting for python in profile["python"]}, key=numbers)
    found = listed(f"{version} ({path})" for path, version in pythons)
    key = f"{NAME}.python"
    if wanted != "auto" and wanted not in served:
        name = f"{fitting[0]['pytorch']['version']} {fitting[0]['pytorch']['variant']}"
        text = f"the lock serves Python {listed(served)} with PyTorch {name}, not {wanted}"
        fix = f"declare one of {listed(served)}, or lock for {wanted} too"
        raise _Refused("profile.python", key, wanted, text, fix)
    names = listed(f"python{python}" for python in (served if wanted == "auto" else [wanted]))
    text = f"none of the Pythons on this machine fits the lock: found {found}, the lock serves {listed(served)}"
    fix = f"install one of {names} with the system's package manager"
    raise _Refused("profile.python_missing", key, wanted, text, fix)
