"""Cases of stacks on hardware: tests/cases/resolve/answer/*.yml, and what holds for every answer.

A case names the rules that speak exactly, and any part of the resolution, of the reasons and of the alternatives.
"""

from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve import declaration
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import message
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.table import answer_lines

from tests.unit.module_utils.resolve.questions import DATA, answer, answered, cases, question, rules_of

IMPOSSIBLE = {name: case for name, case in cases().items() if "problems" in case}
ANSWERED = {name: case for name, case in cases().items() if "problems" not in case}


def by_name(some):
    return [pytest.param(name, case, id=name) for name, case in some.items()]


@pytest.mark.parametrize(("name", "case"), by_name(ANSWERED))
def test_case(name, case):
    found = answered(name)
    assert found["ok"] is case["ok"], found["conflicts"] or found["resolution"]
    assert rules_of(found) == case["warnings" if case["ok"] else "conflicts"]
    for key, value in case.get("resolution", {}).items():
        assert found["resolution"][key] == value, key
    for what, names in case.get("packages", {}).items():
        assert found["resolution"]["packages"][what] == names
    reasons = " ".join(f"{one['choice']}: {one['reason']}" for one in found["because"])
    assert not [words for words in case.get("because", []) if words not in reasons], reasons
    assert not set(case.get("mentions", [])) - {one["rule"] for one in found["warnings"]}
    if "alternatives" in case:
        offered = [one["changes"] for one in found["alternatives"]]
        assert not [one for one in case["alternatives"] if one["changes"] not in offered], offered
    assert len(found["alternatives"]) >= case.get("least_alternatives", 0)
    whole(found)
    shown = "\n".join(answer_lines(found, 100))
    assert shown.startswith("This set works." if case["ok"] else "This set does not work.")
    assert "None" not in shown and "{" not in shown and "unknown" not in shown.replace("_unknown", ""), shown


def whole(found):
    """Every sentence is there, with a source."""
    for one in found["because"]:
        assert one["choice"] and one["reason"] and one["source"], one
    for one in found["warnings"]:
        assert one["text"] and one["source"], one
    for one in found["conflicts"]:
        assert len(one["facts"]) == 2 and all(one["facts"]) and one["sources"], one
    assert found["ok"] == bool(found["resolution"]) == (not found["conflicts"])


@pytest.mark.parametrize(("name", "case"), by_name({name: case for name, case in ANSWERED.items() if not case["ok"]}))
def test_alternatives_work_when_they_are_declared(name, case):
    found = answered(name)
    for one in found["alternatives"]:
        again = answer({**case, "stack": {**case["stack"], **one["changes"]}})
        assert again["ok"], (one["changes"], again["conflicts"])
    changes = [len(one["changes"]) for one in found["alternatives"]]
    assert changes == sorted(changes)


@pytest.mark.parametrize(("name", "case"), by_name(IMPOSSIBLE))
def test_impossible(name, case):
    _question, problems = question(case)
    assert len(problems) == 1
    text = message(problems[0])
    assert not [words for words in case["problems"] if words not in text], text
    assert "To fix it: " in text


def test_a_stack_that_is_none():
    _wishes, problems = declaration.declared(["580"], DATA)
    assert [one["rule"] for one in problems] == ["stack.not_a_mapping"]


def test_there_is_a_case_for_every_gpu_and_every_release():
    named = {gpu for case in ANSWERED.values() for gpu in case["gpus"]}
    assert named == set(DATA["gpus"]["gpus"])
    declared = {case["stack"].get("pytorch") for case in ANSWERED.values()}
    assert set(DATA["torch"]["releases"]) <= declared
