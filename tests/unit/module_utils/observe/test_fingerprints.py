"""Fingerprints of files: what is in a directory, and what in it is not looked at."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.fingerprints import take


def test_what_a_directory_has_but_for_what_is_left_out(tmp_path):
    (tmp_path / "mine").write_text("1")
    whole = {"directories": [str(tmp_path)]}
    without = {"directories": [{"path": str(tmp_path), "not": ["of-a-package"]}]}
    before = take(whole), take(without)
    assert before[0] == before[1]
    (tmp_path / "of-a-package").write_text("2")
    assert list(take(whole)["directories"][str(tmp_path)]["entries"]) == ["mine", "of-a-package"]
    assert take(without) == before[1]
    (tmp_path / "somebodys").write_text("3")
    assert take(without) != before[1]
