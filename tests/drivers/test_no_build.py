"""A module that really does not compile for the declared kernel: one clear failure, the node as it was, a way on."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

import pytest

from tests.drivers.test_drivers import assert_converged

DRIVER = "550.163.01"


def test_a_module_that_does_not_compile_leaves_the_node_as_it_was(node, say):
    one = node("node-1")
    kernel = one.kernel()
    one.declare(["sources", "driver"], driver=DRIVER, kernel_module="open", kernel=kernel)
    before = one.packages()
    done = one.site(f"open module {DRIVER}, which does not compile for {kernel}")
    if one.report()["verdict"] != "fail":
        assert_converged(one, "driver")
        pytest.skip(f"Debian's open module {DRIVER} compiles for {kernel} now: nothing fails here")
    (finding,) = [row for row in one.report()["findings"] if row["severity"] == "fail"]
    say(finding["cause"])
    for text in (finding["cause"], finding["action"]["text"], done.output):
        words = " ".join(text.split())
        assert f"DKMS cannot build the kernel module nvidia-current-open {DRIVER} for kernel {kernel}: " in words
        assert re.search(r"\.c:\d+:\d+: error: ", words), "the compiler's own line"
        assert "Every package is as it was before." in words
        assert "trainrig_stack.kernel_module" in words and "trainrig_stack.kernel)" in words
    assert one.packages() == before
    assert one.ask("dpkg --audit") == ""
    # The key that DKMS signs with stays: somebody may have enrolled it.
    assert one.ask("ls /boot; find /lib/modules /var/lib/dkms -mindepth 1 ! -name 'mok.*'; true") == ""
    one.ask("apt-get check")
    one.ask("apt-get install -qq --no-install-recommends hello && apt-get purge -qq hello")

    one.declare(["sources", "driver"], driver=DRIVER, kernel_module="proprietary", kernel=kernel)
    one.site("then the proprietary module")
    assert_converged(one, "driver")
