"""What apt's own commands do not tell of a node."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.trainrig.gpu.plugins.module_utils.node.apt import scripts


def test_scripts_that_a_dpkg_left_running(tmp_path):
    commands = {
        7: ["/bin/sh", "-e", "/var/lib/dpkg/info/tool-dkms.postinst", "configure", ""],
        8: ["/usr/bin/vi", "+1", "notes", "/var/lib/dpkg/info/tool-dkms.postinst"],
        20: ["/var/lib/dpkg/info/other.prerm", "remove"],
        30: [],
    }
    for pid, words in commands.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_text("\0".join(words), encoding="utf-8")
    (tmp_path / "40").mkdir()  # ended meanwhile
    (tmp_path / "self").mkdir()
    assert scripts(str(tmp_path)) == [
        (7, "/var/lib/dpkg/info/tool-dkms.postinst"),
        (20, "/var/lib/dpkg/info/other.prerm"),
    ]
    assert scripts(str(tmp_path / "40")) == []
