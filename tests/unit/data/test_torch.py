"""data/torch.yml: its schema, its sources, and what its parts say of each other."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import minor, numbers

DATA = Path(__file__).resolve().parents[3] / "data"
TORCH = yaml.safe_load((DATA / "torch.yml").read_text(encoding="utf-8"))
SCHEMA = json.loads((DATA / "schemas" / "torch.schema.json").read_text(encoding="utf-8"))


def test_schema():
    jsonschema.Draft202012Validator(SCHEMA).validate(TORCH)


ROWS = {
    f"{part}-{name}": row for part in ("variants", "lines", "releases", "wheels") for name, row in TORCH[part].items()
}


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_every_row_has_a_source_that_is_named(row):
    assert set(row["source"]) <= set(TORCH["sources"])


def test_every_source_is_used():
    assert {source for row in ROWS.values() for source in row["source"]} == set(TORCH["sources"])


@pytest.mark.parametrize("version", TORCH["releases"])
def test_a_release_belongs_to_its_line(version):
    row, line = TORCH["releases"][version], TORCH["lines"][minor(version)]
    default = [name for name, build in line.items() if name.startswith("cu") and build.get("default")]
    assert default == [row["default"]["variant"]]
    assert row["default"]["variant"] in TORCH["variants"]
    lowest = min(numbers(python) for machine in row["python"].values() for python in machine)
    assert lowest >= numbers(row["requires_python"])[:2]


@pytest.mark.parametrize("line", TORCH["lines"])
def test_a_line_names_known_variants(line):
    builds = {name for name in TORCH["lines"][line] if name.startswith("cu")}
    assert builds
    assert builds <= set(TORCH["variants"])


def test_later_cuda_never_asks_for_an_older_driver():
    rows = [(numbers(name[2:]), row["driver_min"]) for name, row in TORCH["variants"].items() if row["driver_min"]]
    floors = [numbers(floor) for _name, floor in sorted(rows)]
    assert floors == sorted(floors)
