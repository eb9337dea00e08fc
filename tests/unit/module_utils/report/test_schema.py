"""report.schema.json, both ways: what we write fits, and a report its readers could not rely on is refused."""

import copy

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.trainrig.gpu.plugins.plugin_utils.report_files import check

from tests.unit.module_utils.report.reports import report

GPU = {"driver": {"module": "1"}, "gpus": [{"name": "G", "model": None, "memory_mib": 80000}]}
WHOLE = report(
    {
        "a": {"observation": {"nvidia": GPU, "rdma": {"devices": [{"name": "m", "ports": [{"port": 1}]}]}}},
        "b": {"observation": None, "plan": None, "measurements": None},
        "c": {"findings": [{}], "failures": [{"layer": "pytorch", "task": None, "message": None}]},
    }
)

BREAKS = {
    "no verdict": lambda r: r.pop("verdict"),
    "a verdict nobody knows": lambda r: r.update(verdict="fine"),
    "another schema": lambda r: r.update(schema=2),
    "a local time": lambda r: r.update(finished="2026-01-02 03:04:05"),
    "an empty inventory name": lambda r: r.update(inventory=""),
    "an empty digest": lambda r: r.update(lock_digest=""),
    "no findings": lambda r: r.pop("findings"),
    "a finding without a cause": lambda r: r["findings"][0].pop("cause"),
    "a severity nobody knows": lambda r: r["findings"][0].update(severity="error"),
    "an action nobody knows": lambda r: r["findings"][0]["action"].update(kind="pray"),
    "evidence without a probe": lambda r: r["findings"][0].update(evidence=[{"text": "x"}]),
    "a host in a state nobody knows": lambda r: r["hosts"]["a"].update(state="fine"),
    "a host without a plan": lambda r: r["hosts"]["a"].pop("plan"),
    "a layer in a state nobody knows": lambda r: r["hosts"]["a"]["plan"]["layers"][0].update(state="new"),
    "an unknown memory that is text": lambda r: r["hosts"]["a"]["observation"].update(memory_mib=""),
    "a measurement without a status": lambda r: r["measurements"][0].pop("status"),
    "a bandwidth that is text": lambda r: r["measurements"][0].update(busbw_gb_s="3 GB/s"),
    "a smoke without its losses": lambda r: r["measurements"][1].pop("loss_last"),
    "a smoke that says yes in words": lambda r: r["measurements"][1].update(resumed="yes"),
    "a reason without what was left out": lambda r: r.update(left_out=[{"why": "x", "hosts": []}]),
    "an amount that is a list": lambda r: r["hosts"]["a"]["acceptance"][0].update(delivered=[1]),
    "a state of an order nobody knows": lambda r: r["hosts"]["a"]["acceptance"][0].update(status="fine"),
    "a topology without groups": lambda r: r["hosts"]["a"]["observation"].update(topology={"nvlink": None}),
    "nothing to type": lambda r: r.pop("next"),
    "a step without text": lambda r: r["next"]["commands"].append({"text": "", "hosts": [], "because": None}),
}


def test_what_is_written_fits():
    check(WHOLE)


def test_names_may_be_added():
    added = copy.deepcopy(WHOLE)
    added["more"] = added["findings"][0]["more"] = added["measurements"][0]["wrong"] = added["next"]["more"] = 1
    check(added)


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_report_is_refused(name):
    broken = copy.deepcopy(WHOLE)
    BREAKS[name](broken)
    with pytest.raises(AnsibleActionFail, match="not written, it does not fit"):
        check(broken)
