"""How a run may disturb nodes: when to reboot, whom to upgrade first, how many at once, what drains a node."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.plan.reboot import NEVER, POLICIES
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, listed, nearest

#: Seconds that a node may take to come back. Servers with many DIMMs and NICs test themselves for ten minutes.
REBOOT_TIMEOUT_S = 1800
_HOOK = "write a list of words, {command: [...], on: node} or {tasks: FILE}"


def checked(given: Mapping[str, Any], hosts: Sequence[str]) -> Tuple[Dict[str, Any], List[Problem]]:
    """The settings by their names without trainrig_, every default filled in. `hosts`: those of the inventory."""
    problems: List[Problem] = []
    policy = str(given.get("trainrig_reboot") or NEVER)
    if policy not in POLICIES:
        word = nearest(policy, POLICIES)
        fix = f"did you mean {word}" if word else f"take of {listed(POLICIES)}"
        problems.append(_problem("trainrig_reboot", policy, "no such policy", fix))
    settings: Dict[str, Any] = {"reboot": policy}
    for name, default in (("reboot_timeout", REBOOT_TIMEOUT_S), ("batch", 1)):
        settings[name] = _number(given.get(f"trainrig_{name}"), default)
        if settings[name] is None:
            text = "must be a whole number from 1 on"
            problems.append(
                _problem(f"trainrig_{name}", str(given[f"trainrig_{name}"]), text, f"write {default} or another")
            )
    canary = given.get("trainrig_canary")
    settings["canary"] = [canary] if isinstance(canary, str) and canary else list(canary or [])
    for name in settings["canary"]:
        if name not in hosts:
            word = nearest(name, hosts)
            fix = f"did you mean {word}" if word else "name a host of the inventory, or leave it out"
            problems.append(_problem("trainrig_canary", str(name), "the inventory has no such host", fix))
    for name in ("drain", "uncordon"):
        settings[name], wrong = hook(given.get(f"trainrig_{name}"))
        if wrong:
            problems.append(_problem(f"trainrig_{name}", str(given.get(f"trainrig_{name}")), wrong, _HOOK))
    return settings, problems


def hook(written: Any) -> Tuple[Dict[str, Any], str]:
    """A hook as {command, on} or {tasks}, empty where there is none; and what is wrong with it."""
    if not written:
        return {}, ""
    row = {"command": written} if isinstance(written, list) else written
    if not isinstance(row, Mapping):
        return {}, "is neither a command nor a file of tasks"
    odd = sorted(set(map(str, row)) - {"command", "on", "tasks"})
    if odd:
        return {}, f"{odd[0]} means nothing here"
    if ("tasks" in row) == ("command" in row):
        return {}, "needs one of command and tasks"
    if "tasks" in row:
        return ({"tasks": str(row["tasks"])}, "") if "on" not in row else ({}, "on goes with a command only")
    command, place = row["command"], row.get("on", "controller")
    if not isinstance(command, list) or not command:
        return {}, "the command must be a list of words, so that no shell reads it"
    if place not in ("controller", "node"):
        return {}, f"on: {place}: must be controller or node"
    return {"command": [str(word) for word in command], "on": place}, ""


def batches(hosts: Sequence[str], pools: Mapping[str, str], canary: Sequence[str], size: int) -> List[List[str]]:
    """The hosts to upgrade, in the order in which it is done: canaries one by one, then batches.

    `hosts`: in the inventory's order. Without `canary` the first host of each pool is one.
    """
    first = [name for name in canary if name in hosts] if canary else []
    if not canary:
        seen: set[str] = set()
        for name in hosts:
            if pools.get(name, "") not in seen:
                seen.add(pools.get(name, ""))
                first.append(name)
    rest = [name for name in hosts if name not in first]
    return [[name] for name in first] + [rest[at : at + size] for at in range(0, len(rest), size)]


def turns(batches: Sequence[Sequence[str]]) -> List[Dict[str, Any]]:
    """Each batch with what a person reads when it begins."""
    total, before, found = sum(map(len, batches)), 0, []
    for hosts in batches:
        last = before + len(hosts)
        which = f"{last}" if len(hosts) == 1 else f"{before + 1} to {last}"
        found.append({"hosts": list(hosts), "said": f"{', '.join(hosts)} ({which} of {total})"})
        before = last
    return found


def stopped(host: str, verdict: str, drained: bool, command: str) -> Dict[str, Any]:
    """The finding that a rollout ends at this host. `command`: what is typed to go on."""
    state = "it stays drained, and no host after it is touched" if drained else "no host after it is touched"
    return {
        "rule": "run.rollout_stopped",
        "severity": "warn",
        "layer": "run",
        "host": host,
        "pool": None,
        "scope": "host",
        "summary": f"the upgrade stopped at {host}: {state}",
        "cause": f"its verdict after the change is {verdict}; what is wrong is said beside this",
        "action": {"kind": "none", "text": f"mend what is wrong with {host}, then go on: `{command}`"},
        "evidence": [],
        "phase": "site",
    }


def _number(value: Any, default: int) -> Any:
    """A whole number from 1 on, also where -e made a text of it; None for anything else."""
    if value is None or value == "":
        return default
    if isinstance(value, bool) or not str(value).isdigit() or int(value) < 1:
        return None
    return int(value)


def _problem(key: str, value: str, text: str, fix: str) -> Problem:
    return {"rule": "inventory.value", "where": "", "key": key, "value": value, "text": text, "fix": fix}
