"""What holds for every question: answers stand up to an independent judge, wishes narrow, lost rows break nothing."""

from __future__ import annotations

from datetime import date

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.answer import FILES
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.keys import BY_NAME, NAMES
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.search import Search, Stages
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.reference_fit import wrong
from tests.unit.module_utils.resolve.questions import DATA, TODAY, answer, question

TORCH, DRIVERS = DATA["torch"], DATA["drivers"]
NVIDIA = sorted(name for name, row in DATA["gpus"]["gpus"].items() if row["vendor"] == "nvidia")
RELEASES = [version for branch in DRIVERS["branches"].values() for version in branch["releases"]]
#: Values of each key; `accelerator` and a CPU variant are not among them: they choose another kind of machine.
VALUES = {
    "driver": [*DRIVERS["branches"], *RELEASES, "keep"],
    "kernel_module": ["open", "proprietary"],
    "cuda": sorted({name[:4] for name in DRIVERS["cuda_toolkits"]}),
    "cudnn": ["9.10.2.21", "9.20.0.48"],
    "nccl": ["2.19.3", "2.22.3", "2.27.5", "2.28.9", "2.29.7"],
    "pytorch": [*TORCH["releases"], *TORCH["lines"], ">=2.6", ">=2.1,<2.11"],
    "variant": [name for name in TORCH["variants"] if name != "cpu"],
    "tensorflow": [*DATA["tensorflow"]["releases"], ">=2.15"],
    "python": ["3.8", "3.10", "3.11", "3.12", "3.13", "3.14"],
    "fabric_manager": ["off"],
    "origin": ["distro", "nvidia"],
}
INSTALLED = st.fixed_dictionaries(
    {},
    optional={
        "driver": st.sampled_from(RELEASES),
        "library": st.sampled_from(RELEASES),
        "module": st.sampled_from(["open", "proprietary"]),
        "pythons": st.lists(st.sampled_from(["3.9.2", "3.11.4", "3.12.3", "3.13.1"]), max_size=2, unique=True),
    },
)


@st.composite
def questions(draw):
    keys = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=4, unique=True))
    return {
        "stack": {key: draw(st.sampled_from(VALUES[key])) for key in keys},
        "gpus": draw(st.lists(st.sampled_from(NVIDIA), min_size=1, max_size=2)),
        "platform": draw(st.sampled_from(sorted(DATA["packages"]["platforms"])))
        + draw(st.sampled_from(["-x86_64", "-sbsa"])),
        "today": draw(st.dates(date(2025, 1, 1), date(2029, 12, 31))).isoformat(),
        "installed": draw(INSTALLED),
    }


def works(case):
    asked, problems = question(case)
    assert problems == []
    return Search(asked, Stages(asked, DATA)).answer() is not None


FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FEW
@given(questions())
def test_a_resolution_stands_up_to_an_independent_judge(case):
    found = answer(case)
    answers = [found, *found["alternatives"]] if not found["ok"] else [found]
    for one in answers[0 if found["ok"] else 1 :]:
        without = one.get("changes", {}).get("accelerator") == "cpu"
        off = case["stack"].get("fabric_manager") == "off" and "fabric_manager" not in one.get("changes", {})
        troubles = wrong(one, [] if without else case["gpus"], case["platform"], DATA)
        assert not [text for text in troubles if not (off and "fabric manager" in text)], (troubles, one["resolution"])


@FEW
@given(questions(), st.sampled_from(sorted(VALUES)), st.data())
def test_one_more_wish_never_turns_refused_into_allowed(case, key, data):
    case["stack"].pop(key, None)
    more = {**case, "stack": {**case["stack"], key: data.draw(st.sampled_from(VALUES[key]))}}
    if works(more):
        assert works(case), more["stack"]


@FEW
@given(questions())
def test_one_more_gpu_never_turns_refused_into_allowed(case):
    more = {**case, "gpus": [*case["gpus"], "L40S"]}
    if works(more):
        assert works(case)


def rows(table, path=()):
    """The rows of a file: entries of its tables and of its lists."""
    for key, value in table.items():
        if key not in ("schema", "sources"):
            entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            yield from ((*path, key, name) for name, row in entries if isinstance(row, dict))


def without(table, path):
    """A copy that lacks one row and shares the rest."""
    key, *rest = path
    if rest:
        copy = dict(table) if isinstance(table, dict) else list(table)
        copy[key] = without(table[key], rest)
        return copy
    if isinstance(table, dict):
        return {name: value for name, value in table.items() if name != key}
    return [value for number, value in enumerate(table) if number != key]


ROWS = [(name, path) for name in FILES if name not in ("coherence", "host_compilers") for path in rows(DATA[name])]
CASE = {"stack": {}, "gpus": ["V100_SXM2", "L40S"], "platform": "debian13-x86_64", "today": TODAY}
OTHER = {"stack": {"tensorflow": "2.21", "driver": "580"}, "gpus": ["B200"], "platform": "ubuntu2404-x86_64"}


@pytest.mark.parametrize("case", [CASE, OTHER], ids=["auto", "declared"])
def test_a_lost_row_changes_or_refuses_and_never_crashes(case):
    whole = answer(case)
    assert whole["ok"]
    changed = set()
    for name, path in ROWS[:: 1 if case is CASE else 4]:
        data = {**DATA, name: without(DATA[name], path)}
        _question, problems = question(case, data)
        found = None if problems else answer(case, data)
        if found != whole:
            changed.add((name, *path))
    made = whole["resolution"]
    version = made["pytorch"]["version"]
    line = ".".join(version.split(".")[:2])
    used = {
        ("torch", "releases", version),
        ("torch", "lines", line),
        ("torch", "variants", made["pytorch"]["variant"]),
        ("drivers", "branches", made["driver"]["branch"]),
        *(("gpus", "gpus", gpu) for gpu in case["gpus"]),
        ("packages", "platforms", case["platform"].partition("-")[0]),
    }
    assert used <= changed or case is not CASE


def test_every_key_has_values_here_or_means_nothing_to_the_rules():
    left_out = {"accelerator", "module_build", "kernel", "container_toolkit"}
    assert set(VALUES) | left_out == set(NAMES)
    assert not [key for key in VALUES if set(VALUES[key]) & {BY_NAME[key].words[0]} - {"nvidia"}]
