"""What fits into a budget, and that what does not is said."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.budget import BudgetError, choose
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT, load

DATA = load("budgets")
STAGES = ["collectives", "ddp", "pairs", "fleet", "nodes"]
ASKED = {
    "backend": "nccl", "stages": STAGES, "collectives": ["all_reduce", "all_gather"], "max_bytes": "auto",
    "pairs_bytes": "auto", "seconds": dict.fromkeys((*STAGES, "pairs_round"), 7),
}  # fmt: skip


def test_schema():
    jsonschema.validate(DATA, json.loads((ROOT / "data/schemas/budgets.schema.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", DATA["budgets"])
def test_a_budget_holds_what_it_promises(name):
    row = DATA["budgets"][name]
    number, unit = re.fullmatch(r"(\d+)([mh])", name).groups()
    assert row["seconds"] == int(number) * {"m": 60, "h": 3600}[unit]
    stages = {stage: seconds for stage, seconds in row["stage_seconds"].items() if stage != "pairs_round"}
    assert set(stages) == set(row["stages"])
    # The last round of pairs may begin when their time is nearly up.
    assert sum(stages.values()) + row["stage_seconds"]["pairs_round"] <= row["seconds"]


def test_without_a_budget_all_is_as_asked_for():
    chosen = choose("", ASKED, DATA)
    assert chosen["stages"] == STAGES and chosen["seconds"] == ASKED["seconds"] and chosen["left_out"] == []
    assert chosen["max_bytes"] == DATA["usual"]["max_bytes"]["nccl"]
    assert choose("", {**ASKED, "backend": "gloo"}, DATA)["max_bytes"] == DATA["usual"]["max_bytes"]["gloo"]


def test_the_smallest_budget_says_what_it_leaves_out():
    chosen = choose("5m", ASKED, DATA)
    assert chosen["stages"] == ["collectives", "pairs"] and chosen["collectives"] == ["all_reduce"]
    assert chosen["seconds"]["pairs"] == DATA["budgets"]["5m"]["stage_seconds"]["pairs"]
    left = [one["what"] for one in chosen["left_out"]]
    assert left[:4] == ["stage ddp", "stage fleet", "stage nodes", "collective all_gather"]
    assert left[4].startswith("messages larger than") and {one["why"] for one in chosen["left_out"]} == {
        "the budget of 5m"
    }


def test_the_largest_leaves_nothing_out():
    assert choose("3h", ASKED, DATA)["left_out"] == []


def test_what_somebody_wants_less_of_stays():
    chosen = choose("30m", {**ASKED, "stages": ["ddp"], "max_bytes": "1M"}, DATA)
    assert chosen["stages"] == ["ddp"] and chosen["max_bytes"] == "1M" and chosen["left_out"] == []


def test_an_unknown_budget_names_those_that_there_are():
    with pytest.raises(BudgetError, match=r"budget: 7m: .* 5m, 30m, 3h"):
        choose("7m", ASKED, DATA)
    with pytest.raises(BudgetError, match="is no size"):
        choose("5m", {**ASKED, "max_bytes": "1T"}, DATA)
