"""The section rule of probes with several sources."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import subprocess

from ansible_collections.trainrig.gpu.plugins.module_utils.observe import sections
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Reading
from hypothesis import given
from hypothesis import strategies as st

NAME = st.text("abc /-_.=%+:", min_size=1, max_size=30).filter(
    lambda name: name == name.strip() and " exit " not in name
)
BODY = st.lists(st.text(st.characters(blacklist_characters="\n\r"), max_size=20), max_size=5).map(
    lambda lines: "".join(f"{line}\n" for line in lines if not line.startswith("==> "))
)


def test_what_head_prints(tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("")
    (tmp_path / "c").write_text("three\n\n")
    text = subprocess.run(["head", "a", "b", "c"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert sections.split(text) == {
        "a": sections.Section("one\ntwo\n"),
        "b": sections.Section(""),
        "c": sections.Section("three\n\n"),
    }


def test_status_behind_or_inside_the_header():
    text = "==> ofed_info -s <== exit 127\n\n==> docker version exit 1 <==\ncannot connect\n"
    assert sections.split(text) == {
        "ofed_info -s": sections.Section("", 127),
        "docker version": sections.Section("cannot connect\n", 1),
    }


def test_text_before_a_header_and_a_header_like_line_inside():
    text = "login banner\n==> hostname <==\nnode-a\n ==> not a header <==\n==> neither\n"
    assert sections.split(text) == {"hostname": sections.Section("node-a\n ==> not a header <==\n==> neither\n")}


@given(st.dictionaries(NAME, st.tuples(BODY, st.integers(0, 255)), max_size=5))
def test_what_is_joined_is_split_again(parts):
    text = sections.join((name, body, rc) for name, (body, rc) in parts.items())
    found = sections.split(text)
    assert {name: (part.text.rstrip("\n"), part.rc) for name, part in found.items()} == {
        name: (body.rstrip("\n"), rc) for name, (body, rc) in parts.items()
    }


def test_a_failed_section_is_not_read_as_an_answer():
    reading = Reading("hosts", "==> hostname -f <== exit 1\nhostname: Name or service not known\n")
    assert reading.section("hostname -f") is None
    assert reading.sections["hostname -f"].rc == 1
