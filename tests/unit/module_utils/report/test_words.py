"""Numbers as people read them, tables for narrow and wide terminals, and which curves a page shows."""

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.report import page, words
from ansible_collections.trainrig.gpu.plugins.module_utils.report.table import closing, findings_table

from tests.unit.module_utils.report.reports import FINDING, MEASUREMENT, report


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (words.size(None), "?"),
        (words.size(8), "8 B"),
        (words.size(1536), "1.5 KiB"),
        (words.size(4 * 1024**3), "4 GiB"),
        (words.number(None), "?"),
        (words.number(0.0123456), "0.0123"),
        (words.number(999.7), "1000"),
        (words.number(15234.6), "15235"),
        (words.number(True), "yes"),
        (words.age(None), "?"),
        (words.age(59), "59 s"),
        (words.age(7199), "120 min"),
        (words.age(3 * 86400), "3 days"),
        (words.count(1, "host"), "1 host"),
        (words.listed(list("abcdef")), "a, b, c, d and 2 more"),
        (words.pieces("a `b` c"), [(False, "a "), (True, "b"), (False, " c")]),
        (words.pieces("it`s"), [(False, "it`s")]),
        (words.pieces(None), []),
        (words.whole_command("`b`"), "b"),
        (words.whole_command("`b` and `c`"), None),
        (words.whole_command("b"), None),
        (words.one_line("\x1b]0;title\x07a\x1b[2J\tb\nc"), "a b c"),
    ],
)
def test_words(made, text):
    assert made == text


@pytest.mark.parametrize("width", [40, 80, 100, 120, 160])
def test_the_table_fits_and_says_everything(width):
    long = {**FINDING, "host": "node-1", "summary": "word " * 40, "action": {"kind": "reboot", "text": "do that"}}
    lines = findings_table([long, {**FINDING, "severity": "info", "host": "node-2"}], width)
    text = " ".join(lines)
    assert max(map(len, lines)) <= width
    for part in ("fail", "node-1", "some.rule", "do that", "1 finding of severity info"):
        assert part in text
    assert "node-2" not in text
    assert text.count("word") == 40


def test_nothing_found_prints_nothing():
    assert findings_table([]) == []


def test_the_verdict_and_the_path_are_the_last_lines():
    assert closing("fail", ["one", "two"], "reports/x") == ["verdict: fail (one; two)", "report: reports/x"]
    assert closing("pass", [], "reports/x") == ["verdict: pass", "report: reports/x"]


def _curves(hosts):
    return [
        {**MEASUREMENT["collectives"], "collective": collective, "host": host, "busbw_gb_s": 1.0 + number}
        for number, host in enumerate(hosts)
        for collective in ("all_reduce", "broadcast")
    ]


def test_few_hosts_have_a_figure_each():
    made = page.figures(_curves(["a", "b"]))
    assert [(one["hosts"], [line["label"] for line in one["lines"]]) for one in made] == [
        ("a", ["all_reduce", "broadcast"]),
        ("b", ["all_reduce", "broadcast"]),
    ]


def test_many_hosts_share_a_figure_and_the_slowest_are_shown():
    made = page.figures(_curves([f"n{number}" for number in range(16)]))
    assert [one["title"].split(",")[0] for one in made] == ["all_reduce", "broadcast"]
    assert [line["label"] for line in made[0]["lines"]] == [f"n{number}" for number in range(7)]
    assert made[0]["left_out"] == 9


def test_a_failed_curve_is_never_left_out():
    curves = _curves([f"n{number}" for number in range(16)])
    curves[-2]["status"] = "fail"
    assert page.figures(curves)[0]["lines"][0]["label"] == "n15"


def test_rows_of_numbers_leave_the_smoke_out():
    made = report()
    assert len(page.bandwidth_rows(made["measurements"])) == 1
    assert [one["title"] for one in page.ddp_rows(made["measurements"])] == ["2 ranks over gloo"]
