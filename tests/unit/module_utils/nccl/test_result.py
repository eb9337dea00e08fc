"""Logs of nccl-tests, rccl-tests and hccl_test: tests/cases/logs has each shape, expected.yml what its text says."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import random

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.result import as_asked, held_to, parse
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT

from tests.support import simulated_logs

LOGS = ROOT / "tests" / "cases" / "logs"
EXPECTED = yaml.safe_load((LOGS / "expected.yml").read_text(encoding="utf-8"))
COLUMNS = ["collective", "size_bytes", "count", "dtype", "redop", "placement"]
COLUMNS += ["time_us", "algbw_gb_s", "busbw_gb_s", "wrong"]
CONTRACT = {"rows", "ranks", "hosts", "nccl_version", "errors", "transports", "complete", "verdict"}


def text(name):
    return (LOGS / f"{name}.txt").read_text(encoding="utf-8")


def document(seed="one", **changes):
    """A healthy document of -J; ``changes`` are put over its top."""
    return {**simulated_logs.document(seed).document, **changes}


def test_every_log_is_expected_to_be_something():
    assert sorted(EXPECTED) == sorted(path.stem for path in LOGS.glob("*.txt"))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_log(name):
    expected, result = EXPECTED[name], parse(text(name))
    assert set(result) >= CONTRACT
    same = ("verdict", "complete", "validated", "ranks", "hosts", "nccl_version")
    assert {key: result[key] for key in same} == {key: expected[key] for key in same}
    assert len(result["rows"]) == expected["rows"]
    for at, which in ((0, "first"), (-1, "last")):
        if which in expected:
            assert [result["rows"][at][key] for key in COLUMNS] == expected[which]
    assert bool(result["errors"]) == ("says" in expected) == (result["verdict"] == "fail")
    assert expected.get("says", "") in "\n".join(result["errors"])
    assert expected.get("misses", "") in "\n".join(result["missing"])
    json.dumps(result)


@pytest.mark.parametrize("name", ["new_two_nodes", "five_collectives", "rccl", "middle_version_line"])
@pytest.mark.parametrize("tag", ["mpirun", "prte", "srun"])
def test_a_launchers_prefix_changes_nothing(name, tag):
    bare, tagged = parse(text(name)), parse("\n".join(simulated_logs.tagged(text(name).split("\n"), tag)))
    assert tagged == bare


@pytest.mark.parametrize("name", ["new_two_nodes", "five_collectives"])
def test_line_ends_and_colours_change_nothing(name):
    coloured = "\r\n".join(f"\x1b[32m{line}\x1b[0m" for line in text(name).split("\n"))
    assert parse(coloured) == parse(text(name))


def test_each_of_many_processes_with_a_whole_table_ran_alone():
    lines = text("new_two_nodes").split("\n")
    both = [f"[1,{rank}]<stdout>:{line}" for line in lines for rank in (0, 1)]
    result = parse("\n".join(both))
    assert (result["verdict"], result["complete"]) == ("fail", True)
    assert "each ran alone" in result["errors"][0]


class TestPrintedDigits:
    """busbw = algbw x 1.75: the last digit may be rounded either way, and no more."""

    LINE = "   268435456      67108864     float     sum      -1  2210.55  121.43  212.51       0"

    @pytest.mark.parametrize(
        ("printed", "fits"),
        [("212.49", True), ("212.51", True), ("212.52", False), ("212.48", False), ("212.61", False)],
    )
    def test_bus_bandwidth(self, printed, fits):
        changed = text("new_two_nodes").replace(self.LINE, self.LINE.replace("212.51", printed))
        assert any("is not algbw" in one for one in parse(changed)["errors"]) != fits

    @pytest.mark.parametrize(("printed", "fits"), [("121.43", True), ("121.44", False), ("121.42", False)])
    def test_algorithm_bandwidth(self, printed, fits):
        changed = text("new_two_nodes").replace(self.LINE, self.LINE.replace("121.43", printed))
        assert any("is not its size by" in one for one in parse(changed)["errors"]) != fits


class TestAsAsked:
    def test_the_job_that_was_asked_for(self):
        result = parse(text("new_two_nodes"))
        assert as_asked(result, 8, 2) == [] == as_asked(result, 8, ["gpu-b.cluster", "gpu-a"]) == as_asked(result, None)
        assert held_to(result, 8, 2) == result

    @pytest.mark.parametrize(
        ("ranks", "hosts", "says"),
        [
            (16, 2, "all_reduce: 8 ranks, 16 asked for"),
            (8, 1, "all_reduce: 2 hosts (gpu-a, gpu-b), 1 asked for"),
            (8, ["gpu-a", "gpu-c"], "all_reduce: ran on gpu-a, gpu-b, asked for gpu-a, gpu-c"),
        ],
    )
    def test_another_job(self, ranks, hosts, says):
        assert as_asked(parse(text("new_two_nodes")), ranks, hosts) == [says]

    def test_two_good_runs_that_each_ran_alone(self):
        result = parse(text("each_alone"))
        assert [run["ranks"] for run in result["runs"]] == [8, 8]
        assert as_asked(result, 16, 2)[0] == "all_reduce: 8 ranks, 16 asked for"
        # One of them alone is a whole log, and not of the job that was asked for.
        first = text("each_alone").split("# nccl-tests version")[1]
        assert parse("# nccl-tests version" + first)["verdict"] == "pass"
        assert held_to(parse("# nccl-tests version" + first), 16, 2)["verdict"] == "fail"

    def test_what_is_unknown_is_not_as_asked(self):
        assert as_asked(parse(text("error_column_no_head")), 16, 2) == [
            "all_reduce: unknown ranks, 16 asked for",
            "all_reduce: hosts unknown, 2 asked for",
        ]
        assert as_asked(parse(""), 2, 1) == ["there is no run in it"]


class TestDocument:
    """What -J writes."""

    def test_healthy_documents(self):
        for number in range(15):
            log = simulated_logs.document(f"document {number}")
            result = parse(log.text)
            assert (result["verdict"], result["errors"], result["missing"]) == ("pass", [], [])
            assert (result["ranks"], result["host_names"], result["nccl_version"]) == (log.ranks, log.hosts, "2.29.3")
            assert {row["collective"] for row in result["rows"]} == set(log.collectives)
            assert as_asked(result, log.ranks, len(log.hosts)) == []
            row, told = result["rows"][0], log.document["results"][0]
            assert row["busbw_gb_s"] == told["out_of_place"]["bus_bw"] and row["size_bytes"] == told["size"]

    def test_wrong_elements(self):
        assert parse(simulated_logs.document("one", wrong=True).text)["verdict"] == "fail"

    @pytest.mark.parametrize(
        ("changes", "verdict"),
        [
            ({"out_of_bounds": {"count": 2, "okay": "false"}}, "fail"),
            ({"average_bus_bandwidth": {"bandwidth": 1.0, "okay": "unchecked"}}, "unreadable"),
            ({"average_bus_bandwidth": {"bandwidth": 1.0, "okay": "false"}}, "fail"),
            ({"end_time": None}, "unreadable"),
            ({"results": None}, "unreadable"),
            ({"results": [{"size": 1}]}, "unreadable"),
            ({"results": []}, "unreadable"),
            ({"args": ["/opt/other_perf"]}, "unreadable"),
            ({"out_of_bounds": None}, "unreadable"),
        ],
    )
    def test_what_is_not_well(self, changes, verdict):
        assert parse(json.dumps(document(**changes)))["verdict"] == verdict

    def test_a_process_with_several_gpus_has_one_device_in_it(self):
        told = document()
        config = dict(told["config"], ngpus=4)
        config["devices"] = [dict(one, rank=one["rank"] * 4) for one in config["devices"]]
        result = parse(json.dumps({**told, "config": config}))
        assert result["ranks"] == 4 * len(config["devices"])
        config["devices"] = [dict(one, rank=one["rank"] + 1) for one in config["devices"]]
        assert "are not one job's" in parse(json.dumps({**told, "config": config}))["missing"][0]

    def test_cut_anywhere_it_never_passes_and_keeps_its_rows(self):
        whole = json.dumps(document())
        chance = random.Random("cut")
        counts = set()
        for _ in range(60):
            result = parse(whole[: chance.randrange(1, len(whole) - 1)])
            assert result["verdict"] != "pass"
            counts.add(len(result["rows"]))
        assert len(counts) > 2

    @pytest.mark.parametrize(
        "told", ["{", "{}", '{"a": [', "[" * 5000, "{" * 5000, '{"results": [[[', "{" + "[" * 9000]
    )
    def test_no_document(self, told):
        assert parse(told)["verdict"] == "unreadable"


@pytest.mark.parametrize("told", ["", "\n" * 50, "hello", "\x00\xff", "9" * 4000, "# " * 2000, "Rank " + "9" * 4000])
def test_no_log(told):
    result = parse(told)
    assert (result["verdict"], result["complete"], result["rows"], result["ranks"]) == ("unreadable", False, [], None)


class TestSimulatedLogs:
    """The generator of tests/fuzz/logs.py, as far as it is healthy and not damaged."""

    def test_healthy(self):
        for number in range(25):
            log = simulated_logs.healthy(f"healthy {number}")
            result = parse(log.text)
            assert (result["verdict"], result["errors"], result["missing"]) == ("pass", [], []), log.text
            assert [run["collective"] for run in result["runs"]] == log.collectives
            assert as_asked(result, log.ranks, log.hosts) == []

    @pytest.mark.parametrize("kind", simulated_logs.SICK)
    def test_sick(self, kind):
        for number in range(4):
            log, _kind = simulated_logs.sick(f"sick {number}", kind)
            assert parse(log.text)["verdict"] == "fail", log.text
