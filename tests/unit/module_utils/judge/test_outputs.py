"""What the role brings back becomes the stages' outputs, whatever is missing."""

import base64
import json

from ansible_collections.trainrig.gpu.plugins.module_utils.judge.outputs import assemble, looks

ENVIRONMENT = {"torch": {"error": None}}


def slurped(name, content):
    text = content if isinstance(content, str) else json.dumps(content)
    return {"source": f"/tmp/work/{name}", "content": base64.b64encode(text.encode()).decode()}


def test_documents_and_accounts_are_joined_by_name():
    files = [slurped("collectives.json", {"rows": []}), slurped("collectives.run.json", {"rc": 3})]
    outputs = assemble({"collectives": {"rc": 3}}, files, {"collectives": {"ranks": 2}})
    assert outputs == {"collectives": {"run": {"rc": 3}, "document": {"rows": []}, "asked": {"ranks": 2}}}


def test_a_half_written_document_is_none():
    outputs = assemble({"ddp": {"rc": 0}}, [slurped("ddp.json", '{"runs": {')], {})
    assert outputs["ddp"]["document"] is None


def test_without_an_account_ansible_s_result_speaks():
    launch = {
        "cmd": ["timeout", "60", "/nowhere/python"],
        "rc": 127,
        "stderr_lines": ["timeout: no such file", ""],
        "stdout_lines": [],
    }
    run = assemble({"environment": launch}, [], {})["environment"]["run"]
    assert run["rc"] == 127 and not run["timed_out"]
    assert run["tail"] == ["timeout: no such file"]
    assert run["command"] == launch["cmd"]


def test_the_outer_timeout_is_a_timeout():
    for rc in (124, 137):
        launch = {"cmd": ["timeout", "60", "python"], "rc": rc}
        assert assemble({"environment": launch}, [], {})["environment"]["run"]["timed_out"]
    assert not assemble({"x": {"cmd": ["python"], "rc": 124}}, [], {})["x"]["run"]["timed_out"]


def test_a_skipped_stage_names_what_it_depends_on():
    environment = [slurped("environment.json", ENVIRONMENT)]
    launches = {"environment": {"rc": 0}, "collectives": {"rc": 1}, "ddp": {"skipped": True}}
    assert "the collectives did not come to an end" in assemble(launches, environment, {})["ddp"]["skipped"]
    broken = [slurped("environment.json", {"torch": {"error": "ImportError"}})]
    assert "torch cannot be used" in assemble(launches, broken, {})["ddp"]["skipped"]
    assert "torch cannot be used" in assemble({**launches, "environment": {"rc": 127}}, [], {})["ddp"]["skipped"]


def test_no_job_over_several_nodes_is_told_by_its_reason_and_else_by_what_it_depends_on():
    environment = [slurped("environment.json", ENVIRONMENT)]
    launches = {"environment": {"rc": 0}, "ddp": {"rc": 1}, "nodes": {"skipped": True}}
    reason = {"rule": "verify.nodes_apart", "text": "no network"}
    assert assemble(launches, environment, {"nodes": {"reason": reason}})["nodes"] == {"apart": reason}
    skipped = assemble(launches, environment, {"nodes": {"reason": None}})["nodes"]["skipped"]
    assert "on this node alone did not come to an end" in skipped


def test_looks_come_in_their_order_and_half_written_ones_are_none():
    said = {"lspci": {"text": "x", "rc": 0, "err": ""}}
    files = [
        slurped("look.10.json", said),
        slurped("look.2.json", {}),
        slurped("look.3.json", '{"a'),
        slurped("ddp.json", {}),
    ]
    assert looks([slurped("look.11.json", {"ibstat": {}}), *files]) == [said, {"ibstat": {}}]
