"""tools/refresh/yaml_edit.py: one value changes, everything else keeps its bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tools.refresh.yaml_edit import EditError, edited

TORCH = (Path(__file__).resolve().parents[3] / "data" / "torch.yml").read_text(encoding="utf-8")
TEXT = """\
# head
a:
  "1.0": {x: "1", list: ["1", "2"]}  # beside
  plain: old
  block:
    - "1"
  empty: {}
"""


def test_every_release_of_the_real_file_can_be_changed():
    releases = list(yaml.safe_load(TORCH)["releases"])
    changes = [(("releases", release, "default", "nccl"), "9.9.9") for release in releases]
    changes += [(("releases", release, "python", "aarch64"), ["3.98", "3.99"]) for release in releases]
    result = edited(TORCH, changes)
    assert len(TORCH.splitlines()) == len(result.splitlines())
    pairs = [(old, new) for old, new in zip(TORCH.splitlines(), result.splitlines()) if old != new]
    assert len(pairs) == len(changes)
    assert all('nccl: "9.9.9", ' in new or new.endswith('aarch64: ["3.98", "3.99"]}') for _old, new in pairs)


def test_values_keep_their_surroundings():
    result = edited(TEXT, [(("a", "1.0", "x"), "2.10"), (("a", "1.0", "list"), ["3"]), (("a", "plain"), "new")])
    assert result == TEXT.replace('"1", list: ["1", "2"]', '"2.10", list: ["3"]').replace("old", '"new"')


def test_a_key_is_added_inside_braces():
    result = edited(TEXT, [(("a", "1.0", "y"), "3"), (("a", "empty", "z"), "4")])
    assert result == TEXT.replace('"2"]}', '"2"], y: "3"}').replace("{}", '{z: "4"}')


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("a", "1.0"), "2"),
        (("a", "block"), ["2"]),
        (("a", "plain"), ["2"]),
        (("a", "missing"), "2"),
        (("a", "missing", "more"), "2"),
    ],
)
def test_what_would_touch_more_is_refused(path, value):
    with pytest.raises(EditError, match=r"write it by hand"):
        edited(TEXT, [(path, value)])


def test_a_comment_inside_a_list_is_never_lost():
    with pytest.raises(EditError, match="by hand"):
        edited('a: ["1",  # why\n  "2"]\n', [(("a",), ["3"])])
