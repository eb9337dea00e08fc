"""What apt, dpkg and DKMS complain of, told with the way out."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.apt import complaints

SAID = {
    "disk": ("E: You don't have enough free space in /var/cache/apt/archives/.", "free space"),
    "disk while unpacking": (
        "dpkg: error processing archive x.deb (--unpack):\n No space left on device",
        "free space",
    ),
    "lock": ("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (apt-get)", "wait until"),
    "hash": ("E: Failed to fetch http://x/y.deb  Hash Sum mismatch", "another mirror"),
    "signature": ("W: GPG error\nE: The repository 'http://x y' is not signed.", "check the key"),
    "version": ("E: Version '1.2' for 'tool' was not found", "layer sources"),
    "network": ("E: Failed to fetch http://x/y.deb  Could not connect to x:80", "reaches the repository"),
    "gone": ("E: Failed to fetch http://x/y.deb  404  Not Found [IP: 192.0.2.1 80]", "reaches the repository"),
    "dependencies": (" tool : Depends: other (= 2) but 1 is to be installed\nE: Unable to correct problems", "unhold"),
    "else": ("E: Something that nobody has seen", "term.log"),
}


@pytest.mark.parametrize("case", SAID)
def test_its_own_words_and_the_way_out(case):
    output, fix = SAID[case]
    found = complaints.explained(f"Reading package lists...\n{output}\n")
    assert fix in found["fix"]
    assert "Reading" not in found["said"]


def test_dpkg_s_reason_stands_on_its_next_line():
    output = "dpkg: error processing archive x.deb (--unpack):\n cannot copy: No space left on device\nE: Sub-process\n"
    said = complaints.explained(output)["said"]
    assert said == (
        "dpkg: error processing archive x.deb (--unpack): cannot copy: No space left on device; E: Sub-process"
    )


def test_of_a_long_line_what_and_why_stay():
    line = f"dpkg: error processing archive /tmp/{'x' * 400}.deb (--unpack): No space left on device"
    said = complaints.explained(line)["said"]
    assert said.startswith("dpkg: error processing archive") and said.endswith("No space left on device")
    assert len(said) < len(line)


def test_silence_is_said():
    assert complaints.explained("")["said"] == "it said nothing"


BUILD = """\
Building initial module tool/7.1 for 6.99.1-test-amd64
Sign command: /lib/modules/6.99.1-test-amd64/build/scripts/sign-file
Building module(s)...(bad exit status: 2)
Error! Bad return status for module build on kernel: 6.99.1-test-amd64 (x86_64)
Consult /var/lib/dkms/tool/7.1/build/make.log for more information.
dpkg: error processing package tool-dkms (--configure):
"""


def test_a_module_that_does_not_build():
    found = complaints.failed_build(BUILD)
    assert found == ("tool", "7.1", "6.99.1-test-amd64", "/var/lib/dkms/tool/7.1/build/make.log")
    assert complaints.failed_build("dpkg: error processing package tool-dkms") is None


def test_who_was_killed():
    assert complaints.killed("apt-get", -9, "") == "apt-get was killed (signal 9)"
    said = "Setting up tool (7.1) ...\nE: Sub-process /usr/bin/dpkg received signal 15.\n"
    assert complaints.killed("apt-get", 100, said) == "dpkg was killed (signal 15)"
    assert complaints.killed("apt-get", 100, "E: Sub-process /usr/bin/dpkg returned an error code (1)") is None


def test_the_line_that_says_why():
    log = "make: Entering directory\n  CC [M] a.o\na.c:12:3: error: too few arguments\nmake[1]: *** [a.o] Error 1\n"
    assert complaints.compiler_line(log) == "a.c:12:3: error: too few arguments"
    assert complaints.compiler_line("all is well\n") == "all is well"
    assert complaints.compiler_line("") == "its log says nothing"
