"""Reads a whole declaration: every key of `trainrig_stack` with its value, or what is impossible about it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from datetime import date
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import minor, numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve import keys
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, listed, nearest
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.stack import NAME, not_text, unknown_keys
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.wanted import bounds, matching

Data = Mapping[str, Any]
Trouble = Optional[Tuple[str, str]]  # (what is wrong, what to do)
Check = Callable[[str, Data], Trouble]
_PYTHON = re.compile(r"3\.[0-9]+(\.[0-9]+[a-z0-9+]*)?")
#: A kernel release as uname -r prints it.
KERNEL = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+[A-Za-z0-9.+~_-]*")
#: What the node has, where it can be reached: {key: what it is, for people}.
INSTALLED = {
    "driver": "version of the loaded driver",
    "library": "version of its libraries",
    "module": "open or proprietary",
    "fabric_manager": "version of fabric manager",
    "pythons": "list of Python versions",
    "nvswitch": "true where the node itself has NVSwitches",
    "container": "true inside a container",
}


def declared(stack: Any, data: Data, where: str = "") -> Tuple[Dict[str, str], List[Problem]]:
    """The declaration with every key filled in, and all that is impossible about it."""
    if not isinstance(stack, Mapping):
        fix = f"write for example {NAME}: {{}}"
        return {}, [_problem("stack.not_a_mapping", where, NAME, str(stack), "must be keys with values", fix)]
    problems = unknown_keys(stack, where)
    wishes: Dict[str, str] = {}
    for key in keys.KEYS:
        value = stack.get(key.name, key.words[0])
        if value is False and "off" in key.words:
            value = "off"  # YAML reads off as false
        if not isinstance(value, str) or not value.strip():
            problems.append(not_text(key.name, value, where))
            value = key.words[0]
        wishes[key.name] = value.strip()
        trouble = None if wishes[key.name] in key.words else _trouble(key, wishes[key.name], data)
        if trouble:
            problems.append(_problem("stack.value", where, f"{NAME}.{key.name}", wishes[key.name], *trouble))
    return wishes, problems


def hardware(names: Any, platform: Any, installed: Any, data: Data, where: str = "") -> List[Problem]:
    """What is impossible about the nodes: an unknown GPU, platform or fact."""
    problems = []
    known = data["gpus"]["gpus"]
    if not isinstance(names, list):
        return [_problem("gpus.value", where, "gpus", str(names), "is no list", "write for example gpus: []")]
    for name in names:
        if not str(name).strip():
            fix = "name a model of data/gpus.yml, or leave gpus out"
            problems.append(_problem("gpus.value", where, "gpus", "", "an empty name", fix))
        elif str(name) not in known:
            meant = [word for word in known if word.lower().startswith(str(name).lower())]
            fix = f"did you mean {' or '.join(meant)}" if meant else f"known are {listed(known)}"
            problems.append(_problem("gpus.unknown", where, "gpus", str(name), "no such GPU in data/gpus.yml", fix))
    if split(platform)[0] not in data["packages"]["platforms"] or split(platform)[1] is None:
        codes = listed(data["packages"]["platforms"])
        text, fix = "no such platform", f"use one of {codes}, with -x86_64 or -sbsa"
        problems.append(_problem("platform.unknown", where, "platform", str(platform), text, fix))
    for key, value in (installed or {}).items():
        trouble = _installed(key, value)
        if trouble:
            problems.append(_problem("installed.value", where, f"installed.{key}", str(value), *trouble))
    return problems


def day(today: Any) -> List[Problem]:
    if re.fullmatch(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}", str(today)) and _in_calendar(str(today)):
        return []
    return [_problem("today.value", "", "today", str(today), "is no date", "write it as year-month-day")]


def _in_calendar(day_: str) -> bool:
    try:
        date.fromisoformat(day_)
    except ValueError:
        return False
    return True


def split(platform: Any) -> Tuple[str, Optional[str]]:
    """ubuntu2404-sbsa -> (ubuntu2404, aarch64); None for a machine that is not known."""
    code, _dash, machine = str(platform).rpartition("-")
    return code, {"x86_64": "x86_64", "sbsa": "aarch64"}.get(machine)


def _installed(key: str, value: Any) -> Trouble:
    if key not in INSTALLED:
        return "unknown key", f"known are {listed(INSTALLED)}"
    if value is None:
        return None
    if key in ("nvswitch", "container"):
        return None if isinstance(value, bool) else ("is neither true nor false", "write true or false")
    if key == "pythons":
        fits = isinstance(value, list) and all(_PYTHON.fullmatch(str(one)) for one in value)
        return None if fits else ("is no list of Python versions", 'write for example ["3.12"]')
    if key == "module":
        return None if value in ("open", "proprietary") else ("is no kernel module", "write open or proprietary")
    return None if _driver_like(str(value)) else ("is no driver version", "write it with all its numbers")


def _driver_like(value: str) -> bool:
    return bool(re.fullmatch(r"[0-9]{3}(\.[0-9]{2,3}){1,2}", value))


def _trouble(key: keys.Key, value: str, data: Data) -> Trouble:
    check = _CHECKS.get(key.name)
    if check:
        return check(value, data)
    choices = listed(key.words)
    close = nearest(value, key.words)
    return f"is not one of {choices}", f"did you mean {close}" if close else f"use one of {choices}"


def _driver(value: str, data: Data) -> Trouble:
    branches = data["drivers"]["branches"]
    if value in branches or (_driver_like(value) and value.partition(".")[0] in branches):
        return None
    newest = sorted(branches, key=numbers)
    return "no such driver is known", f"use auto, keep, none, an exact version or a branch: {listed(newest)}"


def _cuda(value: str, data: Data) -> Trouble:
    toolkits = data["drivers"]["cuda_toolkits"]
    known = sorted({".".join(map(str, numbers(name)[:2])) for name in toolkits}, key=numbers)
    written = re.fullmatch(r"([0-9]+\.[0-9]+)(\.[0-9]+|u[0-9]+)?", value)
    fits = written and (written.group(1) in known)
    return None if fits else ("no such CUDA is known", f"use auto or one of {listed(known)}")


def _library(value: str, _data: Data) -> Trouble:
    fits = re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+(\.[0-9]+)?", value)
    return None if fits else ("is no exact version", "write all its numbers, or auto")


def _kernel(value: str, _data: Data) -> Trouble:
    fits = KERNEL.fullmatch(value)
    return None if fits else ("is no exact kernel release", "write it as uname -r prints it, or keep")


def _release(what: str, file: str) -> Check:
    def check(value: str, data: Data) -> Trouble:
        releases = data[file]["releases"]
        if matching(releases, value):
            return None
        if "+" in value:
            version, _plus, variant = value.partition("+")
            return "the variant is a key of its own", f'write "{version}" and variant: {variant}'
        lines = list(dict.fromkeys(minor(version) for version in matching(releases, "auto")))
        same = matching(releases, minor(value)) if not bounds(value) else []
        close = f"{minor(value)} has {listed(same)}" if same else f"known lines are {listed(lines[:6])} and older"
        return f"no such {what} release is known", f"{close}; or use auto"

    return check


def _variant(value: str, data: Data) -> Trouble:
    known = list(data["torch"]["variants"])
    if value in known:
        return None
    close = value.lower().replace(".", "")
    fix = f"did you mean {close}" if close in known else f"use one of {listed(['auto', *known])}"
    return "no such variant of PyTorch is known", fix


def _python(value: str, _data: Data) -> Trouble:
    fits = re.fullmatch(r"3\.[0-9]+", value)
    return None if fits else ("a Python is named by two numbers", f'write auto or, for example, "{_SOME_PYTHON}"')


_SOME_PYTHON = "3.12"
_CHECKS: Mapping[str, Check] = {
    "driver": _driver,
    "kernel": _kernel,
    "cuda": _cuda,
    "cudnn": _library,
    "nccl": _library,
    "pytorch": _release("PyTorch", "torch"),
    "variant": _variant,
    "tensorflow": _release("TensorFlow", "tensorflow"),
    "python": _python,
    "container_toolkit": _library,
}


def _problem(rule: str, where: str, key: str, value: str, text: str, fix: str) -> Problem:
    return {"rule": rule, "where": where, "key": key, "value": value, "text": text, "fix": fix}
