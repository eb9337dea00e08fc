"""What belongs into a node's /etc/nccl.conf, each line with its reason, and the file's text.

NCCL reads `NAME=VALUE`: no blanks around the sign, no quotes, a comment is a line that begins with `#`. Everything in
the environment of a job goes before it.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import textwrap
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.nccl import interface
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem, listed, nearest

INTERFACE, FAMILY = "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY"
_OPTION = "nccl_settings"
_HEADER = (
    "Managed by trainrig (role nccl). More variables: nccl_settings in the inventory. The environment of a job goes "
    "before this file."
)
#: NCCL's own buffer for a value.
_LONGEST = 1023
_WIDTH = 100


class Line(NamedTuple):
    name: str
    value: str
    reason: str


class Facts(NamedTuple):
    """Of data/."""

    variables: Mapping[str, Any]  # nccl_variables.yml
    switches: Mapping[str, Mapping[str, str]]  # rules.yml
    local_interfaces: str  # rules.yml


class Conf(NamedTuple):
    lines: List[Line]
    notes: List[str]  # why a line is not there
    problems: List[Problem]


def decide(
    observation: Mapping[str, Any],
    private_address: str,
    peers: Sequence[str],
    settings: Mapping[str, Any],
    facts: Facts,
) -> Conf:
    """`peers`: the private address of each other node of the pool, "" where none is declared."""
    own, problems = _settings(observation, settings, facts)
    found: Dict[str, Line] = {}
    notes: List[str] = []
    if INTERFACE not in own:
        found, notes, more = _interface(observation, private_address, peers, facts.local_interfaces)
        problems = more + problems
    lines = {
        **found,
        **{name: Line(name, value, f"As {_OPTION} of the inventory has it") for name, value in own.items()},
    }
    return Conf(list(lines.values()), notes, problems)


def render(conf: Conf) -> str:
    """The file. Only comments where NCCL needs nothing from it."""
    blocks = [_comment(_HEADER)]
    blocks += [_comment(note) for note in conf.notes]
    blocks += [f"{_comment(line.reason)}{line.name}={line.value}\n" for line in conf.lines]
    return "\n".join(blocks)


def _interface(
    observation: Mapping[str, Any], private_address: str, peers: Sequence[str], local_interfaces: str
) -> Tuple[Dict[str, Line], List[str], List[Problem]]:
    choice = interface.choose(observation, private_address, peers, local_interfaces)
    if choice.fix:
        return {}, [], [_problem("trainrig_private_address", private_address, choice.why, choice.fix)]
    if choice.interface is None:
        return {}, [f"No {INTERFACE}: {choice.why}"], []
    reason = choice.why
    found = {}
    other = interface.others_first(observation, choice)
    if other and choice.address:
        if interface.version(other) != interface.version(choice.address):
            why = f"NCCL takes IPv4 first, and {choice.interface} has {other} too"
            found[FAMILY] = Line(FAMILY, "AF_INET6", why)
        else:
            reason += (
                f". NCCL takes the first address of an interface, here {other}: give the node one interface for each"
            )
    exact = f"={choice.interface}"  # without the sign eth1 would also be eth10
    return {INTERFACE: Line(INTERFACE, exact, reason), **found}, [], []


def _settings(
    observation: Mapping[str, Any], settings: Mapping[str, Any], facts: Facts
) -> Tuple[Dict[str, str], List[Problem]]:
    """The user's own variables, and what is wrong with them."""
    good: Dict[str, str] = {}
    problems: List[Problem] = []
    for name, value in sorted(settings.items()):
        problem = _named(name, value, facts) or _valued(name, value)
        if problem is None and name == INTERFACE:
            problem = _leads_somewhere(observation, str(value))
        if problem:
            problems.append(problem)
        else:
            good[name] = str(value)
    return good, problems


def _named(name: str, value: Any, facts: Facts) -> Optional[Problem]:
    system, debugging = facts.variables["system"], facts.variables["debugging"]
    switch = facts.switches.get(name) or {}
    contradicts = switch and re.fullmatch(switch["values"], str(value).strip())
    if name in debugging or contradicts:
        effect = f" ({switch['effect']})" if contradicts else ""
        text = f"is for debugging{effect}, and NCCL's guide has such variables in no node's configuration"
        return _problem(
            f"{_OPTION}.{name}", value, text, "remove it; a job that needs it sets it in its own environment"
        )
    if name not in system:
        word = nearest(name, [one.lower() for one in system])
        fix = f"did you mean {word.upper()}" if word else "remove it, or set it in the environment of the job"
        return _problem(f"{_OPTION}.{name}", value, "is no variable of NCCL's system configuration", fix)
    return None


def _valued(name: str, value: Any) -> Optional[Problem]:
    """NCCL takes the rest of the line as it is."""
    key = f"{_OPTION}.{name}"
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return _problem(key, value, "is neither text nor a whole number", "write what NCCL reads, such as 1 or 0")
    text = str(value)
    if not text or text != text.strip() or text[0] in "\"'" or not text.isprintable() or len(text.encode()) > _LONGEST:
        fix = f"write the bare value on one line: no quotes, no blanks around it, {_LONGEST} bytes at most"
        return _problem(key, repr(value), "NCCL would not read it as it is meant", fix)
    return None


def _leads_somewhere(observation: Mapping[str, Any], value: str) -> Optional[Problem]:
    """That interfaces named in it are there; what they lead to the diagnosis judges."""
    known = interface.names(observation)
    wanted = [part.split(":")[0] for part in value.lstrip("=").split(",")]
    if known is None or value.startswith("^"):
        return None
    for one in wanted:
        if one not in known if value.startswith("=") else not any(name.startswith(one) for name in known):
            text = f"this node has no interface {one}; it has {listed(known)}"
            return _problem(f"{_OPTION}.{INTERFACE}", value, text, "name one of these")
    return None


def _problem(key: str, value: Any, text: str, fix: str) -> Problem:
    return {"rule": "nccl.conf", "where": "", "key": key, "value": str(value), "text": text, "fix": fix}


def _comment(text: str) -> str:
    lines = textwrap.wrap(text.rstrip(".") + ".", _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines)
