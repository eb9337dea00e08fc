"""The answer to "will this set work?": the resolution with reasons, or what clashes and what would work instead."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from itertools import combinations
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import minor, numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.explain import because, resolution, warnings
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.keys import KEYS
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.rows_node import Data
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.search import Found, Question, Search, Stages

#: The files of data/ that an answer is made from.
FILES = (
    *("coherence", "drivers", "torch", "gpus", "cuda", "nccl", "cudnn"),
    *("tensorflow", "packages", "host_compilers"),
)
#: Alternatives that give up more than this many wishes are no longer near; of many wishes, fewer sets are tried.
_MOST_CHANGES = 3
_MANY_WISHES = 6
_MOST_ALTERNATIVES = 5
#: A wish that is given up is first moved, then dropped.
_ANY = {"tensorflow": ">=0"}


class Alternative(NamedTuple):
    changes: Dict[str, str]
    resolution: Dict[str, Any]
    rank: Tuple[Any, ...]


def resolve(question: Question, data: Data) -> Dict[str, Any]:
    """`question`: with a valid declaration (declaration.declared). `data`: {file: content} of FILES."""
    stages = Stages(question, data)
    search = Search(question, stages)
    found = search.answer()
    if found:
        return {
            "ok": True,
            "resolution": resolution(found, search),
            "because": because(found, search),
            "warnings": warnings(found),
            "conflicts": [],
            "alternatives": [],
        }
    least = search.least_refused()
    return {
        "ok": False,
        "resolution": None,
        "because": [],
        "warnings": warnings(least),
        "conflicts": [
            {"rule": one.rule, "facts": list(one.facts), "sources": list(one.sources)} for one in least.refused
        ],
        "alternatives": [
            {"changes": one.changes, "resolution": one.resolution} for one in alternatives(question, data, stages)
        ],
    }


def alternatives(question: Question, data: Data, stages: Stages) -> List[Alternative]:
    """The nearest sets that work, those that change the fewest wishes first."""
    movable = [key.name for key in KEYS if question.wishes[key.name] != key.words[0]]
    found: List[Alternative] = []
    working: List[Set[str]] = []
    most = _MOST_CHANGES if len(movable) < _MANY_WISHES else _MOST_CHANGES - 1
    for count in range(1, min(len(movable), most) + 1):
        for given_up in combinations(movable, count):
            if len(found) < _MOST_ALTERNATIVES and not any(smaller <= set(given_up) for smaller in working):
                one = _alternative(question, given_up, data, stages)
                if one:
                    working.append(set(given_up))
                    found.append(one)
    if not found:
        found = _far(question, movable, data, stages)
    if not found and question.wishes["accelerator"] == "auto":
        wishes = {**question.wishes, "accelerator": "cpu"}
        search = Search(question._replace(wishes=wishes), stages)
        answer = search.answer()
        if answer:
            found.append(Alternative({"accelerator": "cpu"}, resolution(answer, search), ()))
    return sorted(found, key=lambda one: one.rank)


def _far(question: Question, movable: List[str], data: Data, stages: Stages) -> List[Alternative]:
    """Where much must change: as many wishes as go together, counted from the first key and from the last."""
    found: Dict[Tuple[str, ...], Alternative] = {}
    for order in (movable, movable[::-1]):
        kept: List[str] = []
        for name in order:
            given_up = tuple(other for other in movable if other not in (*kept, name))
            one = _alternative(question, given_up, data, stages)
            if one:
                kept.append(name)
                last = (given_up, one)
        if kept:
            found[last[0]] = last[1]
    return list(found.values())


def _alternative(question: Question, given_up: Tuple[str, ...], data: Data, stages: Stages) -> Optional[Alternative]:
    defaults = {key.name: key.words[0] for key in KEYS}
    near = {name: question.wishes[name] for name in given_up}
    found = None
    for free in ({**defaults, **_ANY}, defaults):
        wishes = {**question.wishes, **{name: free[name] for name in given_up}}
        search = Search(question._replace(wishes=wishes), stages, near)
        found = found or search.answer()
        if found or not set(given_up) & set(_ANY):
            break
    if not found:
        return None
    made = resolution(found, search)
    changes = {name: _value(name, made, found) for name in given_up}
    # A value that stays the same and yet had to be given up was one too many.
    changes = {name: value if value != question.wishes[name] else defaults[name] for name, value in changes.items()}
    rank = (len(changes), sum(_steps(name, question.wishes[name], changes[name], data) for name in changes))
    return Alternative(changes, made, rank)


def _value(name: str, made: Mapping[str, Any], found: Found) -> str:
    """What the key would have to say to get this resolution."""
    if name == "driver":
        return str(made["driver"]["version"]) if made["driver"] else "none"
    if name == "kernel_module":
        return str(found.chosen["driver"]["flavour"] or "auto")
    if name in ("pytorch", "variant"):
        return str(made["pytorch"]["version" if name == "pytorch" else "variant"])
    if name == "cuda" and found.chosen["cuda"]["minor"] != made["cuda"]:
        return "auto"  # the distribution's toolkit beside a build of another CUDA: no one value names both
    if name in ("cuda", "cudnn", "python", "tensorflow", "origin", "accelerator", "nccl"):
        return str(made[name] or {"tensorflow": "none", "nccl": "wheel"}.get(name, "auto"))
    return "auto"


def _steps(name: str, before: str, after: str, data: Data) -> int:
    """How far a wish moves: in releases of PyTorch and TensorFlow, in branches of the driver; else one step."""
    tables = {
        "pytorch": [minor(version) for version in data["torch"]["releases"]],
        "tensorflow": [minor(version) for version in data["tensorflow"]["releases"]],
        "driver": list(data["drivers"]["branches"]),
    }
    order = sorted(dict.fromkeys(tables.get(name, [])), key=numbers)
    places = [
        next((at for at, one in enumerate(order) if value == one or value.startswith(f"{one}.")), None)
        for value in (before, after)
    ]
    return abs(places[0] - places[1]) if None not in places else 1  # type: ignore[operator]
