"""Controller side of trainrig.gpu.resolve: reads arguments and data/, has the question answered, prints it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import shutil
from datetime import datetime, timezone
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve import declaration, keys
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.answer import FILES, resolve
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.inventory_names import (
    misspelt_variables,
    misspelt_words,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, message
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.search import Question
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.stack import NAME
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.table import answer_lines
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import origin, plain

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "stack": {"type": "dict", "default": {}},
    "gpus": {"type": "list", "elements": "str"},
    "platform": {"type": "str"},
    "installed": {"type": "dict", "default": {}},
    "today": {"type": "str"},
    "what_if": {"type": "bool", "default": False},
    "show": {"type": "bool", "default": False},
    "fatal": {"type": "bool", "default": False},
}


#: What else playbooks/resolve.yml reads.
_QUESTION = ("gpus", "platform", "installed", "today")


class Caution(dict[str, Any]):
    """A warning that reads well where Ansible prints it."""

    def __str__(self) -> str:
        return f"{self['rule']}: {self['text']} (see {self['source']})"


class ActionModule(ActionBase):
    """Returns whether a declared stack works on some hardware, as what, and why."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        where = origin(self._task.args.get("stack")) or ""
        _validated, validated = self.validate_argument_spec(_ARGUMENTS)
        arguments = plain(validated)
        data = {name: load(name) for name in FILES}
        given, misspelt = self._given() if arguments["what_if"] else ({}, [])
        stack = {**arguments["stack"], **given}
        wishes, problems = declaration.declared(stack, data, where)
        problems += misspelt
        gpus = arguments["gpus"] if arguments["gpus"] is not None else stack.get("gpus") or []
        platform = arguments["platform"] or _one(stack.get("platforms"))
        today = arguments["today"] or datetime.now(timezone.utc).date().isoformat()
        asked = arguments["gpus"] is not None or arguments["platform"]
        problems += declaration.hardware(gpus, platform, arguments["installed"], data, "" if asked else where)
        problems += declaration.day(today)
        if problems:
            raise AnsibleActionFail("\n".join(message(problem) for problem in problems))
        answer = resolve(Question(wishes, gpus, platform, arguments["installed"], today), data)
        if arguments["show"]:
            width = shutil.get_terminal_size((140, 40)).columns
            Display().display("\n".join(["", *answer_lines(answer, width)]))
        if arguments["fatal"] and not answer["ok"]:
            # Printed already; Ansible would print it all once more.
            return {"changed": False, "failed": True, "ok": False, "msg": "this set does not work: see above"}
        answer["cautions"] = answer.pop("warnings")
        # Ansible prints a key named so as its own warnings and leaves only text of them; the table has them already.
        shown = {} if arguments["show"] else {"warnings": [Caution(one) for one in answer["cautions"]]}
        return {"changed": False, **answer, **shown}

    def _given(self) -> tuple[dict[str, Any], list[Problem]]:
        """Single keys that were given with -e, and names there that look like one."""
        given = plain(load_extra_vars(self._loader))
        problems = [
            *misspelt_words(given, (*keys.NAMES, *_QUESTION), "-e"),
            *misspelt_variables(given, "-e"),
        ]
        return {name: given[name] for name in keys.NAMES if name in given}, problems


def _one(platforms: Any) -> str:
    """The platform of a declaration that names one."""
    named = platforms if isinstance(platforms, list) else [platforms] if platforms else []
    if len(named) == 1:
        return str(named[0])
    what = f"{NAME}.platforms names {len(named)}" if named else "it is not said for which platform to answer"
    raise AnsibleActionFail(f"platform: {what}. To fix it: name one, for example with -e platform=ubuntu2404-x86_64.")
