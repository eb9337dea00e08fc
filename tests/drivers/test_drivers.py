"""Debian's own drivers installed for real: compiled by DKMS, exactly what the lock says, and nothing moves them."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

import pytest

CASES = {
    "debian13": ("node-1", "550.163.01", {"nccl": "2.22.3"}),
    "debian12": ("node-2", "535.261.03", {}),
}


def assert_converged(one, *layers):
    """The node has what the lock says of these layers: packages, holds, module; dpkg is at rest."""
    report = one.report()
    # Nothing is wrong; at most something could not be looked at, since there is no device.
    assert report["verdict"] in ("pass", "incomplete"), report
    assert {row["severity"] for row in report["findings"]} <= {"info"}, report["findings"]
    pinned, locked, there = one.pinned(*layers), one.locked(), one.packages()
    assert len(pinned) > 20
    assert {name: there[name][0] if name in there else None for name in pinned} == pinned
    assert pinned.keys() <= one.held()
    # The rest of the closure is on record: where it came along it is what was recorded.
    assert {name: row[0] for name, row in there.items() if name in locked and row[0] != locked[name]} == {}
    assert {name: state for name, (_version, state) in there.items() if state not in ("ii", "hi")} == {}
    assert [name for name in one.system["remove"] if name in there] == []
    assert one.ask("dpkg --audit") == ""
    driver, kernel = one.system["resolution"]["driver"], one.system["resolution"]["kernel"]
    name = {"proprietary": "nvidia-current", "open": "nvidia-current-open"}[driver["module"]]
    module = one.ask(f"modinfo --set-version {kernel} {name}").splitlines()
    assert f"version:        {driver['version']}" in module
    assert f"license:        {'NVIDIA' if driver['module'] == 'proprietary' else 'Dual MIT/GPL'}" in module
    kernels = one.ask("ls /lib/modules").split()
    assert kernels == [kernel], "headers and image of one kernel"
    assert one.ask("systemctl is-enabled nvidia-persistenced") == "enabled"


#: A newer version of everything, where apt and unattended-upgrades may take it from.
TEMPT = r"""
mkdir -p /srv/simulated/tree/DEBIAN && cd /srv/simulated
for name in {names}; do
    printf '%s\n' "Package: $name" 'Version: 9:999-1' 'Architecture: amd64' 'Maintainer: nobody <nobody@example.org>' \
        'Description: simulated newer version' >tree/DEBIAN/control
    dpkg-deb --build --root-owner-group tree "$name.deb" >/dev/null
    cat tree/DEBIAN/control
    printf 'Filename: ./%s.deb\nSize: %s\n' "$name" "$(stat --format %s "$name.deb")"
    printf 'SHA256: %s\n\n' "$(sha256sum <"$name.deb" | cut -d ' ' -f 1)"
done >Packages
echo 'deb [trusted=yes] file:/srv/simulated ./' >/etc/apt/sources.list.d/simulated.list
echo 'Unattended-Upgrade::Origins-Pattern {{ "origin=*"; }};' >/etc/apt/apt.conf.d/99simulated
apt-get update -qq
"""
#: Nobody pinned this one.
FREE = "ccache"


def assert_nothing_moves(one, *layers):
    """Where a newer version of everything is on offer, upgrades take what is free and nothing that is locked."""
    names = one.pinned(*layers).keys()
    script = TEMPT.format(names=" ".join([FREE, *names]))
    one.ask(f"sh -e <<'END'\n{script}END")
    assert moved(one, "apt-get --simulate dist-upgrade") == [FREE]
    assert moved(one, "unattended-upgrade --dry-run --verbose 2>&1") == [FREE]
    # Pins alone do it too: a hold would hide that they are missing.
    one.ask("apt-mark unhold $(apt-mark showhold)")
    assert moved(one, "apt-get --simulate dist-upgrade") == [FREE]


def moved(one, command):
    """What this command says it would install, remove or upgrade."""
    text = one.ask(command)
    lines = re.findall(r"Packages that will be upgraded: (.*)", text)
    return sorted({*re.findall(r"^(?:Inst|Remv|Purg) (\S+)", text, re.MULTILINE), *" ".join(lines).split()})


@pytest.mark.parametrize("release", CASES)
def test_site_installs_the_driver_and_nothing_moves_it(release, node, say):
    name, version, more = CASES[release]
    one = node(name)
    groups = ["sources", "driver", *(["nccl"] if more else [])]
    one.declare(groups, driver=version, kernel_module="proprietary", kernel=one.kernel(), **more)
    one.site(f"{release}: driver {version} compiled for {one.system['resolution']['kernel']}")
    assert_converged(one, *groups)
    again = one.site(f"{release}: again")
    assert again.recap(name)["changed"] == 0
    assert "Nothing to do" in one.play("playbooks/plan.yml").ok().output
    assert_nothing_moves(one, *groups)
