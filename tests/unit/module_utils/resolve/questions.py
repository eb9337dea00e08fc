"""What the tests of resolve share: data/, the cases under tests/cases/resolve/answer, a question of one."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve import declaration
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.answer import FILES, resolve
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.search import Question
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT, load

CASES = ROOT / "tests" / "cases" / "resolve" / "answer"
DATA = {name: load(name) for name in FILES}
TODAY = "2026-11-30"


def read(path: Path) -> dict:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@lru_cache(maxsize=None)
def cases() -> dict[str, dict]:
    found = {path.stem: read(path) for path in sorted(CASES.glob("*.yml"))}
    assert found
    return found


def question(case: dict, data: dict = DATA) -> tuple[Question, list]:
    """The question of a case, and what is impossible about it."""
    stack, gpus, installed = case["stack"], case["gpus"], case.get("installed", {})
    today = case.get("today", TODAY)
    wishes, problems = declaration.declared(stack, data)
    problems += declaration.hardware(gpus, case["platform"], installed, data) + declaration.day(today)
    return Question(wishes, gpus, case["platform"], installed, today), problems


@lru_cache(maxsize=None)
def answered(name: str) -> dict:
    """The answer to a case, worked out once."""
    return answer(cases()[name])


def answer(case: dict, data: dict = DATA) -> dict:
    asked, problems = question(case, data)
    assert problems == []
    return resolve(asked, data)


def rules_of(found: dict) -> list[str]:
    """The rules that an answer names: those that refuse it, or else those that warn of it."""
    return sorted({one["rule"] for one in (found["warnings"] if found["ok"] else found["conflicts"])})
