"""When is the verification due? Each reason alone, and the healthy case that stays silent."""

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.decide import verification_record
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.digest import digest
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.verification import due_reasons

INPUTS = {"code": {"a": "1"}, "options": {"verify_nproc": 0}}
RECORD = {
    "verdict": "pass",
    "measurements": [{"stage": "ddp"}],
    "boot_id": "b-1",
    "members": ["n1", "n2"],
    "subject": "/p/env/bin/python",
    "inputs_digest": digest(INPUTS),
}
NOW = {
    "record": RECORD,
    "dirty": [],
    "boot_id": "b-1",
    "members": ["n1", "n2"],
    "subject": "/p/env/bin/python",
    "inputs": INPUTS,
}


def test_a_pass_stands_while_nothing_changed():
    assert due_reasons(**NOW) == []
    assert due_reasons(**{**NOW, "record": {**RECORD, "verdict": "warn"}}) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"record": None}, "no pass is on record"),
        ({"record": {**RECORD, "verdict": "fail"}}, "the last verdict was fail"),
        ({"record": {**RECORD, "verdict": "incomplete"}}, "the last verdict was incomplete"),
        ({"dirty": ["pytorch"]}, "layer pytorch changes"),
        ({"boot_id": "b-2"}, "the machine was booted since"),
        ({"boot_id": None}, "the machine was booted since"),
        ({"members": ["n1"]}, "the set of hosts changed"),
        ({"subject": "/other/python"}, "another environment is verified: /p/env/bin/python -> /other/python"),
        ({"inputs": {**INPUTS, "options": {}}}, "the verification itself or its options changed"),
        ({"record": {**RECORD, "measurements": []}}, "the last result measured nothing"),
        ({"torch_error": "EOFError: marshal"}, "torch cannot be imported: EOFError: marshal"),
        ({"policy": "always"}, "asked for by trainrig_verify=always"),
    ],
)
def test_each_change_makes_it_due(change, reason):
    assert due_reasons(**{**NOW, **change}) == [reason]


@pytest.mark.parametrize(
    "results",
    [
        None,
        ["a"],
        {"verify": "x"},
        {"verify": {"at": 5, "measurements": [], "findings": []}},
        {"verify": {"at": "t", "measurements": "x", "findings": []}},
        {"verify": {"at": "t", "measurements": [], "findings": [1]}},
    ],
)
def test_a_record_of_another_shape_is_no_record(results):
    assert verification_record({"results": results}, "verify") is None
    sound = {"at": "t", "measurements": [{}], "findings": []}
    assert verification_record({"results": {"verify": sound}}, "verify") == sound
