"""A whole `trainrig_stack`, checked against data/: the keys of a profile, of the system's packages, and the lists."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.resolve import declaration, keys
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.answer import FILES
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load


def declared(written: Any, where: str) -> tuple[dict[str, Any], list[Problem]]:
    """Every key with its value, `gpus` and `platforms` too, and all that is impossible about it."""
    data = {name: load(name) for name in FILES}
    wishes, problems = declaration.declared(written, data, where)
    lists = {key: written.get(key) or [] for key in keys.LISTS} if isinstance(written, dict) else {}
    for platform in lists.get("platforms", []):
        problems += declaration.hardware(lists["gpus"], platform, {}, data, where)
    return {**wishes, **lists}, problems


def of_the_system(written: Any) -> dict[str, Any]:
    """What is declared beyond the keys that choose a profile."""
    return {key: value for key, value in (written or {}).items() if key not in keys.PROFILE and value != "auto"}
