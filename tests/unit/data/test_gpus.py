"""data/gpus.yml: its shape, ids that mean one model each, sources that exist."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.enrich import models_by_pci_id
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "data" / "schemas" / "gpus.schema.json").read_text())


@pytest.fixture
def gpus():
    return copy.deepcopy(load("gpus"))


def test_follows_its_schema(gpus):
    jsonschema.validate(gpus, SCHEMA)


def test_schema_refuses_a_name_for_an_id(gpus):
    gpus["gpus"]["L40S"]["pci"][0]["id"] = "L40S"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(gpus, SCHEMA)


def test_an_id_means_one_model(gpus):
    ids = [entry["id"] for row in gpus["gpus"].values() for entry in row["pci"]]
    assert [pci_id for pci_id, times in Counter(ids).items() if times > 1] == []
    assert len(models_by_pci_id(gpus)) == len(ids)


def test_every_source_is_described_and_used(gpus):
    used = {name for row in gpus["gpus"].values() for name in row["source"]}
    assert used == set(gpus["sources"])


def test_recalled_values_are_not_facts_as_well(gpus):
    for model, row in gpus["gpus"].items():
        for name in row.get("recalled", {}):
            value = row["nvlink"]["total_gb_s"] if name == "nvlink_total_gb_s" else row.get(name)
            assert value is None, f"{model}: {name}"


def test_sizes_at_ids_are_sizes_of_the_model(gpus):
    for model, row in gpus["gpus"].items():
        sizes = {entry["memory_gib"] for entry in row["pci"]} - {None}
        assert sizes <= set(row["memory_gib"]), model


def test_links_and_total_agree(gpus):
    rates = {2: 50, 3: 50, 4: 50, 5: 100}  # GB/s of a link, both directions
    for model, row in gpus["gpus"].items():
        nvlink = row["nvlink"] or {}
        if nvlink.get("links"):
            each = nvlink["total_gb_s"] / nvlink["links"]
            assert each in (rates[nvlink["generation"]], 28.125), model


def test_names_that_hold_each_other_stay_apart(gpus):
    models = models_by_pci_id(gpus)
    assert models["10de:2335"] == "H200_SXM"
    assert models["10de:2342"] == "GH200"
    assert models["10de:26b5"] == "L40"
    assert models["10de:26b9"] == "L40S"
