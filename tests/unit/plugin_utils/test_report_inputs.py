"""What is read from the variables that a run's plays left behind."""

from datetime import datetime, timezone

import pytest
from ansible_collections.trainrig.gpu.plugins.plugin_utils import report_inputs

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=timezone.utc)


def one_host(**variables):
    return report_inputs.hosts({"groups": {"all": ["a"]}, "hostvars": {"a": variables}}, NOW)["a"]


def test_only_hosts_of_the_inventory():
    variables = {"groups": {"all": ["a"]}, "hostvars": {"a": {}, "localhost": {}}}
    assert list(report_inputs.hosts(variables, NOW)) == ["a"]


def test_findings_of_preflight_and_of_verification():
    assert one_host(trainrig_findings=[1], verify_findings=[2])["findings"] == [1, 2]
    assert one_host()["findings"] == []


def test_not_measured_differs_from_nothing_to_say():
    assert one_host()["measurements"] is None
    assert one_host(verify_measurements=[])["measurements"] == []


def test_the_record_that_stands_has_its_age():
    record = {"at": "2026-01-02T10:00:00Z", "verdict": "pass", "measurements": [1]}
    carried = one_host(trainrig_plan={"verify": {"carried": record}})["carried"]
    assert carried == {**record, "from": "2026-01-02T10:00:00Z", "age_s": 7200.0}
    given = one_host(trainrig_carried={"from": "2026-01-02T10:00:00Z", "age_s": 5.0})["carried"]
    assert given["age_s"] == 5.0


@pytest.mark.parametrize(("made", "age"), [("2026-01-03T00:00:00Z", 0.0), ("yesterday", None)])
def test_a_strange_clock_gives_no_strange_age(made, age):
    assert one_host(trainrig_plan={"verify": {"carried": {"at": made}}})["carried"]["age_s"] == age


def test_why_a_host_was_not_reached():
    observed = {"unreachable": True, "msg": "Failed to connect:\n timed out"}
    assert one_host(trainrig_observed=observed)["unreachable"] == "Failed to connect: timed out"
    assert one_host(trainrig_observed={"unreachable": False, "msg": "x"})["unreachable"] is None


def test_why_nothing_is_known_of_a_host():
    assert report_inputs.why_missing({}) == "left out by --limit"
    observed = {"unreachable": True, "msg": "Failed to connect:\n timed out"}
    assert report_inputs.why_missing({"trainrig_observed": observed}) == "not reached: Failed to connect: timed out"
    failures = [{"layer": "preflight", "task": "Observe", "message": "x"}]
    assert report_inputs.why_missing({"trainrig_failures": failures}) == "failed in task: Observe"


@pytest.mark.parametrize(
    ("sources", "name"),
    [
        (["inventories/prod"], "prod"),
        (["inventories/prod/hosts.yml"], "prod"),
        (["/etc/ansible/hosts"], "ansible"),
        (["cluster.yml"], "cluster"),
        (["hosts.yml"], "hosts"),
        (["a,b,"], "hosts"),
        (["inventories/prod", "inventories/more"], "prod"),
        ([], "hosts"),
    ],
)
def test_the_name_of_an_inventory(sources, name):
    assert report_inputs.inventory_name(sources) == name


def test_the_inventories_as_they_can_be_typed_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [str(tmp_path / "inventories" / "prod"), "/elsewhere", "a,b,"]
    typed = report_inputs.inventory_sources({"ansible_inventory_sources": given})
    assert typed == ["inventories/prod", "/elsewhere", "a,b,"]
    assert report_inputs.inventory_sources({}) == []


def test_a_value_of_the_whole_run():
    variables = {"groups": {"all": ["a", "b"]}, "hostvars": {"a": {}, "b": {"trainrig_lock_digest": "0f"}}}
    assert report_inputs.first(variables, "trainrig_lock_digest") == "0f"
    assert report_inputs.first(variables, "trainrig_started") is None
