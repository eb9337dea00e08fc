"""report.xml: it parses, its counts are what it holds, and it fails exactly when the run does."""

from xml.etree import ElementTree

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.report.junit import render

from tests.unit.module_utils.report.reports import all_cases, report

CASES = dict(all_cases())
OUTCOMES = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def parsed(made):
    return ElementTree.fromstring(render(made).encode("utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_counts_and_verdict(name):
    case = CASES[name]
    made = report(case["hosts"], case.get("phase", "site"))
    root = parsed(made)
    for element in [root, *root.findall("testsuite")]:
        assert int(element.get("tests")) == len(list(element.iter("testcase")))
        for attribute, tag in OUTCOMES.items():
            assert int(element.get(attribute)) == len(list(element.iter(tag)))
    stopped = made["verdict"] in ("fail", "refuse", "incomplete")
    assert (int(root.get("failures")) + int(root.get("errors")) > 0) == stopped


def test_a_suite_per_host_and_one_for_what_they_share():
    shared = {"stage": "collectives", "nodes": 2, "hosts": ["n1", "n2"]}
    root = parsed(report({"n1": {}, "n2": {"measurements": [shared]}}))
    assert [suite.get("name") for suite in root.findall("testsuite")] == ["n1", "n2", "fleet"]
    names = [case.get("name") for case in root.findall("testsuite[@name='fleet']/testcase")]
    assert names == ["all_reduce gloo 2 ranks 1 MiB float32", "verdict"]
    names = [case.get("name") for case in root.findall("testsuite[@name='n1']/testcase")]
    assert names == ["answers", "pytorch", "all_reduce gloo 2 ranks 1 MiB float32", "ddp gloo 2 ranks"]


def test_a_host_called_fleet_keeps_its_suite():
    root = parsed(report({"fleet": {}}))
    assert [suite.get("name") for suite in root.findall("testsuite")] == ["fleet", "fleet (all hosts)"]


def test_a_failure_says_cause_evidence_and_next_step():
    finding = {"cause": "the cause", "action": {"kind": "reboot", "text": "do that"}}
    failure = parsed(report({"a": {"findings": [finding]}})).find("testsuite[@name='a']//failure")
    assert failure.get("message") == "fail: something was found"
    assert failure.text == "cause: the cause\nevidence (dmesg): a line\nnext: do that [reboot]"


def test_a_failed_layer_is_one_case():
    failed = {"plan": {"layers": [{"layer": "pytorch", "state": "dirty", "reasons": []}], "dirty": ["pytorch"]}}
    failed["failures"] = [{"layer": "pytorch", "task": "Install", "message": "no space"}]
    cases = parsed(report({"a": failed})).findall("testsuite[@name='a']/testcase")
    assert [case.get("name") for case in cases if case.find("failure") is not None] == ["pytorch"]


def test_what_xml_cannot_hold_is_left_out():
    finding = {"summary": "\x1b[31mred\x1b[0m \x00\x08 <&> \ud800", "cause": "\x0b"}
    failure = parsed(report({"a": {"findings": [finding]}})).find("testsuite[@name='a']//failure")
    assert failure.get("message") == "fail: red <&>"
