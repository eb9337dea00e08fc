"""The files of a report: the page stands alone and escapes everything, older reports are kept, the link is atomic."""

import json
import os
import re
import threading
from html.parser import HTMLParser
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.trainrig.gpu.plugins.plugin_utils import figures, report_files

from tests.unit.module_utils.report.reports import MEASUREMENT, report

EVIL = "<script>alert(1)</script>\"'&{{ 7 * 7 }}"
WITH_LINES = {"stage": "collectives", "threshold_gb_s": 2.0, "ceiling_gb_s": 9.0, "status": "fail", "reason": EVIL}


@pytest.fixture
def undrawn(monkeypatch):
    """For tests that look at files only: drawing is slow."""
    monkeypatch.setattr(figures, "available", lambda: False)


class Page(HTMLParser):
    """Collects the elements and attributes of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]

    def handle_data(self, data):
        self.text.append(data)


def evil_report():
    finding = {"summary": EVIL, "cause": EVIL, "rule": EVIL, "layer": EVIL, "action": {"kind": "none", "text": EVIL}}
    finding["evidence"] = [{"probe": EVIL, "text": EVIL}]
    sick = {"findings": [finding], "prefix": f"/{EVIL}"}
    sick["measurements"] = [{**WITH_LINES, "collective": EVIL, "source": EVIL}, {"stage": "ddp"}]
    sick["observation"] = {"os": {"id": EVIL}, "nvidia": {"gpus": [{"name": EVIL}]}}
    sick["observation"]["python_env"] = {"torch": {"version": EVIL}}
    sick["observation"]["rdma"] = {
        "devices": [{"name": EVIL, "ports": [{"port": 1, "state": EVIL, "link_layer": EVIL}]}]
    }
    sick["observation"]["nvidia"]["topology"] = {"gpus": {"GPU0": {"NIC0": "PIX"}}, "nics": {"NIC0": EVIL}}
    sick["observation"]["machine"] = {"cpu": {"model": EVIL, "threads": 1}}
    sick["left_out"] = [{"what": EVIL, "why": EVIL}]
    checked = {"stage": "health", "check": EVIL, "reason": EVIL, "known": True, "size_bytes": None, "busbw_gb_s": None}
    between = {"stage": "pairs", "nodes": 2, "hosts": [EVIL, "n"]}
    sick["measurements"] += [{**MEASUREMENT["collectives"], **checked}, {**MEASUREMENT["collectives"], **between}]
    finding["action"]["kind"] = "ask_provider"
    sick["plan"] = {"layers": [{"layer": EVIL, "state": "dirty", "reasons": [EVIL]}], "dirty": [EVIL]}
    hosts = {EVIL: sick, f"{EVIL}2": {"observation": None}, "n": {"prefix": f"/{EVIL}"}}
    return report(hosts, inventory=EVIL, lock_digest=EVIL)


def test_everything_is_escaped():
    page = Page(report_files.html(evil_report()))
    assert "script" not in page.tags
    # The whole text comes back as it was: nothing was taken for an element, an entity or a template.
    assert "".join(page.text).count(EVIL) > 10


def test_nothing_is_asked_of_the_outside():
    text = report_files.html(evil_report())
    page = Page(text)
    assert not set(page.tags) & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    for _tag, key, value in page.attributes:
        if key in ("src", "href", "xlink:href", "action", "data", "srcset"):
            assert value.startswith("#")
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    assert ("meta", "content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes


def test_ids_are_unique_over_several_figures():
    several = [{"stage": "collectives", "size_bytes": 2**20}, {"stage": "collectives", "ranks": 4, "size_bytes": 2**20}]
    page = Page(report_files.html(report({"a": {"measurements": several}, "b": {"measurements": several}})))
    ids = [value for _tag, key, value in page.attributes if key == "id"]
    assert page.tags.count("svg") == 4
    assert len(ids) == len(set(ids))
    references = {value[1:] for _tag, key, value in page.attributes if key == "href"}
    assert references <= set(ids)


@pytest.mark.usefixtures("undrawn")
def test_the_first_thing_to_do_stands_before_what_was_found():
    text = report_files.html(report({"a": {"findings": [{"action": {"kind": "reboot", "text": "do this first"}}]}}))
    assert text.index("do this first") < text.index("What was found")


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("verdict", ["pass", "warn", "fail", "refuse", "incomplete"])
def test_every_verdict_has_a_page(verdict):
    assert f"<h1>{verdict}</h1>" in report_files.html({**report(), "verdict": verdict})


def test_curves_are_the_same_every_time_and_say_what_they_show():
    lines = [{"label": "x $y$ <b>", "points": [{"size_bytes": 2**n, "busbw_gb_s": n, **WITH_LINES} for n in (10, 20)]}]
    lines.append({**lines[0], "label": "another"})
    first = figures.bandwidth(lines, "f1")
    assert first == figures.bandwidth(lines, "f1")
    assert "stroke-dasharray" in first
    assert "currentColor" in first
    assert ">threshold 2<" in first, "a line says what it is and where"
    assert ">ceiling 9<" in first
    assert 'aria-labelledby="f1-title f1-desc"' in first
    assert "another: 20 GB/s at 1 MiB, threshold 2, ceiling 9</desc>" in first
    assert "x $y$ &lt;b&gt;" in first, "a label is text, neither a formula nor an element"
    plain = [{"label": "x", "points": [{"size_bytes": 2**n, "busbw_gb_s": n, "status": "pass"} for n in (10, 20)]}]
    assert "stroke-dasharray" not in figures.bandwidth(plain, "f1")


@pytest.mark.usefixtures("undrawn")
def test_without_the_drawing_library_the_numbers_remain():
    text = report_files.html(report())
    assert "<svg" not in text
    assert "matplotlib is not installed" in text
    assert "all_reduce" in text


@pytest.mark.usefixtures("undrawn")
def test_three_files_and_a_link(tmp_path):
    made = report()
    final = report_files.write(made, tmp_path / "new" / "reports", "20260102T030405Z")
    assert final.name == "20260102T030405Z"
    assert sorted(path.name for path in final.iterdir()) == ["report.html", "report.json", "report.xml"]
    assert json.loads((final / "report.json").read_text(encoding="utf-8")) == made
    latest = final.parent / "latest"
    assert latest.is_symlink()
    assert latest.resolve() == final
    assert sorted(path.name for path in final.parent.iterdir()) == ["20260102T030405Z", "latest"]


@pytest.mark.usefixtures("undrawn")
def test_older_reports_are_kept_even_within_a_second(tmp_path):
    (tmp_path / "stamp-4").mkdir()  # rename alone would replace an empty directory
    stamps = [report_files.write(report(), tmp_path, "stamp").name for _ in range(4)]
    assert stamps.pop() == "stamp-5"
    assert stamps == ["stamp", "stamp-2", "stamp-3"]
    assert (tmp_path / "latest").readlink() == Path("stamp-5")
    assert all((tmp_path / stamp / "report.json").is_file() for stamp in stamps)


@pytest.mark.usefixtures("undrawn")
def test_the_link_is_never_missing_while_it_moves(tmp_path):
    report_files.write(report(), tmp_path, "first")
    seen, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            seen.append((tmp_path / "latest" / "report.json").is_file())

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(200):
        (tmp_path / f"n{number}").mkdir()
        (tmp_path / f"n{number}" / "report.json").touch()
        report_files._link(tmp_path, f"n{number}")
    stop.set()
    reader.join()
    assert seen
    assert all(seen)


def test_a_broken_report_leaves_nothing(tmp_path):
    with pytest.raises(AnsibleActionFail):
        report_files.write({**report(), "verdict": "fine"}, tmp_path / "reports", "stamp")
    assert not (tmp_path / "reports").exists()


def test_a_place_that_is_no_directory_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(report_files.NotWritten, match=r"report_directory: .*/file/reports: cannot write .* To fix"):
        report_files.write(report(), tmp_path / "file" / "reports", "stamp")


@pytest.mark.usefixtures("undrawn")
def test_what_an_interrupted_run_left_is_swept_only_when_old(tmp_path):
    old, young = tmp_path / ".unfinished-old", tmp_path / ".unfinished-young"
    for path in (old, young):
        path.mkdir()
    os.utime(old, (0, 0))
    report_files.write(report(), tmp_path, "stamp")
    assert not old.exists()
    assert young.exists()
