"""From one driver branch to the other and back on one node, with Debian's real packages and one transaction each way.

Debian 13 has branch 535 beside 550 under names of its own (nvidia-tesla-535-*), which no declaration means: the lists
are made here, by apt on the node. The change is the layer's own (locked_packages).
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
import time

from tests.drivers.test_drivers import assert_converged

NEW = ["nvidia-kernel-dkms", "nvidia-driver", "nvidia-smi"]
OLD = ["nvidia-tesla-535-kernel-dkms", "nvidia-tesla-535-driver", "nvidia-tesla-535-smi"]
NUMBER = re.compile(r"^(?:[0-9]+:)?([0-9]{3}\.[0-9]+\.[0-9]+)-")


def family(one, names):
    """What these packages bring along of a driver, name -> version, as apt on the node decides."""
    text = one.ask(f"apt-get --simulate --no-install-recommends install {' '.join(names)}")
    found = dict(re.findall(r"^Inst (\S+)(?: \[\S+\])? \((\S+) ", text, re.MULTILINE))
    return {name: version for name, version in found.items() if "nvidia" in name and NUMBER.match(version)}


def change(one, packages, remove):
    words = json.dumps({"packages": packages, "remove": sorted(remove)})
    started = time.monotonic()
    one.ansible("ansible", one.node.name, "-b", "-m", "trainrig.gpu.locked_packages", "-a", words, timeout=3600).ok()
    return time.monotonic() - started


def drivers(one):
    """What is there of any driver: name -> version."""
    return {
        name: version
        for name, (version, _state) in one.packages().items()
        if "nvidia" in name and NUMBER.match(version) and name != "nvidia-modprobe"
    }


def test_a_foreign_driver_gives_way_and_branches_change_in_one_transaction(node, say):
    one = node("node-1")
    kernel = one.kernel()
    one.ask("apt-get update -qq")
    new, old = ({k: v for k, v in family(one, names).items() if k != "nvidia-modprobe"} for names in (NEW, OLD))
    assert len(new) > 15 and len(old) > 15 and not new.keys() & old.keys()
    started = time.monotonic()
    one.ask(
        "DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "
        f"linux-image-{kernel} linux-headers-{kernel} {' '.join(OLD)}"
    )
    say(f"branch 535 by hand, as somebody else's: {time.monotonic() - started:.0f} s")
    assert_branch(one, kernel, old)

    one.declare(["sources", "driver"], driver="550.163.01", kernel_module="proprietary", kernel=kernel)
    there = one.packages()
    refused = one.site("which is refused")
    assert refused.status == 2 and "driver.foreign" in {row["rule"] for row in one.report()["findings"]}
    assert one.packages() == there
    one.site("and taken over where that is allowed", "-e", "driver_takeover=true")
    assert_converged(one, "driver")
    assert_branch(one, kernel, one.pinned("driver"))

    new = drivers(one)
    for there, gone in ((old, new), (new, old)):
        seconds = change(one, there, gone)
        say(f"{NUMBER.match(next(iter(there.values())))[1]}: {len(there)} packages in {seconds:.0f} s")
        assert_branch(one, kernel, there)
        assert there.keys() <= one.held()


def assert_branch(one, kernel, packages):
    """The node has this driver, built, and nothing of another."""
    found = drivers(one)
    assert found == {name: packages[name] for name in packages if NUMBER.match(packages[name])}
    assert one.ask("dpkg --audit") == ""
    version = NUMBER.match(next(iter(found.values())))[1]
    module = "nvidia-tesla-535-current" if version.startswith("535") else "nvidia-current"
    assert one.ask(f"modinfo --set-version {kernel} --field version {module}") == version
    built = [line.partition(",")[0] for line in one.ask("dkms status").splitlines()]
    assert [line.rpartition("/")[2] for line in built] == [version], "nothing of the other branch is left to build"
