"""The lock: whole or not, what changed, which wheels a machine gets, which profiles a declaration means."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import document, wheels, wishes
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.difference import difference as told
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.stack import validate

DATA = Path(__file__).resolve().parents[4] / "data"
TORCH, DRIVERS, GPUS = (
    yaml.safe_load((DATA / f"{name}.yml").read_text(encoding="utf-8")) for name in ("torch", "drivers", "gpus")
)
HASH = "--hash=sha256:" + "ab" * 32
TEXT = f"alpha==1.0 \\\n    {HASH}\nbeta==2.0 {HASH}\n"


def lock(text=TEXT, systems=(), stack=None, **changes):
    profile = {
        "name": "cpu",
        "pool": "default",
        "platform": "linux-x86_64",
        "python": ["3.11"],
        "accelerator": "cpu",
        "gpu_driver_min": {},
        "pytorch": {"version": "9.1.0", "variant": "cpu"},
        "requirements": {"file": "requirements/cpu.txt", "sha256": document.sha256(text)},
        **changes,
    }
    declared = [document.declaration("default", stack or {"pytorch": "9.1"})]
    made = {"index_date": "2026-01-01T00:00:00Z", "data_revision": "aa", "sources": []}
    made.update(asked=document.asked({"profiles": [{"name": "cpu"}]}), declared=declared)
    return document.sealed({**made, "profiles": [profile], "systems": list(systems)})


TEXTS = {"requirements/cpu.txt": TEXT}
SYSTEM = {
    "name": "default-debian13-x86_64",
    "pool": "default",
    "platform": "debian13-x86_64",
    "resolution": {},
    "install": {},
    "origins": [],
    "packages": [],
    "remove": [],
    "conflicts": [],
}


def rules(content, texts=None):
    return [found["rule"] for found in document.problems(content, TEXTS if texts is None else texts)]


def test_a_whole_lock():
    assert rules(lock()) == []


def test_the_digest_does_not_depend_on_order():
    content = lock()
    assert document.digest(dict(reversed(list(content.items())))) == content["digest"]


@pytest.mark.parametrize("content", [None, {}, [], {"profiles": []}, {"profiles": "x"}, "text"])
def test_what_is_no_lock(content):
    assert rules(content) == ["lock.unreadable"]


def test_another_schema():
    assert rules({**lock(), "schema": 2}) == ["lock.schema"]


def test_edited_by_hand():
    content = copy.deepcopy(lock())
    content["profiles"][0]["pytorch"]["version"] = "9.2.0"
    assert rules(content) == ["lock.digest"]


def test_a_requirement_file_edited_or_gone():
    assert rules(lock(), {"requirements/cpu.txt": TEXT + "\n"}) == ["lock.file_changed"]
    assert rules(lock(), {}) == ["lock.file_missing"]


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("declared", None, "declared"),
        ("profiles", [{"name": "cpu"}], "profiles.pool"),
        ("profiles", ["cpu"], "profiles"),
        ("systems", {}, "systems"),
        ("systems", [{"name": "x"}], "systems.pool"),
        ("systems", ["x"], "systems"),
        ("systems", [{**SYSTEM, "packages": ["x"]}], "systems.packages"),
        ("systems", [{**SYSTEM, "origins": [{"id": 5}]}], "systems.origins.id"),
        ("data_revision", 7, "data_revision"),
    ],
)
def test_made_by_somebody_else(key, value, named):
    """The digest is right, the content is not: no reader may stumble over it."""
    found = document.problems(document.sealed({**lock(), key: value}), TEXTS)
    assert [(one["rule"], one["key"]) for one in found] == [("lock.unreadable", named)]


def test_two_profiles_of_one_name():
    content = lock()
    assert rules(document.sealed({**content, "profiles": content["profiles"] * 2})) == ["lock.unreadable"]


@pytest.mark.parametrize(
    ("stack", "found"),
    [
        ({"pytorch": "9.1"}, []),
        ({"pytorch": " 9.1 ", "python": "auto", "gpus": []}, []),
        ({"pytorch": "9.2"}, ["lock.declaration_changed"]),
        ({}, ["lock.declaration_changed"]),
        ({"pytorch": "9.1", "platforms": ["debian13-x86_64"]}, ["lock.declaration_changed"]),
    ],
)
def test_what_was_declared_afterwards(stack, found):
    settings = {"profiles": [{"name": "cpu"}], "index_date": "2026-02-02"}
    assert [one["rule"] for one in document.stale(lock(), "default", stack, settings, "aa")] == found


def test_one_declaration_has_one_spelling():
    assert document.said({"fabric_manager": False, "gpus": ["b", "a", "a"], "driver": " 550 ", "python": "auto"}) == {
        "driver": "550",
        "fabric_manager": "off",
        "gpus": ["a", "b"],
    }


@pytest.mark.parametrize(
    ("pool", "settings", "revision", "rule"),
    [
        ("other", {"profiles": [{"name": "cpu"}]}, "aa", "lock.declaration_changed"),
        ("default", {"profiles": []}, "aa", "lock.settings_changed"),
        ("default", None, "aa", "lock.settings_changed"),
        ("default", {"profiles": [{"name": "cpu"}]}, "bb", "lock.data_changed"),
    ],
)
def test_what_else_was_changed_afterwards(pool, settings, revision, rule):
    found = document.stale(lock(), pool, {"pytorch": "9.1"}, settings, revision)
    assert [one["rule"] for one in found] == [rule]


def difference(new, text=TEXT):
    return told(lock(), new, TEXTS, {"requirements/cpu.txt": text})


def test_no_difference():
    assert difference(lock()) == []


def test_the_first_lock():
    assert told({}, lock(), {}, TEXTS) == ["new lock with 1 profiles: cpu"]


def test_differences_as_a_person_tells_them():
    text = f"alpha==1.1 {HASH}\ngamma==3.0 {HASH}\n"
    assert difference(lock(text, pool="other"), text) == [
        "profile cpu: pool: default -> other",
        "profile cpu: package alpha 1.0 -> 1.1",
        "profile cpu: package beta 2.0 is gone",
        "profile cpu: package gamma 3.0 is new",
    ]
    other = TEXT.replace("ab", "cd", 1)
    assert difference(lock(other), other) == ["profile cpu: package alpha 1.0: other files (hashes or markers changed)"]
    assert difference(lock(name="gpu")) == ["profile cpu: removed", "profile gpu: new, PyTorch 9.1.0 cpu"]


@pytest.mark.parametrize(
    ("file", "python", "platform", "answer"),
    [
        ("a-1-py3-none-any.whl", "3.11", "linux-x86_64", True),
        ("a-1-py2.py3-none-any.whl", "3.11", "linux-aarch64", True),
        ("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", "3.11", "linux-x86_64", True),
        ("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", "3.12", "linux-x86_64", False),
        ("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", "3.11", "linux-aarch64", False),
        ("a-1-cp310-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "3.13", "linux-x86_64", True),
        ("a-1-cp312-abi3-manylinux_2_17_x86_64.whl", "3.11", "linux-x86_64", False),
        ("a-1-cp313-cp313t-manylinux_2_28_x86_64.whl", "3.13", "linux-x86_64", False),
        ("a-1-cp311-cp311-musllinux_1_2_x86_64.whl", "3.11", "linux-x86_64", False),
        ("a-1-cp311-cp311-macosx_11_0_arm64.whl", "3.11", "linux-aarch64", False),
        ("a-1-cp311-cp311-win_amd64.whl", "3.11", "linux-x86_64", False),
        ("a-1-1build-py3-none-manylinux_2_27_x86_64.whl", "3.11", "linux-x86_64", True),
        ("a-1.tar.gz", "3.11", "linux-x86_64", False),
    ],
)
def test_which_wheel_fits(file, python, platform, answer):
    assert wheels.fits(file, python, platform) is answer


PYLOCK = {
    "packages": [
        {
            "name": "Numpy",
            "version": "2.4.6",
            "marker": "python_full_version == '3.11.*'",
            "wheels": [
                {
                    "url": "https://x/numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl",
                    "size": 5,
                    "hashes": {"sha256": "a"},
                }
            ],
        },
        {"name": "numpy", "version": "2.5.5", "marker": "python_full_version >= '3.12'", "wheels": []},
        {
            "name": "torch",
            "version": "2.13.0+cpu",
            "wheels": [{"url": "file:///w/torch-2.13.0%2Bcpu-cp311-cp311-linux_x86_64.whl", "hashes": {"sha256": "b"}}],
        },
        {"name": "colorama", "version": "0.4", "marker": "sys_platform == 'win32'", "wheels": []},
    ]
}


def test_what_a_machine_gets():
    offered = wheels.offered(PYLOCK)
    assert [wheel.file for wheel in offered] == [
        "numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl",
        "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl",
    ]
    chosen = wheels.selected(PYLOCK, offered, "3.11", "linux-x86_64")
    assert {name: len(found) for name, found in chosen.items()} == {"numpy": 1, "torch": 1}
    chosen = wheels.selected(PYLOCK, offered, "3.12", "linux-x86_64")
    assert {name: len(found) for name, found in chosen.items()} == {"numpy": 0, "torch": 0}


def test_known_hashes_join_and_contradictions_are_told():
    rows = {
        "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl": {"sha256": "other"},
        "torch-2.13.0+cpu-cp312-cp312-linux_x86_64.whl": {"sha256": "c"},
        "torch-2.12.0+cpu-cp312-cp312-linux_x86_64.whl": {"sha256": "d"},
    }
    known = wheels.known(rows, "torch", "2.13.0+cpu")
    assert [wheel.sha256 for wheel in known] == ["other", "c"]
    assert len(wheels.contradictions(wheels.offered(PYLOCK), known)) == 1
    assert wheels.contradictions(wheels.offered(PYLOCK), known[1:]) == []


def meant(**stack):
    declared, problems = validate(stack, TORCH)
    assert problems == []
    return [(wish["pytorch"], wish["variant"]) for wish in wishes.from_stack(declared, TORCH)]


def test_what_a_declaration_means():
    newest = max(TORCH["releases"], key=lambda version: [int(part) for part in version.split(".")])
    found = meant()
    assert found[0] == (newest, "cpu")
    assert found[1] == (newest, TORCH["releases"][newest]["default"]["variant"])
    assert len(found) == 3, "one more for older drivers"
    assert meant(accelerator="cpu") == [(newest, "cpu")]
    assert meant(accelerator="nvidia", pytorch="2.13") == [("2.13.0", "cu130")]
    assert meant(pytorch="2.13.0", variant="cu126") == [("2.13.0", "cu126")]
    assert meant(accelerator="nvidia")[1] == ("2.10.0", "cu128")


def test_every_wish_that_is_meant_can_be_locked():
    for wish in wishes.from_stack(validate({}, TORCH)[0], TORCH):
        assert wishes.problem(wish, TORCH, "") is None


@pytest.mark.parametrize(
    ("wish", "key"),
    [
        ({"name": "x", "pytorch": "9.9.9", "variant": "cpu"}, "pytorch"),
        ({"name": "x", "pytorch": "2.13", "variant": "cpu"}, "pytorch"),
        ({"name": "x", "pytorch": "2.13.0", "variant": "cu128"}, "variant"),
        ({"name": "x", "pytorch": "2.13.0", "variant": "cpu", "python": ["3.9"]}, "python"),
        ({"name": "x", "pytorch": "2.13.0", "variant": "cpu", "platform": "darwin-arm64"}, "platform"),
    ],
)
def test_wishes_that_cannot_be_met(wish, key):
    found = wishes.problem(wish, TORCH, "here")
    assert found
    assert found["key"] == f"trainrig_lock.profiles.x.{key}"


def test_what_a_profile_needs_comes_from_the_data():
    made = wishes.profile({"name": "x", "pytorch": "2.13.0", "variant": "cu130"}, TORCH, DRIVERS, GPUS)
    assert made["accelerator"] == "nvidia"
    assert made["driver_min"] == TORCH["variants"]["cu130"]["driver_min"]
    assert made["gpu_driver_min"]["B300"] == DRIVERS["gpu_minimum"]["B300"]["driver"]
    assert "L40S" not in made["gpu_driver_min"], "an older proprietary driver may serve it"
    assert made["python"] == TORCH["releases"]["2.13.0"]["python"]["x86_64"]
    less = copy.deepcopy(TORCH)
    del less["lines"]["2.13"]["cu130"]["compute_capabilities"]
    assert (
        wishes.profile({"name": "x", "pytorch": "2.13.0", "variant": "cu130"}, less, DRIVERS, GPUS)[
            "compute_capabilities"
        ]
        is None
    )


def test_how_a_wheel_is_asked_for():
    assert wishes.requirement("2.13.0", "cu130", TORCH) == "torch==2.13.0"
    assert wishes.requirement("2.13.0", "cu126", TORCH) == "torch==2.13.0+cu126"
    assert wishes.requirement("2.13.0", "cpu", TORCH) == "torch==2.13.0+cpu"
