"""The engine's promises: order, force, pools, unreachable hosts, rules that break."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose import registry
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.engine import diagnose, force_problems
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import ordered, verdict
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.build import empty

from tests.unit.module_utils.diagnose.bundles import DATA, TODAY


def gpu_without_driver() -> dict[str, Any]:
    observation: dict[str, Any] = dict(empty())
    observation["probes"] = {"lspci": {"status": "ok", "notes": []}}
    observation["os"] = {**observation["os"], "id": "ubuntu", "id_like": ["debian"]}
    observation["boot"] = {**observation["boot"], "modules": {"ext4": []}}
    device = {"address": "0000:41:00.0", "pci_class": "0302", "id": "10de:2330", "name": "GH100", "raw": "41:00.0 3D"}
    observation["pci"] = [device]
    return observation


def judge(fleet: dict[str, Any], **more: Any) -> list[Any]:
    return diagnose(more.pop("stack", None), None, fleet, DATA, TODAY, **more)


def test_a_gpu_without_driver_fails_with_the_next_command_of_this_system() -> None:
    (finding,) = judge({"n1": {"observation": gpu_without_driver()}})
    assert (finding["rule"], finding["severity"], finding["host"]) == ("driver.not_loaded", "fail", "n1")
    assert finding["action"]["kind"] == "install"
    assert "ubuntu-drivers install" in finding["action"]["text"]
    assert verdict([finding]) == "fail"


@pytest.mark.parametrize("stack", [{"accelerator": "cpu"}, {"driver": "none"}])
def test_no_driver_is_no_fault_where_none_is_wanted(stack: dict[str, Any]) -> None:
    assert judge({"n1": {"observation": gpu_without_driver()}}, stack=stack) == []


def test_a_hosts_own_stack_wins_over_the_common_one() -> None:
    fleet = {name: {"observation": gpu_without_driver()} for name in ("n1", "n2")}
    fleet["n2"]["stack"] = {"accelerator": "cpu"}
    assert [one["host"] for one in judge(fleet, stack={"accelerator": "nvidia"})] == ["n1"]


def test_an_unreachable_host_stops_its_pool_and_only_its_pool() -> None:
    fleet = {"n1": {"observation": empty(), "pool": "a"}, "n2": {"observation": None, "pool": "b"}}
    refused = [one for one in judge(fleet) if one["severity"] == "refuse"]
    assert [(one["rule"], one["host"], one["pool"]) for one in refused] == [("fleet.host_unreachable", "n2", "b")]
    assert not [one for one in judge(fleet, allow_missing=True) if one["severity"] == "refuse"]


def test_force_takes_rule_and_host_and_stays_visible() -> None:
    fleet = {"n1": {"observation": None}, "n2": {"observation": None}}
    findings = judge(fleet, force=["fleet.host_unreachable@n2"])
    assert [(one["host"], one["severity"]) for one in findings] == [("n1", "refuse"), ("n2", "warn")]
    assert "forced by trainrig_force: fleet.host_unreachable@n2" in findings[1]["summary"]


@pytest.mark.parametrize(
    "entry", ["fleet.host_unreachable", "@n1", "fleet.host_unreachable@", "no.rule@n1", "gpu.lost@n9"]
)
def test_a_wrong_force_entry_is_named(entry: str) -> None:
    assert entry in force_problems([entry], ["n1"])[0]


def test_force_turns_nothing_but_a_refusal() -> None:
    fleet = {"n1": {"observation": gpu_without_driver()}}
    assert judge(fleet, force=["driver.not_loaded@n1"])[0]["severity"] == "fail"


def test_order_is_severity_then_host_in_natural_order() -> None:
    fleet = {name: {"observation": gpu_without_driver()} for name in ("n10", "n9", "n1")}
    fleet["n2"] = {"observation": None}
    findings = judge(fleet)
    assert [one["host"] for one in findings] == ["n2", "n1", "n9", "n10"]
    assert ordered(reversed(findings)) == findings


def test_a_rule_that_breaks_is_a_warning_and_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_host: Any) -> Any:
        raise KeyError("shape")

    monkeypatch.setitem(registry.HOST_RULES, "gpu.lost", broken)
    found = {one["rule"]: one for one in judge({"n1": {"observation": gpu_without_driver()}})}
    assert found["diagnose.unjudged"]["severity"] == "warn"
    assert "driver.not_loaded" in found


def test_information_alone_is_a_pass() -> None:
    assert verdict([]) == "pass"
