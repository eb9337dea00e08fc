"""Runs tests/cases/judge/*.yml: a healthy node, what is different about it, and exactly which rules must fire."""

import copy
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.judge import rules_health, rules_logs, rules_pairs
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import RULES
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.node import Context, judge
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

CASES = Path(__file__).parents[3] / "cases" / "judge"
BASE = yaml.safe_load((CASES / "base.yml").read_text(encoding="utf-8"))
FILES = sorted(path for path in CASES.glob("*.yml") if path.name != "base.yml")
#: nccl-tests, doc/PERFORMANCE.md, written down once more for 2, 4 and 8 ranks.
FACTORS = {
    "all_reduce": {1: 0, 2: 1, 4: 1.5, 8: 1.75},
    "all_gather": {1: 0, 2: 0.5, 4: 0.75, 8: 0.875},
    "reduce_scatter": {1: 0, 2: 0.5, 4: 0.75, 8: 0.875},
    "all_to_all": {1: 0, 2: 0.5, 4: 0.75, 8: 0.875},
    "broadcast": {1: 1, 2: 1, 4: 1, 8: 1},
}


def put(tree, path, value):
    """Set `a.b.3.c` in nested dicts and lists; `*` is every element, `removed` takes away, one past the end appends."""
    name, _, rest = path.partition(".")
    if name == "*":
        for index in range(len(tree)):
            put(tree, f"{index}.{rest}" if rest else str(index), value)
        return
    key = int(name) if isinstance(tree, list) else name
    if rest:
        put(tree[key], rest, value)
    elif value == "removed":
        del tree[key]
    elif isinstance(tree, list) and key == len(tree):
        tree.append(copy.deepcopy(value))
    else:
        tree[key] = copy.deepcopy(value)


def completed(outputs):
    document = (outputs.get("collectives") or {}).get("document")
    for row in (document or {}).get("rows", []):
        row.setdefault("count", row["size_bytes"] // 4)
        row.setdefault("dtype", "float32")
        row.setdefault("wrong", 0)
        algbw = row["size_bytes"] / (row["time_us"] or 1) / 1000
        row.setdefault("algbw_gb_s", algbw)
        row.setdefault("busbw_gb_s", algbw * FACTORS[row["collective"]][document["ranks"]])
    return outputs


def unshared(value):
    """A copy in which nothing is shared: YAML anchors are one object."""
    if isinstance(value, dict):
        return {key: unshared(item) for key, item in value.items()}
    return [unshared(item) for item in value] if isinstance(value, list) else value


def judged(case):
    base = unshared(BASE[case["base"]])
    for path, value in (case.get("set") or {}).items():
        put(base["outputs"], path, value)
    for path, value in (case.get("context") or {}).items():
        put(base["context"], path, value)
    context = Context(
        host="node-a",
        gpus=load("gpus"),
        thresholds=load("thresholds"),
        site_rows=case.get("site", []),
        **base["context"],
    )
    return judge(completed(base["outputs"]), context)


def text_of(finding):
    proof = [one["text"] for one in finding["evidence"]]
    return "\n".join([finding["summary"], finding["cause"], finding["action"]["text"], *proof])


def cases():
    for path in FILES:
        for name, case in yaml.safe_load(path.read_text(encoding="utf-8")).items():
            yield pytest.param(case, id=f"{path.stem}/{name}")


@pytest.mark.parametrize("case", list(cases()))
def test_case(case):
    result = judged(case)
    assert {one["rule"]: one["severity"] for one in result["findings"]} == case["rules"]
    for words in case.get("says", []):
        assert words in "\n".join(text_of(one) for one in result["findings"])
    for name, status in case.get("status_of", {}).items():
        assert {one["status"] for one in result["measurements"] if one.get("collective") == name} == {status}
    if "measured" in case:
        wanted = case["measured"]
        told = [one for one in result["measurements"] if one.get("collective") == wanted["collective"]]
        same = [one for one in told if one["size_bytes"] == wanted.get("size_bytes", one["size_bytes"])]
        assert [{key: one[key] for key in wanted} for one in same] == [wanted]
    if "ddp" in case:
        (smoke,) = [one for one in result["measurements"] if one["stage"] == "ddp"]
        assert {key: smoke[key] for key in case["ddp"]} == case["ddp"]
    if "jobs" in case:
        jobs = [one for one in result["measurements"] if one["stage"] == "ddp"]
        assert [{key: one[key] for key in wanted} for wanted, one in zip(case["jobs"], jobs)] == case["jobs"]
        assert len(jobs) == len(case["jobs"])
    if "statuses" in case:
        assert [one["status"] for one in result["measurements"]] == case["statuses"]


def test_every_rule_has_a_sick_case():
    fired = {rule for param in cases() for rule in param.values[0]["rules"]}
    # Those of health, of logs and of peers and baseline have tests of their own.
    own = set(RULES) - set(rules_health.RULES) - set(rules_logs.RULES) - set(rules_pairs.RULES)
    assert own <= fired <= set(RULES)


@pytest.mark.parametrize("param", list(cases()))
def test_findings_are_whole(param):
    for one in judged(param)["findings"]:
        assert one["summary"] and one["cause"] and one["action"]["text"]
        assert "{" not in one["cause"] + one["action"]["text"], "a field was not filled in"
        assert (
            one["pool"] == "default"
            and one["host"] == (None if one["scope"] == "pool" else "node-a")
            and one["phase"] == "verify"
        )


def test_healthy_measurements_have_the_names_that_others_read():
    result = judged({"base": "gpu"})
    collective, smoke = result["measurements"][0], result["measurements"][-1]
    names = "stage collective backend nodes ranks size_bytes dtype time_us algbw_gb_s busbw_gb_s hosts threshold_gb_s"
    assert set(collective) >= set(f"{names} ceiling_gb_s source status".split())
    names = "stage backend ranks samples_per_s scaling_efficiency loss_first loss_last gradients_equal resumed status"
    assert set(smoke) >= set(names.split())
    assert collective["hosts"] == ["node-a"]
    assert result["versions"]["nccl"] == "2.27.5"
