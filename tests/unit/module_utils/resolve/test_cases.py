"""Cases of what people declare and of what machines show: tests/cases/resolve/{stack,profile}/*.yml."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import document
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve import problem, profile, stack
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import revision
from ansible_collections.trainrig.gpu.plugins.plugin_utils.lock_files import LOCKED_DATA

ROOT = Path(__file__).resolve().parents[4]
CASES = ROOT / "tests" / "cases" / "resolve"
TORCH = yaml.safe_load((ROOT / "data" / "torch.yml").read_text(encoding="utf-8"))
INVENTORY = ROOT / "inventories" / "local"
LOCK = yaml.safe_load((INVENTORY / document.NAME).read_text(encoding="utf-8"))
WHERE = "inventories/somewhere/group_vars/all.yml:7"


def cases(kind):
    found = sorted((CASES / kind).glob("*.yml"))
    assert found
    return [pytest.param(yaml.safe_load(path.read_text(encoding="utf-8")), id=path.stem) for path in found]


def agree(found, wanted):
    """Every part the case names: words for sentences, the exact value for the rest."""
    for key, value in wanted.items():
        if key in ("text", "fix"):
            assert not [word for word in value if word not in found[key]], found
        else:
            assert found[key] == value, found
    sentence = problem.message(found)
    assert sentence.startswith(f"{WHERE}: {found['key']}")
    assert "To fix it: " in sentence
    assert "?" not in sentence


@pytest.mark.parametrize("case", cases("stack"))
def test_stack(case):
    declared, problems = stack.validate(case["stack"], TORCH, WHERE)
    wanted = case.get("problems", [])
    assert [found["rule"] for found in problems] == [one["rule"] for one in wanted]
    for found, one in zip(problems, wanted):
        agree(found, one)
    if not wanted:
        assert declared == case["declared"]


@pytest.mark.parametrize("case", cases("profile"))
def test_profile(case):
    declared, problems = stack.validate(case["stack"], TORCH, WHERE)
    assert problems == []
    chosen = profile.select_profile(LOCK, declared, case["seen"], WHERE)
    if "problem" in case:
        assert chosen["profile"] is None
        assert chosen["problem"]
        agree(chosen["problem"], case["problem"])
        return
    assert chosen["problem"] is None
    assert chosen["profile"]["name"] == case["profile"]
    if "interpreter" in case:
        assert chosen["interpreter"] == case["interpreter"]
    for words in case.get("reasons", []):
        assert any(words in reason for reason in chosen["reasons"]), chosen["reasons"]


@pytest.mark.parametrize("inventory", ["local", "node", "prod"])
def test_a_committed_lock_is_whole_and_of_today_s_data(inventory):
    directory = INVENTORY.with_name(inventory)
    texts = {f"requirements/{path.name}": path.read_text("utf-8") for path in directory.glob("requirements/*.txt")}
    lock = yaml.safe_load((directory / document.NAME).read_text(encoding="utf-8"))
    assert document.problems(lock, texts) == []
    assert sorted(texts) == sorted(entry["requirements"]["file"] for entry in lock["profiles"])
    given = yaml.safe_load((directory / "group_vars/all.yml").read_text(encoding="utf-8"))
    pool, stack_, settings = (given.get(f"trainrig_{key}") for key in ("pool", "stack", "lock"))
    found = document.stale(lock, pool or profile.DEFAULT_POOL, stack_ or {}, settings, revision(LOCKED_DATA))
    assert found == [], "make it again with playbooks/lock.yml"


def test_the_committed_lock_names_no_address_and_no_path():
    for path in [INVENTORY / document.NAME, *INVENTORY.glob("requirements/*.txt")]:
        text = path.read_text(encoding="utf-8")
        assert "://" not in text
        assert "/opt/" not in text
        assert "--index" not in text
        assert "--find-links" not in text


def test_the_committed_lock_has_the_hashes_of_the_data():
    text = (INVENTORY / "requirements" / "cpu.txt").read_text(encoding="utf-8")
    hashes = [row["sha256"] for name, row in TORCH["wheels"].items() if name.endswith("x86_64.whl")]
    assert len(hashes) == 3
    assert all(f"--hash=sha256:{digest}" in text for digest in hashes)


@pytest.mark.parametrize(
    ("compiled", "capability", "answer"),
    [
        (["8.6"], "8.6", True),
        (["8.6"], "8.9", True),
        (["8.6"], "8.0", False),
        (["8.0"], "9.0", False),
        (["10.0"], "10.3", True),
        (["12.0+PTX"], "13.1", True),
        (["12.0"], "13.1", False),
        (["12.0+PTX"], "10.0", False),
    ],
)
def test_code_for_one_capability_runs_on_another(compiled, capability, answer):
    assert profile.runs_on(compiled, capability) is answer


def test_profiles_of_a_pool_are_for_it_alone():
    seen = {"platform": "linux-x86_64", "pythons": [("/usr/bin/python3", "3.12.3")], "gpus": [], "gpu_on_pci": False}
    declared = stack.validate({}, TORCH)[0]
    own = [{**row, "pool": "b", "name": "own"} for row in LOCK["profiles"] if row["name"] == "cpu"]
    lock = {"profiles": [*LOCK["profiles"], *own]}
    names = {
        pool: profile.select_profile(lock, declared, seen, pool=pool)["profile"]["name"]
        for pool in ("b", "c", "default")
    }
    assert names == {"b": "own", "c": "cpu", "default": "cpu"}
