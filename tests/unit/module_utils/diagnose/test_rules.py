"""The table of rules: each has its function and its words, fires in a case and is silent in a healthy one."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import string
from typing import Any

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import ACTIONS, SCOPES, SEVERITIES
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import HOST_RULES, POOL_RULES

from tests.unit.module_utils.diagnose import bundles
from tests.unit.module_utils.diagnose.test_cases import CASES

ROWS: dict[str, dict[str, Any]] = bundles.DATA["rules"]["rules"]
REGISTERED = sorted({**HOST_RULES, **POOL_RULES})
#: Fires only on hardware or files that no simulated machine has; the reason is the rule's own test below or elsewhere.
NOT_AS_A_CASE: dict[str, str] = {}


def fired() -> dict[str, set[str]]:
    """Rule -> severities with which cases expect it."""
    found: dict[str, set[str]] = {}
    for path in CASES.glob("*.yml"):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")):
            for line in case["expect"] if case["expect"] != "pass" else []:
                severity, rule = line.split()[:2]
                found.setdefault(rule.split("@")[0], set()).add(severity)
    return found


FIRED = fired()


def test_functions_and_words_agree() -> None:
    assert sorted(ROWS) == REGISTERED


@pytest.mark.parametrize("rule", REGISTERED)
class TestRule:
    def test_its_row_is_whole(self, rule: str) -> None:
        row = ROWS[rule]
        allowed = {"layer", "scope", "severity", "also", "action", "cause", "next", "texts", "explains", "source"}
        assert set(row) <= allowed
        assert row["severity"] in SEVERITIES
        assert row["action"] in ACTIONS
        assert row["scope"] in SCOPES
        assert (row["scope"] == "host") is (rule in HOST_RULES)
        assert set(row.get("explains", [])) <= set(ROWS) - {rule}
        assert all(row[key].strip() for key in ("cause", "next", "source", "layer"))

    def test_its_id_says_subject_and_fault(self, rule: str) -> None:
        assert re.fullmatch(r"[a-z]+\.[a-z0-9_]+", rule)

    def test_its_texts_can_be_filled(self, rule: str) -> None:
        row = ROWS[rule]
        for text in (row["cause"], row["next"], *row.get("texts", {}).values()):
            for _literal, name, _format, _conversion in string.Formatter().parse(text):
                assert name is None or name.isidentifier(), f"{rule}: {{{name}}}"

    def test_a_case_makes_it_fire(self, rule: str) -> None:
        if rule in NOT_AS_A_CASE:
            pytest.skip(NOT_AS_A_CASE[rule])
        assert rule in FIRED

    def test_its_default_severity_is_shown(self, rule: str) -> None:
        if rule not in NOT_AS_A_CASE:
            assert ROWS[rule]["severity"] in FIRED[rule]


def test_no_case_expects_a_rule_that_is_not_there() -> None:
    assert set(FIRED) <= set(ROWS)
