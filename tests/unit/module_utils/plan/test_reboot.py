"""The reboot barrier: what is pending, what waits for the driver, and which layers a run goes through."""

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.plan import reboot

RECORD = {"schema": 1, "boot_id": "a", "reasons": ["driver: installed"]}
LOADED = {"nvidia": {"driver": {"module": "1.2"}}}


@pytest.mark.parametrize(
    ("record", "boot_id", "expected"),
    [
        (RECORD, "a", ["driver: installed"]),
        (RECORD, "b", []),
        (RECORD, None, ["driver: installed"]),
        ({**RECORD, "reasons": []}, "a", ["a change waits for it"]),
        (None, "a", []),
        ("odd", "a", []),
    ],
)
def test_a_record_of_another_boot_is_void(record, boot_id, expected):
    assert reboot.pending({"pending_reboot": record, "boot": {"boot_id": boot_id}}) == expected


@pytest.mark.parametrize(
    ("needs", "observation", "comes", "waits"),
    [
        ([], {}, False, False),
        (["loaded_driver"], LOADED, False, False),
        (["loaded_driver"], {}, True, False),
        (["loaded_driver"], {}, False, True),
        (["loaded_driver"], {"nvidia": {"driver": None}}, False, True),
    ],
)
def test_only_what_needs_a_driver_waits_for_it(needs, observation, comes, waits):
    assert bool(reboot.deferral(needs, observation, comes)) is waits


def test_the_reason_to_wait_names_the_reboot():
    text = reboot.deferral(["loaded_driver"], {"pending_reboot": RECORD, "boot": {"boot_id": "a"}}, False)
    assert text is not None and text.endswith("a reboot is pending (driver: installed)")


ROWS = [{"layer": "sources"}, {"layer": "driver", "barrier": True}, {"layer": "nvlink"}, {"layer": "pytorch"}]
ALL = [row["layer"] for row in ROWS]


@pytest.mark.parametrize(
    ("dirty", "due", "chosen", "expected"),
    [
        ([], False, ALL, []),
        (["sources", "pytorch"], False, ALL, ["sources", "pytorch"]),
        (["driver"], False, ALL, ["driver", "nvlink", "pytorch"]),
        ([], True, ALL, ["driver", "nvlink", "pytorch"]),
        (["sources"], True, ["sources"], ["sources"]),
        (["sources"], True, ["sources", "driver"], ["sources", "driver"]),
    ],
)
def test_from_a_barrier_on_every_layer_is_looked_at_again(dirty, due, chosen, expected):
    assert reboot.steps(ROWS, dirty, due, chosen) == expected


def plan(states, verify, steps=()):
    layers = [{"layer": name, "state": state, "digest": f"{name} {verify}"} for name, state in zip(ALL, states)]
    due = {
        "due": bool(verify),
        "reasons": verify,
        "record": {"boot_id": str(verify)},
        "carried": None if verify else {},
    }
    dirty = [row["layer"] for row in layers if row["state"] == "dirty"]
    return {"layers": layers, "dirty": dirty, "steps": list(steps), "reboot": [], "verify": due}


def test_after_the_barrier_the_new_plan_counts_and_before_it_the_old_one():
    before = plan(["clean", "dirty", "clean", "dirty"], ["layer driver changes"], ["driver", "nvlink", "pytorch"])
    now = plan(["dirty", "clean", "dirty", "clean"], [])
    joined = reboot.joined(before, now, "driver")
    assert [row["state"] for row in joined["layers"]] == ["clean", "dirty", "dirty", "clean"]
    assert joined["dirty"] == ["driver", "nvlink"]
    assert joined["layers"][2]["digest"] == "nvlink []", "planned with the node as it is after the barrier"
    assert joined["steps"] == ["driver", "nvlink", "pytorch"]
    verify = joined["verify"]
    assert (verify["due"], verify["reasons"], verify["carried"]) == (True, ["layer driver changes"], None)
    assert verify["record"] == {"boot_id": "[]"}, "of the boot that is verified"


def test_what_still_stands_is_carried_over_a_barrier_that_changed_nothing():
    joined = reboot.joined(plan(["clean"] * 4, []), plan(["clean"] * 4, []), "driver")
    assert (joined["verify"]["due"], joined["verify"]["carried"], joined["verify"]["left_out"]) == (False, {}, False)
