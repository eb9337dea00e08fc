"""The plan as people read it."""

from ansible_collections.trainrig.gpu.plugins.module_utils.plan.summary import (
    drifted,
    plan_lines,
    site_command,
    trouble,
)

DIRTY = {
    "layer": "pytorch",
    "state": "dirty",
    "reasons": ["package numpy missing"],
    "minutes": 3,
    "download_bytes": 2.6e9,
}
CLEAN = {"layer": "pytorch", "state": "clean", "reasons": []}
STANDS = {"due": False, "reasons": [], "minutes": 2, "carried": {"verdict": "pass", "at": "2026-01-02T03:04:05Z"}}
DUE = {"due": True, "reasons": ["layer pytorch changes"], "minutes": 2, "carried": None}


def test_a_dirty_layer_is_shown_with_its_reason_and_its_price():
    text = "\n".join(plan_lines({"n1": {"layers": [DIRTY], "verify": DUE}}))
    assert "dirty, about 3 min, downloads up to 2.6 GB" in text
    assert "package numpy missing" in text
    assert "due, about 2 min" in text
    assert "To do on 1 of 1 host(s)" in text


def test_a_clean_fleet_says_so_and_when_it_was_verified():
    text = "\n".join(plan_lines({"n1": {"layers": [CLEAN], "verify": STANDS}}))
    assert "Nothing to do" in text
    assert "last verdict pass, 2026-01-02T03:04:05Z" in text


def test_the_choice_of_the_profile_is_explained():
    text = "\n".join(
        plan_lines({"n1": {"layers": [CLEAN], "verify": STANDS}}, {"n1": ["the CPU, because no GPU", "Python 3.12"]})
    )
    assert "  chosen       the CPU, because no GPU\n               Python 3.12" in text


def test_an_unreached_host_is_never_called_clean():
    plans = {"n1": {"layers": [CLEAN], "verify": STANDS}, "n2": None}
    lines = plan_lines(plans, missing={"n2": "not reached: Connection refused"})
    assert drifted(plans) == {}
    assert "n2  not reached: Connection refused" in lines
    assert lines[-1] == "Incomplete: nothing is known of n2. Nothing to do: every layer is clean on 1 host(s)."


def test_how_a_plan_ends():
    clean, dirty = {"layers": [CLEAN], "verify": STANDS}, {"layers": [DIRTY], "verify": DUE}
    assert trouble({"n1": dirty, "n2": None}, [], strict=False) is None
    assert trouble({"n1": clean}, [], strict=True) is None
    assert trouble({"n1": dirty, "n2": clean}, [], strict=True) == "strict=true and there is drift on: n1"
    assert trouble({"n1": clean, "n2": None}, [], strict=True) == "strict=true and nothing is known of: n2"
    both = "strict=true and there is drift on: n1 and nothing is known of: n2"
    assert trouble({"n1": dirty, "n2": None}, [], strict=True) == both
    assert trouble({"n1": None, "n2": None}, [], strict=False) == "there is no plan: nothing could be read of n1, n2"
    assert trouble({"n1": clean, "n2": None}, ["n2"], strict=False) == "the look failed on: n2"


def test_without_any_host_there_is_no_plan():
    assert plan_lines({"n1": None})[-1].startswith("There is no plan")


def test_a_refusal_is_said_instead_of_what_to_type():
    text = plan_lines({"n1": {"layers": [DIRTY], "verify": DUE}}, refusals=2)[-1]
    assert "would refuse" in text and "make site" not in text


def test_the_command_names_every_inventory_and_the_limit():
    assert site_command([]) == "make site"
    assert site_command(["inventories/a"]) == "make site INVENTORY=inventories/a"
    assert site_command(["inventories/a"], "n1") == "make site INVENTORY=inventories/a ARGS='--limit n1'"
    assert site_command(["a", "b"], "n1") == "make site INVENTORY=a ARGS='-i b --limit n1'"
