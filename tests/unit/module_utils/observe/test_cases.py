"""Bundles and the facts a person reads in them: tests/cases/observe/<case>/{bundle/,expected.yml}.

A key of expected.yml is a place in the Observation: names and positions with dots, `*` for every item of a list.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, enrich, probes, source
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

CASES = Path(__file__).resolve().parents[3] / "cases" / "observe"
NAMES = sorted(path.parent.name for path in CASES.glob("*/expected.yml"))


def observed(case: str) -> dict[str, Any]:
    outputs = source.BundleSource(CASES / case / "bundle").read(probes.table().values())
    return enrich.enrich(build.build(outputs), load("gpus"))  # type: ignore[return-value]


def at(value: Any, path: str) -> Any:
    """The value at a place; a name that itself holds dots is tried whole first."""
    if not path:
        return value
    if isinstance(value, dict):
        for end in range(path.count(".") + 1, 0, -1):
            name, rest = ".".join(path.split(".")[:end]), ".".join(path.split(".")[end:])
            if name in value:
                return at(value[name], rest)
        raise KeyError(path)
    name, _, rest = path.partition(".")
    return [at(item, rest) for item in value] if name == "*" else at(value[int(name)], rest)


@pytest.mark.parametrize("case", NAMES)
def test_bundle_shows_what_a_person_reads(case):
    observation = observed(case)
    expected = yaml.safe_load((CASES / case / "expected.yml").read_text(encoding="utf-8"))
    assert {path: at(observation, path) for path in expected} == expected


@pytest.mark.parametrize("case", NAMES)
def test_saved_outputs_read_again_are_the_same_observation(case, tmp_path):
    outputs = source.BundleSource(CASES / case / "bundle").read(probes.table().values())
    source.write_bundle(tmp_path, outputs)
    again = source.BundleSource(tmp_path).read(probes.table().values())
    assert again == outputs
    assert build.build(again) == build.build(outputs)


@pytest.mark.parametrize("case", NAMES)
def test_observation_is_json_and_has_every_name(case):
    observation = observed(case)
    assert json.loads(json.dumps(observation)) == observation
    assert set(build.empty()) <= set(observation)
    assert set(observation["probes"]) == set(probes.table())


def test_model_comes_from_the_data_alone():
    gpus = copy.deepcopy(load("gpus"))
    del gpus["gpus"]["L40S"]
    outputs = source.BundleSource(CASES / "lost_gpu" / "bundle").read(probes.table().values())
    observation = enrich.enrich(build.build(outputs), gpus)
    assert [gpu["model"] for gpu in observation["nvidia"]["gpus"] or []] == [None] * 4
