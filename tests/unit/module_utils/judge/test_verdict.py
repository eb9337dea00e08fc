"""The final word: precedence, and that nothing unknown passes."""

import itertools

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.verdict import VERDICTS, verdict

OK = {"a": "ok", "b": "ok"}


def of(*severities, statuses=("pass",), states=None):
    findings = [{"severity": one} for one in severities]
    return verdict(findings, [{"status": one} for one in statuses], OK if states is None else states)


@pytest.mark.parametrize(
    ("word", "arguments"),
    [
        ("pass", {}),
        ("pass", {"statuses": ("pass", "info")}),
        ("warn", {"statuses": ("pass", "warn")}),
        ("fail", {"statuses": ("pass", "fail")}),
        ("incomplete", {"states": {"a": "ok", "b": "unreachable"}}),
        ("incomplete", {"states": {"a": "deferred"}}),
        ("incomplete", {"states": {"a": "pending_reboot"}}),
        ("incomplete", {"states": {"a": "a word of tomorrow"}}),
        ("incomplete", {"states": {}}),
        ("fail", {"states": {"a": "failed", "b": "ok"}}),
        ("incomplete", {"statuses": ("brilliant",)}),
    ],
)
def test_states_and_statuses(word, arguments):
    assert of(**arguments) == word


def test_information_passes():
    assert of("info") == "pass"


def test_unknown_severity_is_no_pass():
    assert of("harmless") == "incomplete"


ORDER = ["pass", "warn", "incomplete", "fail", "refuse"]
WAYS = {
    "pass": {},
    "warn": {"severity": "warn"},
    "incomplete": {"state": "unreachable"},
    "fail": {"severity": "fail"},
    "refuse": {"severity": "refuse"},
}


@pytest.mark.parametrize("pair", list(itertools.combinations(ORDER, 2)))
def test_the_gravest_wins(pair):
    severities = [WAYS[one]["severity"] for one in pair if "severity" in WAYS[one]]
    states = {str(index): WAYS[one].get("state", "ok") for index, one in enumerate(pair)}
    assert of(*severities, states=states) == max(pair, key=ORDER.index)


def test_the_words_are_the_designs():
    assert set(ORDER) == set(VERDICTS)
