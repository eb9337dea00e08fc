"""docs/rules.md is what data/rules.yml says."""

from __future__ import annotations

from tools import rules_page


def test_page_is_up_to_date() -> None:
    assert rules_page.PAGE.read_text(encoding="utf-8") == rules_page.page(), "run make docs"


def test_diagnose_page_names_only_rules_that_are_there() -> None:
    import re

    known = set(re.findall(r"### `([a-z0-9_.]+)`", rules_page.page()))
    text = (rules_page.ROOT / "docs" / "diagnose.md").read_text(encoding="utf-8")
    named = set(
        re.findall(r"\b((?:driver|kernel|packages|gpu|fabric|rdma|nccl|network|machine|fleet)\.[a-z_]+)\b", text)
    )
    assert named - {"nccl.conf"} <= known and len(named) > 3
