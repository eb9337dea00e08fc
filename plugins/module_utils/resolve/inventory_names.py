"""Names in an inventory that are almost ours: a misspelt group or variable would be ignored without a word."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Iterable, List

from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, nearest

#: What an inventory or -e may set for all layers; the layers' own options are in their argument_specs.
VARIABLES = (
    "trainrig_allow_missing",
    "trainrig_batch",
    "trainrig_canary",
    "trainrig_drain",
    "trainrig_expected",
    "trainrig_floors",
    "trainrig_force",
    "trainrig_hardware",
    "trainrig_lock",
    "trainrig_lock_date",
    "trainrig_lock_directory",
    "trainrig_manifest",
    "trainrig_peers",
    "trainrig_pool",
    "trainrig_prefix",
    "trainrig_private_address",
    "trainrig_python",
    "trainrig_reboot",
    "trainrig_reboot_timeout",
    "trainrig_recheck",
    "trainrig_repositories",
    "trainrig_stack",
    "trainrig_switch",
    "trainrig_uncordon",
    "trainrig_verify",
)
#: What the playbooks themselves set before the declaration is checked.
_INTERNAL = ("trainrig_layers", "trainrig_observed", "trainrig_read_only")


def misspelt_variables(names: Iterable[str], where: str = "") -> List[Problem]:
    """Variables that begin with trainrig_ and are none of ours."""
    found = [name for name in sorted(names) if name.startswith("trainrig_") and name not in (*VARIABLES, *_INTERNAL)]
    return [_problem("inventory.variable", where, name, "no such setting", nearest(name, VARIABLES)) for name in found]


def misspelt_groups(names: Iterable[str], layers: Iterable[str], where: str = "") -> List[Problem]:
    """Groups that are no layer but look like one. Any other group is the user's own."""
    known = set(layers)
    close = {name: nearest(name, known) for name in sorted(set(names) - known)}
    return [_problem("inventory.group", where, name, "no such layer", word) for name, word in close.items() if word]


def misspelt_words(names: Iterable[str], known: Iterable[str], where: str = "") -> List[Problem]:
    """Variables given with -e that look like a word of `known`. my_driver is the user's own: it has the word in it."""
    words = set(known)
    own = (*VARIABLES, *_INTERNAL)
    close = {name: nearest(name, words) for name in sorted(set(names) - words) if name not in own}
    return [
        _problem("inventory.variable", where, name, "nothing is read by this name", word)
        for name, word in close.items()
        if word and word not in re.split("[^a-z]+", name.lower())
    ]


def _problem(rule: str, where: str, key: str, text: str, word: str | None) -> Problem:
    fix = f"did you mean {word}" if word else "remove it; the docs list the settings"
    return {"rule": rule, "where": where, "key": key, "value": "", "text": text, "fix": fix}
