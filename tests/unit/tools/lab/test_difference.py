"""What an upper layer says was changed: each way to change a path fires, each way not to stays silent."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os

import pytest

from tools.lab.node import difference


@pytest.fixture
def pair(tmp_path):
    """A file below and its copy above."""
    for name in ("below", "above"):
        (tmp_path / name).write_text("same\n")
        (tmp_path / name).chmod(0o644)
    return tmp_path / "above", tmp_path / "below"


def test_a_copy_is_no_change(pair):
    assert difference(*pair) is None
    os.utime(pair[0], (0, 0))
    assert difference(*pair) is None


def test_content_mode_and_kind_are(pair, tmp_path):
    above, below = pair
    above.chmod(0o600)
    assert difference(above, below) == "written"
    above.chmod(0o644)
    above.write_text("SAME\n")
    assert difference(above, below) == "written"
    above.unlink()
    above.symlink_to("below")
    assert difference(above, below) == "written"


def test_links(tmp_path):
    for name, target in (("below", "a"), ("same", "a"), ("other", "b")):
        (tmp_path / name).symlink_to(target)
    assert difference(tmp_path / "same", tmp_path / "below") is None
    assert difference(tmp_path / "other", tmp_path / "below") == "written"


def test_directories(tmp_path):
    for name in ("below", "same", "new", "filled"):
        (tmp_path / name).mkdir()
    (tmp_path / "filled" / "file").touch()
    assert difference(tmp_path / "same", tmp_path / "below") is None
    assert difference(tmp_path / "new", None) == "written"
    assert difference(tmp_path / "filled", None) is None, "the file in it is named"
    (tmp_path / "same").chmod(0o700)
    assert difference(tmp_path / "same", tmp_path / "below") == "written"


@pytest.mark.skipif(os.geteuid() != 0, reason="making a device or a trusted attribute needs root")
def test_overlayfs_own_marks(tmp_path):
    os.mknod(tmp_path / "gone", 0o020000, os.makedev(0, 0))
    assert difference(tmp_path / "gone", None) == "removed"
    for name in ("below", "again"):
        (tmp_path / name).mkdir()
    os.setxattr(tmp_path / "again", "trusted.overlay.opaque", b"y")
    assert difference(tmp_path / "again", tmp_path / "below") == "written"
