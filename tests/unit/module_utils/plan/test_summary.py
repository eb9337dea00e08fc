"""The plan as people read it."""

from ansible_collections.trainrig.gpu.plugins.module_utils.plan.summary import drifted, plan_lines, site_command

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
    assert drifted(plans) == {"n2": ["unreachable"]}
    assert "n2  not reached" in "\n".join(plan_lines(plans))


def test_a_refusal_is_said_instead_of_what_to_type():
    text = plan_lines({"n1": {"layers": [DIRTY], "verify": DUE}}, refusals=2)[-1]
    assert "would refuse" in text and "make site" not in text


def test_the_command_names_every_inventory_and_the_limit():
    assert site_command([]) == "make site"
    assert site_command(["inventories/a"]) == "make site INVENTORY=inventories/a"
    assert site_command(["inventories/a"], "n1") == "make site INVENTORY=inventories/a ARGS='--limit n1'"
    assert site_command(["a", "b"], "n1") == "make site INVENTORY=a ARGS='-i b --limit n1'"
