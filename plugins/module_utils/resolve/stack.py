"""Checks the part of `trainrig_stack` that chooses a profile of the lock, before any node is contacted."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import minor, numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve import keys
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, listed, nearest
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.wanted import matching

#: What a profile is chosen by; each is `auto` when it is left out. declaration.py checks the other keys.
KEYS = keys.PROFILE
ACCELERATORS = tuple(sorted(keys.BY_NAME["accelerator"].words))
NAME = "trainrig_stack"
#: What people write for an accelerator; by its letters `gpu` is nearest to `cpu`, which nobody means by it.
_MEANT = {"cuda": "nvidia", "gpu": "nvidia", "none": "cpu"}


def validate(stack: Any, torch: Mapping[str, Any], where: str = "") -> Tuple[Dict[str, str], List[Problem]]:
    """The declaration with every key filled in, and all that is wrong with it. `torch`: content of data/torch.yml."""
    if stack is None:
        stack = {}
    if not isinstance(stack, Mapping):
        text = "must be keys with values, one a line"
        return {}, [_problem("stack.not_a_mapping", where, NAME, str(stack), text, f"write for example {NAME}: {{}}")]
    problems = unknown_keys(stack, where)
    declared: Dict[str, str] = dict.fromkeys(KEYS, "auto")
    for key in KEYS:
        value = stack.get(key, "auto")
        if isinstance(value, str) and value.strip():
            declared[key] = value.strip()
        else:
            problems.append(not_text(key, value, where))
    checks = (_accelerator, _pytorch, _variant, _python)
    problems += [problem for check in checks for problem in check(declared, torch, where)]
    if not problems:
        problems = _together(declared, torch, where)
    return declared, problems


def releases(torch: Mapping[str, Any], wanted: str) -> List[str]:
    """The releases that `auto`, a release line (2.13), an exact version or bounds mean, newest first."""
    return matching(torch["releases"], wanted)


def offered_variants(torch: Mapping[str, Any], version: str) -> List[str]:
    """The variants in which a release exists."""
    line = torch["lines"].get(minor(version), {})
    return ["cpu", *sorted(key for key in line if key in torch["variants"])]


def unknown_keys(stack: Mapping[str, Any], where: str) -> List[Problem]:
    known = (*keys.NAMES, *keys.LISTS)
    return [_unknown_key(str(key), stack[key], where) for key in stack if key not in known]


def _unknown_key(key: str, value: Any, where: str) -> Problem:
    close = nearest(key, keys.NAMES)
    fix = f"did you mean {close}" if close else f"remove it; known keys are {listed((*keys.NAMES, *keys.LISTS))}"
    return _problem("stack.unknown_key", where, f"{NAME}.{key}", str(value), "unknown key", fix)


def not_text(key: str, value: Any, where: str) -> Problem:
    """A value that YAML does not read as text."""
    shown = "" if value is None else str(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        text, fix = "is no text", f"write {key}: auto or a value in quotes"
    else:
        # YAML reads 2.10 as the number 2.1: what was written can no longer be told.
        text = "is a number to YAML, which drops the last zero of 2.10" if key != "variant" else "is a number to YAML"
        fix = f'quote it as you wrote it, for example {key}: "{shown}"'
    return _problem("stack.not_text", where, f"{NAME}.{key}", shown, text, fix)


def _accelerator(declared: Mapping[str, str], _torch: Mapping[str, Any], where: str) -> List[Problem]:
    value = declared["accelerator"]
    if value in ACCELERATORS:
        return []
    close = _MEANT.get(value.lower()) or nearest(value, ACCELERATORS)
    fix = f"did you mean {close}" if close else f"use one of {listed(ACCELERATORS)}"
    return [_problem("stack.accelerator", where, f"{NAME}.accelerator", value, "unknown accelerator", fix)]


def _pytorch(declared: Mapping[str, str], torch: Mapping[str, Any], where: str) -> List[Problem]:
    value, key = declared["pytorch"], f"{NAME}.pytorch"
    if releases(torch, value):
        return []
    if "+" in value:
        version, _sep, variant = value.partition("+")
        fix = f'write pytorch: "{version}" and variant: {variant}'
        return [_problem("stack.pytorch", where, key, value, "the variant is a key of its own", fix)]
    lines = sorted(torch["lines"], key=numbers, reverse=True)
    same = [version for version in sorted(torch["releases"], key=numbers) if minor(version) == minor(value)]
    close = f"{minor(value)} has {listed(same)}" if same else f"known release lines are {listed(lines[:6])} and older"
    return [_problem("stack.pytorch", where, key, value, "no such PyTorch release is known", f"{close}; or use auto")]


def _variant(declared: Mapping[str, str], torch: Mapping[str, Any], where: str) -> List[Problem]:
    value, known = declared["variant"], ("auto", *torch["variants"])
    if value in known:
        return []
    close = value.lower().replace(".", "")
    fix = f"did you mean {close}" if close in known else f"use one of {listed(known)}"
    return [_problem("stack.variant", where, f"{NAME}.variant", value, "no such variant of PyTorch is known", fix)]


def _python(declared: Mapping[str, str], _torch: Mapping[str, Any], where: str) -> List[Problem]:
    value = declared["python"]
    if value == "auto" or re.fullmatch(r"3\.[0-9]+", value):
        return []
    fix = f'write python: "{minor(value)}"' if re.match(r"3\.[0-9]+\.", value) else 'write auto or, for example, "3.12"'
    text = "a Python is named by two numbers"
    return [_problem("stack.python", where, f"{NAME}.python", value, text, fix)]


def _together(declared: Mapping[str, str], torch: Mapping[str, Any], where: str) -> List[Problem]:
    """Values that are right alone and cannot be met together."""
    accelerator, variant, python = declared["accelerator"], declared["variant"], declared["python"]
    if variant != "auto" and accelerator != "auto" and (variant == "cpu") != (accelerator == "cpu"):
        text = f"contradicts {NAME}.accelerator: {accelerator}"
        return [_problem("stack.contradiction", where, f"{NAME}.variant", variant, text, "leave one of them out")]
    versions = releases(torch, declared["pytorch"])
    with_variant = [version for version in versions if variant in ("auto", *offered_variants(torch, version))]
    if not with_variant:
        has = listed(offered_variants(torch, versions[0]))
        text = f"PyTorch {declared['pytorch']} does not exist in this variant"
        return [_problem("stack.variant", where, f"{NAME}.variant", variant, text, f"it has {has}")]
    served = [version for version in with_variant if python in ("auto", *_pythons(torch, version))]
    if not served:
        has = listed(_pythons(torch, with_variant[0]))
        text = f"PyTorch {declared['pytorch']} has no wheels for this Python"
        return [_problem("stack.python", where, f"{NAME}.python", python, text, f"{with_variant[0]} has {has}")]
    return []


def _pythons(torch: Mapping[str, Any], version: str) -> List[str]:
    served = torch["releases"][version]["python"]
    return sorted({python for machine in served.values() for python in machine}, key=numbers)


def _problem(rule: str, where: str, key: str, value: str, text: str, fix: str) -> Problem:
    return {"rule": rule, "where": where, "key": key, "value": value, "text": text, "fix": fix}
