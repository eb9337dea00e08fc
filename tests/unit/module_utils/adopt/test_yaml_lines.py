"""Single lines of YAML edited in place."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.yaml_lines import CannotEdit, YamlLines, scalar


@pytest.mark.parametrize(
    "value",
    [
        "a",
        "203.0.113.7",
        "2001:db8::5",
        "yes",
        "on",
        "~",
        "1e5",
        "12:30",
        "a: b",
        "x # y",
        " a",
        "a'b\"",
        "",
        "-",
        "-o x",
        "-o 'A=\"b\"' -J c",
        "-o a: b",
        "{{ x }}",
        "null",
        "0x1f",
        "1_000",
        22,
        "22",
        "@a",
        "~/key",
        "*a",
        "&a",
        "-J x ",
    ],
)
def test_a_scalar_is_read_as_it_was_written(value):
    assert yaml.safe_load(f"key: {scalar(value)}\n") == {"key": value}


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        ("", "a", 1, "a: 1\n"),
        ("a: 1", "a", 2, "a: 2\n"),
        ("a: 1 # why\n", "a", 2, "a: 2 # why\n"),
        ('a: "x # y" # why\n', "a", "z", "a: z # why\n"),
        ("a:\n  b: 1\n\n# of c\nc: 2\n", "a.d", 3, "a:\n  b: 1\n  d: 3\n\n# of c\nc: 2\n"),
        ("a:\n    b: 1\n", "a.d", 3, "a:\n    b: 1\n    d: 3\n"),
        ("a: {} # none\n", "a.b", None, "a: # none\n  b:\n"),
        ("a: null\n", "a.b", 1, "a:\n  b: 1\n"),
        ("a:\n", "a.b.c", 1, "a:\n  b:\n    c: 1\n"),
        ("---\na:\n  b:\n", "a.b", None, "---\na:\n  b:\n"),
        ("x:\n  a: 1\na: 2\n", "a", 3, "x:\n  a: 1\na: 3\n"),
        ("'a': 1\n", "a", 2, "'a': 2\n"),
        ("a: 1\n...\n", "b", 2, "a: 1\nb: 2\n...\n"),
    ],
)
def test_put(before, path, value, after):
    lines = YamlLines(before)
    lines.put(path.split("."), value)
    assert lines.text() == after


@pytest.mark.parametrize(
    ("text", "path"), [("a: {b: 1}\n", "a.c"), ("a: 1\n", "a.b"), ("a: [1]\n", "a.b"), ("a:\n  b:\n    c: 1\n", "a.b")]
)
def test_what_cannot_be_edited_is_said(text, path):
    lines = YamlLines(text)
    with pytest.raises(CannotEdit):
        lines.put(path.split("."), 5)
    assert lines.text() == text
