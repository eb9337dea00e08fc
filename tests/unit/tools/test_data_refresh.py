"""make data-refresh against simulated indexes: what it says, what it writes, what it leaves alone."""

from __future__ import annotations

import difflib

import pytest
from ansible_collections.trainrig.gpu.plugins.plugin_utils import remote_file

from tests.support.simulated_index import wheel

NCCL_BEFORE = 'nccl: "2.30.7", cudnn: "9.24.0.43", cuda_toolkit'
NCCL_WRONG = NCCL_BEFORE.replace("2.30.7", "2.30.4")


def changed_lines(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


def test_nothing_differs(place):
    place.all_releases()
    opened = place.index()
    before = place.torch.read_text("utf-8")
    status, said = place.refresh("--write")
    assert (status, place.torch.read_text("utf-8")) == (0, before), said
    assert "Nothing differs" in said
    assert len(opened.asked) == 3, "one page, one METADATA a release"
    assert not [path for path in opened.asked if path.endswith(".whl")]


def test_a_difference_is_shown_and_not_written_unasked(place):
    place.all_releases()
    place.index()
    place.change(NCCL_BEFORE, NCCL_WRONG)
    before = place.torch.read_text("utf-8")
    status, said = place.refresh()
    assert (status, place.torch.read_text("utf-8")) == (1, before)
    assert "data/torch.yml\n  releases.2.14.1.default.nccl: 2.30.4 -> 2.30.7\n" in said
    assert "read in METADATA of torch-2.14.1-cp310-cp310-manylinux_2_28_x86_64.whl" in said


def test_what_is_written_is_that_value_only(place):
    place.all_releases()
    place.index()
    right = place.torch.read_text("utf-8")
    place.change(NCCL_BEFORE, NCCL_WRONG)
    place.change(
        'x86_64: ["3.10", "3.11"], aarch64: ["3.10", "3.11"]}\n    default: {variant: cu130, nccl: "2.29.7"',
        'x86_64: ["3.10"], aarch64: ["3.10", "3.11"]}\n    default: {variant: cu130, nccl: "2.29.7"',
    )
    assert place.refresh("--write")[0] == 0
    assert place.torch.read_text("utf-8") == right
    assert place.refresh()[0] == 0


def test_a_value_that_was_not_known_is_added(place):
    place.all_releases()
    place.index()
    place.change(', cuda_runtime: "13.0.96"', "")
    before = place.torch.read_text("utf-8")
    assert "default.cuda_runtime: not known -> 13.0.96" in place.refresh()[1]
    assert place.refresh("--write")[0] == 0
    removed, added = changed_lines(before, place.torch.read_text("utf-8"))
    assert added[1:] == removed[1:].replace("}", ', cuda_runtime: "13.0.96"}')


def test_a_new_release_is_reported_and_never_invented(place):
    place.all_releases()
    place.release(
        "2.15.0", pins=["nvidia-nccl-cu13==2.30.7", "cuda-toolkit[cudart]==13.2.2"], pythons=["3.11"], floor=">=3.11"
    )
    place.release("2.16.0rc1", pins=["nvidia-nccl-cu13==2.30.7"])
    place.release("2.0.1", pins=["nvidia-nccl-cu13==2.30.7"])
    place.index()
    before = place.torch.read_text("utf-8")
    status, said = place.refresh("--write")
    assert (status, place.torch.read_text("utf-8")) == (1, before)
    assert "  2.15.0\n      date: 2026-01-01\n      requires_python: >=3.11\n" in said
    assert "variant cu132, nccl 2.30.7, cuda_toolkit 13.2.2" in said
    assert "python on aarch64: 3.11\n" in said and "not told by metadata: compute capabilities" in said
    assert "2.16" not in said and "2.0.1" not in said


def test_an_nccl_that_is_not_judged_is_named(place):
    place.all_releases()
    place.index()
    nccl = place.data / "nccl.yml"
    rows = nccl.read_text("utf-8").splitlines(keepends=True)
    nccl.write_text("".join(row for row in rows if not row.startswith('  "2.30.7"')), encoding="utf-8")
    status, said = place.refresh("--write")
    assert status == 1
    assert "data/nccl.yml\n  releases.2.30.7: not known -> pinned" in said


def test_another_cuda_build_is_for_a_person(place):
    place.release("2.13.0")
    place.release("2.14.1", pins=["nvidia-nccl-cu13==2.32.3", "cuda-toolkit[cudart]==13.2.2"])
    place.index()
    before = place.torch.read_text("utf-8")
    status, said = place.refresh("--write")
    assert (status, place.torch.read_text("utf-8")) == (1, before), "half of a variant is worse than none"
    assert "releases.2.14.1.default.variant: cu130 -> cu132" in said and "never written" in said


def test_a_place_that_lists_less_removes_nothing(place):
    place.release("2.14.1", pythons=["3.11"])
    place.index()
    before = place.torch.read_text("utf-8")
    status, said = place.refresh("--write")
    assert (status, place.torch.read_text("utf-8")) == (1, before)
    assert "releases.2.14.1.python.x86_64: 3.10 -> no wheel listed" in said
    assert "Not listed there, so not compared: 2.13.0" in said


def test_a_python_below_the_wheels_floor_goes(place):
    place.release("2.13.0")
    place.release("2.14.1", pythons=["3.11"], floor=">=3.11")
    place.index()
    assert place.refresh("--write")[0] == 0
    text = place.torch.read_text("utf-8")
    assert text.count('x86_64: ["3.11"], aarch64: ["3.11"]') == 1
    assert text.count('requires_python: ">=3.11"') == 1


class TestWaysToReadMetadata:
    """The wheel itself is never fetched."""

    @pytest.mark.parametrize("tail", [1 << 21, 700])
    def test_by_byte_range(self, place, monkeypatch, tail):
        monkeypatch.setattr(remote_file, "_TAIL_BYTES", tail)
        monkeypatch.setattr(remote_file, "_PIECE_BYTES", 64)
        place.all_releases()
        opened = place.index(beside=False, ranges=True)
        place.change(NCCL_BEFORE, NCCL_WRONG)
        status, said = place.refresh()
        assert status == 1 and "2.30.4 -> 2.30.7" in said
        assert "read by byte range: no metadata files (PEP 658) there" in said
        if tail < 1000:
            sizes = {path.name: path.stat().st_size for path in place.wheels.iterdir()}
            assert opened.served and all(size < sizes[name] for name, size in opened.served)

    def test_html_with_metadata_files(self, place):
        place.all_releases()
        opened = place.index(html=True)
        status, said = place.refresh()
        assert status == 0 and "(HTML)" in said and "PEP 658" in said
        assert not [path for path in opened.asked if path.endswith(".whl")]

    def test_from_a_directory_of_wheels(self, place, monkeypatch):
        place.all_releases()
        monkeypatch.setenv("PIP_FIND_LINKS", str(place.wheels))
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        place.change(NCCL_BEFORE, NCCL_WRONG)
        status, said = place.refresh()
        assert status == 1 and "2.30.4 -> 2.30.7" in said
        assert "0 requests" in said and "from wheels on this machine" in said

    def test_neither_is_said_aloud(self, place):
        place.all_releases()
        opened = place.index(beside=False)
        place.change(
            'x86_64: ["3.10", "3.11"], aarch64: ["3.10", "3.11"]}\n    default: {variant: cu130, nccl: "2.29.7"',
            'x86_64: ["3.10"], aarch64: ["3.10", "3.11"]}\n    default: {variant: cu130, nccl: "2.29.7"',
        )
        before = place.torch.read_text("utf-8")
        status, said = place.refresh("--write")
        assert (status, place.torch.read_text("utf-8")) == (2, before)
        assert (
            f"{opened.url} has neither metadata files (PEP 658) nor byte ranges. To fix it: set PIP_INDEX_URL" in said
        )
        assert "python.x86_64: 3.10 -> 3.10, 3.11" in said, "what can be read is shown"

    def test_metadata_that_is_not_what_the_page_says(self, place):
        place.all_releases()
        place.index().slipped_in = b"\n"
        status, said = place.refresh()
        assert status == 2 and "is not what" in said

    def test_metadata_of_another_release(self, place):
        place.release("2.14.1")
        path = place.wheels / "torch-2.14.1-cp310-cp310-manylinux_2_28_x86_64.whl"
        wheel(place.root / "other", "torch", "2.13.0").replace(path)
        place.index()
        status, said = place.refresh()
        assert status == 2 and "says that it is torch 2.13.0" in said


class TestSettings:
    """pip's and uv's own, and one clear error where they do not work."""

    def test_credentials_are_used_and_never_printed(self, place, monkeypatch):
        place.all_releases()
        opened = place.index(user="me:secret")
        status, said = place.refresh()
        assert status == 0 and "secret" not in said
        monkeypatch.setenv("PIP_INDEX_URL", f"http://me:wrong-secret@{opened.address}/simple")
        status, said = place.refresh("--write")
        assert status == 2 and "secret" not in said
        assert (
            f"http://***@{opened.address}/simple/torch/ answers with HTTP 401. To fix it: put valid credentials" in said
        )

    def test_credentials_go_to_no_other_host(self, place):
        place.all_releases()
        other = place.serve(beside=True)
        opened = place.index(user="me:secret")
        opened.moved_to = other.address
        assert place.refresh()[0] == 0
        assert None not in opened.told and other.told == [None] * len(other.asked) != []

    def test_netrc(self, place, monkeypatch):
        place.all_releases()
        opened = place.index(user="me:secret")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://{opened.address}/simple")
        netrc = place.root / "home" / ".netrc"
        netrc.write_text("machine 127.0.0.1 login me password secret\n", encoding="utf-8")
        netrc.chmod(0o600)
        assert place.refresh()[0] == 0

    def test_pip_conf(self, place, monkeypatch):
        place.all_releases()
        opened = place.serve(beside=True)
        monkeypatch.delenv("PIP_CONFIG_FILE")
        monkeypatch.delenv("VIRTUAL_ENV", raising=False)
        (place.root / "etc-xdg" / "pip").mkdir(parents=True)
        (place.root / "etc-xdg" / "pip" / "pip.conf").write_text(
            f"[global]\nindex-url = {opened.url}\n", encoding="utf-8"
        )
        assert place.refresh()[0] == 0
        assert opened.asked

    def test_uv_wins_over_pip(self, place, monkeypatch):
        place.all_releases()
        place.index(status=500)
        monkeypatch.setenv("UV_DEFAULT_INDEX", place.serve(beside=True).url)
        assert place.refresh()[0] == 0

    def test_a_build_of_another_index_is_compared_with_its_line(self, place, monkeypatch):
        place.all_releases()
        other = place.root / "other"
        pins = ["nvidia-nccl-cu12==2.29.3", "nvidia-cudnn-cu12==9.10.2.22", "nvidia-cuda-runtime-cu12==12.6.77"]
        place.release("2.13.0+cu126", pins=pins, directory=other)
        place.index()
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", place.serve(other, beside=True).url)
        status, said = place.refresh("--write")
        assert "  lines.2.13.cu126.cudnn: 9.10.2.21 -> 9.10.2.22" in said
        assert status == 0 and 'cu126: {nccl: "2.29.3", cudnn: "9.10.2.22"}' in place.torch.read_text("utf-8")

    def test_a_proxy_is_asked(self, place, monkeypatch):
        proxy = place.serve()
        monkeypatch.setenv("PIP_INDEX_URL", "http://simulated-index.invalid/simple")
        monkeypatch.setenv("PIP_PROXY", proxy.address)
        assert place.refresh()[0] == 2
        assert proxy.asked == ["http://simulated-index.invalid/simple/torch/"]

    @pytest.mark.parametrize(
        ("how", "text"),
        [
            ({"status": 503}, "answers with HTTP 503. To fix it: try again later"),
            ({}, "nothing of the package torch was found; asked: http://127.0.0.1:"),
        ],
    )
    def test_an_index_that_does_not_help(self, place, how, text):
        place.wheels.mkdir()
        place.index(**how)
        status, said = place.refresh()
        assert status == 2 and text in said and said.count("\n") == 1

    def test_an_index_that_is_not_there(self, place, monkeypatch):
        monkeypatch.setenv("PIP_INDEX_URL", "http://me:secret@127.0.0.1:9/simple")
        status, said = place.refresh()
        assert status == 2 and said.count("\n") == 1 and "secret" not in said
        assert "http://***@127.0.0.1:9/simple/torch/ cannot be reached" in said and "set PIP_INDEX_URL" in said

    def test_a_page_that_is_none(self, place, monkeypatch):
        directory = place.root / "index" / "torch"
        directory.mkdir(parents=True)
        (directory / "index.html").write_bytes(b"\xff\xfe")
        monkeypatch.setenv("PIP_INDEX_URL", f"file://{place.root}/index")
        status, said = place.refresh()
        assert status == 2 and "is no page of an index" in said

    def test_a_certificate_file_that_is_not_there(self, place, monkeypatch):
        place.all_releases()
        place.index()
        monkeypatch.setenv("PIP_CERT", "/nowhere/ca.pem")
        status, said = place.refresh()
        assert status == 2 and "certificate" in said and "To fix it" in said
