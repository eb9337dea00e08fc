"""A whole `trainrig_stack`, checked against data/: the keys of a profile, of the system's packages, and the lists."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.report import expected
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve import declaration, keys
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.answer import FILES
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.inventory_names import (
    misspelt_groups,
    misspelt_variables,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import origin, plain

#: Values that ask for no package.
_AS_IT_IS = ("auto", "keep", "none", "off", "wheel")


def declared(written: Any, where: str) -> tuple[dict[str, Any], list[Problem]]:
    """Every key with its value, `gpus` and `platforms` too, and all that is impossible about it."""
    data = {name: load(name) for name in FILES}
    wishes, problems = declaration.declared(written, data, where)
    lists = {key: written.get(key) or [] for key in keys.LISTS} if isinstance(written, dict) else {}
    for platform in lists.get("platforms", []):
        problems += declaration.hardware(lists["gpus"], platform, {}, data, where)
    return {**wishes, **lists}, problems


def beyond_the_profile(written: Any) -> dict[str, Any]:
    """What is declared of the system's packages: neither a profile's key nor a word for leaving things as they are."""
    keys_of_a_profile = (*keys.PROFILE, *keys.LISTS, "origin")
    return {
        key: value
        for key, value in (written or {}).items()
        if key not in keys_of_a_profile and value not in _AS_IT_IS and value is not False
    }


def ordered(written: Any) -> list[Problem]:
    """All that is impossible about trainrig_expected."""
    if written is None:
        return []
    return expected.problems(plain(written), load("gpus")["gpus"], origin(written) or f"variable {expected.NAME}")


def misspelt(variables: dict[str, Any]) -> list[Problem]:
    """Settings and groups of a host (its task_vars) that look like ours and are none."""
    rows = load("layers")
    layers = [row["layer"] for row in (*rows["layers"], rows["verification"])]
    given = variables["hostvars"][variables["inventory_hostname"]]
    problems = misspelt_variables(map(str, given))
    problems += misspelt_groups(plain(variables["group_names"]), layers)
    for problem in problems:
        problem["where"] = origin(given.get(problem["key"])) or str(variables["inventory_dir"])
    return problems
