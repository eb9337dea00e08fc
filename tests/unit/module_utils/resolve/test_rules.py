"""Every rule of data/coherence.yml: a case goes red without it, and a set that works is content with it."""

from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.predicates import PREDICATES, holds
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.rules import compiled
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.search import Search, Stages

from tests.unit.module_utils.resolve.questions import DATA, answer, answered, cases, question, rules_of

RULES = DATA["coherence"]["rules"]
ANSWERED = {name: case for name, case in cases().items() if "problems" not in case}


def naming(rule):
    """The cases that expect a rule to speak."""
    named = {
        name: {*case.get("warnings", []), *case.get("conflicts", []), *case.get("mentions", [])}
        for name, case in ANSWERED.items()
    }
    found = [name for name, rules in named.items() if rule in rules]
    return sorted(found, key=lambda name: not ANSWERED[name]["ok"])  # a refusal takes longer


@pytest.mark.parametrize("rule", RULES)
def test_without_the_rule_a_case_goes_red(rule):
    without = {**DATA["coherence"], "rules": {name: row for name, row in RULES.items() if name != rule}}
    name = naming(rule)[0]
    case = ANSWERED[name]
    changed = answer(case, {**DATA, "coherence": without})
    mentioned = {one["rule"] for one in changed["warnings"]}
    assert (rules_of(changed), rule in mentioned) != (rules_of(answered(name)), rule in case.get("mentions", []))


@pytest.fixture(scope="module")
def content():
    """The rules that were asked with both sides known, and held, in a set that was chosen."""
    found = set()
    rules = compiled(DATA["coherence"])
    for name, case in ANSWERED.items():
        if not case["ok"]:
            continue
        asked, _problems = question(case)
        search = Search(asked, Stages(asked, DATA))
        chosen = search.answer().chosen
        assert chosen, name
        for rule in rules:
            if rule.name not in found and any(asked_and_held(rule, rows) for rows in rows_for(rule, search, chosen)):
                found.add(rule.name)
    return found


def rows_for(rule, search, chosen):
    rows = {**search.given, **chosen}
    return [{**rows, rule.each: row} for row in search.several[rule.each]] if rule.each else [rows]


def asked_and_held(rule, rows):
    return all(condition.holds(rows) for condition in rule.when) and rule.check.holds(rows)


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_is_content_with_a_set_that_works(rule, content):
    assert rule in content


def test_a_rule_that_reads_nothing_known_would_never_speak():
    for rule in compiled(DATA["coherence"]):
        asked, _problems = question(ANSWERED["four_l40s"])
        search = Search(asked, Stages(asked, DATA))
        rows = {**search.given, **search.answer().chosen}
        rooms = {"gpu": search.gpus[0], "bad": None, "issue": None, **rows}
        for condition in (*rule.when, rule.check):
            for side in (condition.value, condition.operand):
                row = rooms.get(getattr(side, "room", ""))
                assert row is None or side.name in row, f"{rule.name}: {side}"


@pytest.mark.parametrize(
    ("predicate", "value", "operand", "answer_is"),
    [
        ("is", "a", "a", True),
        ("is", "a", "b", False),
        ("is_not", "a", "b", True),
        ("is_not", "a", "a", False),
        ("at_least", "580.65.06", "580.65.06", True),
        ("at_least", "580.9.1", "580.65.06", False),
        ("at_least", "2.10.0", "2.9.1", True),
        ("at_most", "12.9", "12.9", True),
        ("at_most", "13.0", "12.9", False),
        ("at_most", "9.10.2.21", "9.10.2.21", True),
        ("among", "open", ["open"], True),
        ("among", "open", [], False),
        ("outside", "2.18.3", ["2.18.1", "2.18.1"], True),
        ("outside", "2.18.1", ["2.18.1", "2.18.1"], False),
        ("outside", "2.28.9.1", ["2.27.3", "2.28.9"], False),
        ("meets", "2.28.9", ">=2.27.7,<3", True),
        ("meets", "2.27.5", ">=2.27.7,<3", False),
        ("meets", "12.6", "==12.5.82", False),
        ("runs_on", ["8.6"], "8.9", True),
        ("runs_on", ["9.0"], "10.0", False),
        ("runs_on", None, "10.0", None),
        ("at_least", "580.65.06", None, None),
        ("meets", None, ">=1", None),
    ],
)
def test_predicates(predicate, value, operand, answer_is):
    assert holds(predicate, value, operand) is answer_is


def test_every_predicate_is_used():
    used = {condition[1] for row in RULES.values() for condition in [*row.get("when", []), row["check"]]}
    assert used == set(PREDICATES)
