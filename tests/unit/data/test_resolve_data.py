"""What trainrig.gpu.resolve reads of data/: schemas, sources that exist, names that mean something elsewhere."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.answer import FILES
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.predicates import PREDICATES
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT, load


def sources_used(part: Any) -> Iterator[str]:
    """Every name under a key `source`, however deep."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "source":
                yield from value
            elif key != "sources":
                yield from sources_used(value)
    elif isinstance(part, list):
        for value in part:
            yield from sources_used(value)


def with_text_keys(part: Any) -> Any:
    """The same with every key as text, as JSON has them: YAML reads 13: and None: as something else."""
    if isinstance(part, dict):
        return {str(key): with_text_keys(value) for key, value in part.items()}
    return [with_text_keys(one) for one in part] if isinstance(part, list) else part


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "data").glob("*.yml")))
def test_schema(name: str) -> None:
    """Every file has one, and it takes nothing that the file does not need: an unknown key is refused."""
    schema = json.loads((ROOT / "data" / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    content = with_text_keys(load(name))
    validator.validate(content)
    assert not validator.is_valid({**content, "Unknown": 1})
    assert not validator.is_valid({key: value for key, value in content.items() if key != "schema"})


@pytest.mark.parametrize("name", [name for name in (*FILES, "origins") if name != "coherence"])
def test_sources_are_described_and_used(name: str) -> None:
    data = load(name)
    used = set(sources_used(data))
    assert used == set(data["sources"])


def test_architectures_are_known_everywhere() -> None:
    known = set(load("drivers")["architectures"])
    assert set(load("cuda")["first_for"]) <= known
    assert set(load("cudnn")["last_for"]) <= known
    for row in load("nccl")["known_bad"]:
        assert {*row.get("architectures", []), *row.get("other_architectures", [])} <= known
    assert {row["arch"] for row in load("gpus")["gpus"].values() if row["vendor"] == "nvidia"} <= known


def test_gpus_are_known_everywhere() -> None:
    known, drivers = set(load("gpus")["gpus"]), load("drivers")
    assert {*drivers["gpu_minimum"], *drivers["gpu_advised"]} <= known
    assert {name for row in drivers["known_issues"] for name in row["gpus"]} <= known


def test_faults_end_before_they_are_fixed() -> None:
    for row in load("nccl")["known_bad"]:
        assert numbers(row["from"]) <= numbers(row["to"]) < numbers(row["fixed"]), row["id"]


def test_releases_of_a_branch_are_in_it() -> None:
    for name, row in load("drivers")["branches"].items():
        assert {version.partition(".")[0] for version in row["releases"]} == {name}
        assert row["releases"] == sorted(row["releases"], key=numbers)


def test_an_archive_has_releases_that_are_known() -> None:
    branches = load("drivers")["branches"]
    for platform in load("packages")["platforms"].values():
        for branch, version in platform.get("distro", {}).get("newest", {}).items():
            assert version in branches[branch]["releases"]


def test_every_platform_with_a_repository_has_names_for_its_driver() -> None:
    packages = load("packages")
    families = {row["family"] for row in packages["driver"] if row["origin"] == "nvidia"}
    assert {row["family"] for row in packages["platforms"].values()} <= families


def test_rules_use_predicates_that_exist() -> None:
    for name, row in load("coherence")["rules"].items():
        for _value, predicate, _operand in [*row.get("when", []), row["check"]]:
            assert predicate in PREDICATES, name


def test_data_files_are_checked() -> None:
    with_schema = {path.name.partition(".")[0] for path in Path(ROOT / "data" / "schemas").glob("*.json")}
    assert set(FILES) <= with_schema


def test_origins_and_layers_name_what_exists() -> None:
    packages, origins = load("packages"), load("origins")["origins"]
    assert {code for row in origins.values() for code in row.get("platforms", {})} <= set(packages["platforms"])
    parts = {"driver_pin", "driver", *packages["with_driver"], *packages["beside_driver"]}
    parts |= {"cuda_toolkit", "nccl", "container_toolkit", "kernel", "module"}
    named = [part for layer in packages["layers"].values() for part in layer]
    assert sorted(named) == sorted(parts), "each part is installed by one layer"
