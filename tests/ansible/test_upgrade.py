"""Upgrades through the real playbooks: order, canary, hooks, the stop at the first bad host, the barrier."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.simulated_layers import LAYERS, Fleet, copy

BASE, DRIVER, AFTER, LAST = LAYERS


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy(tmp_path_factory.mktemp("checkout") / "trainrig")


@pytest.fixture
def fleet(checkout: Path, tmp_path: Path) -> Fleet:
    """Four hosts in two pools. Hooks write a line each: a simulated scheduler."""
    word = [
        "python3",
        "-c",
        "import sys; print(*sys.argv[2:], file=open(sys.argv[1], 'a'))",
        f"{tmp_path}/simulated_log",
    ]
    hooks: dict[str, Any] = {
        "trainrig_drain": [*word, "drain", "{{ inventory_hostname }}"],
        "trainrig_uncordon": {"command": [*word, "uncordon", "{{ inventory_hostname }}"], "on": "node"},
    }
    pools = {"n1": "a", "n2": "a", "n3": "b", "n4": "b"}
    hosts = {name: {"trainrig_pool": pool} for name, pool in pools.items()}
    return Fleet(checkout, tmp_path, hosts=hosts, variables=hooks)


def log(fleet: Fleet) -> list[str]:
    path = fleet.directory / "simulated_log"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def turn(name: str) -> list[str]:
    return [f"drain {name}", f"uncordon {name}"]


@pytest.mark.slow
def test_canaries_then_batches_each_drained_and_given_back_and_a_clean_host_is_left_alone(fleet: Fleet) -> None:
    first = fleet.play("playbooks/upgrade.yml", "-e", "trainrig_batch=2").ok()
    assert "In this order: n1; n3; n2, n4. 0 of 4 host(s) need nothing" in first.output
    assert "upgrade n2, n4 (3 to 4 of 4)" in first.output
    assert log(fleet)[:4] == turn("n1") + turn("n3")
    assert sorted(log(fleet)[4:]) == sorted(turn("n2") + turn("n4"))
    assert [fleet.content(name) for name in fleet.hosts] == ["one"] * 4
    assert fleet.report["verdict"] == "pass"

    fleet.hosts["n4"][f"{BASE}_content"] = "two"
    second = fleet.play("playbooks/upgrade.yml").ok()
    assert "In this order: n4. 3 of 4 host(s) need nothing" in second.output
    assert log(fleet)[8:] == turn("n4")
    assert [fleet.content(name) for name in fleet.hosts] == ["one", "one", "one", "two"]

    third = fleet.play("playbooks/upgrade.yml").ok()
    assert "Nothing to do." in third.output and len(log(fleet)) == 10
    assert all(third.recap(name)["changed"] == 0 for name in fleet.hosts)


def test_it_stops_at_the_first_host_that_is_not_good(fleet: Fleet) -> None:
    fleet.hosts["n4"][f"{BASE}_fails"] = True
    done = fleet.play("playbooks/upgrade.yml", "-e", json.dumps({"trainrig_canary": ["n2", "n4"]}))
    assert done.status == 2
    assert log(fleet) == [*turn("n2"), "drain n4"]
    assert [fleet.content(name) for name in fleet.hosts] == [None, "one", None, None]
    report = fleet.report
    assert report["verdict"] == "fail"
    assert {name: row["state"] for name, row in report["hosts"].items()} == {
        "n1": "deferred", "n2": "ok", "n3": "deferred", "n4": "failed",
    }  # fmt: skip
    assert report["hosts"]["n2"]["applied"] == [BASE] and report["hosts"]["n1"]["applied"] == []
    stopped = [one for one in report["findings"] if one["rule"] == "run.rollout_stopped"]
    assert [one["host"] for one in stopped] == ["n4"]
    assert "it stays drained" in stopped[0]["summary"] and "trainrig.gpu.upgrade -i " in stopped[0]["action"]["text"]
    waits = next(one for one in report["findings"] if one["rule"] == "run.layer_deferred" and one["host"] == "n1")
    assert "the upgrade stopped at n4, before this host" in waits["cause"]

    fleet.hosts["n4"][f"{BASE}_fails"] = False
    fleet.play("playbooks/upgrade.yml").ok()
    assert log(fleet)[3:] == [*turn("n1"), *turn("n3"), *turn("n4")]


def test_a_host_that_is_lost_on_the_way_stops_it_too_and_is_in_the_report(fleet: Fleet) -> None:
    fleet.hosts = {"n1": {f"{BASE}_lost": True}, "n2": {}}
    done = fleet.play("playbooks/upgrade.yml")
    assert done.status != 0
    assert log(fleet) == ["drain n1"] and fleet.content("n2") is None
    report = fleet.report
    assert {name: row["state"] for name, row in report["hosts"].items()} == {"n1": "failed", "n2": "deferred"}
    assert report["hosts"]["n1"]["applied"] == []
    assert "the node was lost on the way" in report["hosts"]["n1"]["failures"][0]["message"]


def test_a_host_that_cannot_be_drained_is_not_touched(fleet: Fleet) -> None:
    fleet.variables["trainrig_drain"] = ["/bin/false"]
    done = fleet.play("playbooks/upgrade.yml")
    assert done.status == 2
    assert [fleet.content(name) for name in fleet.hosts] == [None] * 4
    failures = fleet.report["hosts"]["n1"]["failures"]
    assert [(one["layer"], one["task"]) for one in failures] == [("drain", "From the controller: drain")]


@pytest.mark.slow
def test_hooks_can_be_tasks_and_check_mode_disturbs_nobody(fleet: Fleet) -> None:
    fleet.hosts = {"n1": {}}
    for name in ("drain", "uncordon"):
        line = {
            "path": f"{fleet.directory}/simulated_log",
            "line": f"{name} {{{{ inventory_hostname }}}}",
            "create": True,
        }
        task = {"name": "Write", "ansible.builtin.lineinfile": {**line, "mode": "0644"}}
        (fleet.directory / f"{name}.yml").write_text(yaml.safe_dump([task]), encoding="utf-8")
        fleet.variables[f"trainrig_{name}"] = {"tasks": f"../{name}.yml"}
    done = fleet.play("playbooks/upgrade.yml", "--check").ok()
    assert log(fleet) == [] and fleet.content("n1") is None, done.output
    fleet.play("playbooks/upgrade.yml").ok()
    assert log(fleet) == turn("n1") and fleet.content("n1") == "one"


def test_settings_are_checked_before_any_contact(fleet: Fleet) -> None:
    done = fleet.play("playbooks/upgrade.yml", "-e", "trainrig_reboot=when_neded", "-e", "trainrig_canary=n9")
    assert done.status == 2
    words = " ".join(done.output.split())
    assert "trainrig_reboot: when_neded: no such policy. To fix it: did you mean when_needed." in words
    assert "trainrig_canary: n9: the inventory has no such host" in words
    assert log(fleet) == [] and not fleet.prefix("n1").joinpath("manifest.json").exists()


@pytest.mark.slow
def test_a_reboot_that_is_not_done_is_said_and_what_needs_the_driver_waits(fleet: Fleet) -> None:
    fleet.layers = LAYERS
    fleet.hosts = {"n1": {f"{DRIVER}_waits": True}}
    # The driver is applied by the first run only; what it left behind brings the second one to the barrier.
    for policy, said in (("never", "trainrig_reboot is never"), ("when_needed", "Ansible itself runs on it")):
        done = fleet.play("site.yml", "-e", f"trainrig_reboot={policy}")
        assert done.status == 2 and said in done.output, done.output
        report = fleet.report
        assert report["verdict"] == "incomplete"
        rules = {one["rule"]: one for one in report["findings"]}
        assert "its module is not loaded yet" in rules["run.pending_reboot"]["summary"]
        assert {row["layer"]: row["state"] for row in report["hosts"]["n1"]["plan"]["layers"]}[AFTER] == "deferred"
        assert rules["run.layer_deferred"]["layer"] == AFTER
        assert (fleet.content("n1", AFTER), fleet.content("n1", LAST)) == (None, "one")
    (fleet.prefix("n1") / "pending_reboot.json").write_text('{"schema": 1, "boot_id": "earlier", "reasons": ["x"]}')
    fleet.play("site.yml")
    assert "run.pending_reboot" not in [one["rule"] for one in fleet.report["findings"]], "of another boot: void"
