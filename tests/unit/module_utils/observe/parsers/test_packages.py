"""dpkg, apt, rpm, dnf, dkms: what is installed, held, pinned, offered, built."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

DPKG = """\
ii  libnvidia-compute-580 580.95.05-0ubuntu1 amd64
ii  libnvidia-compute-580 580.95.05-0ubuntu1 i386
hi  nvidia-utils-580 580.95.05-0ubuntu1 amd64
iF  nvidia-dkms-580 580.95.05-0ubuntu1 amd64
iU  nvidia-driver-580 580.95.05-0ubuntu1 amd64
iHR broken-thing 1.0 all
iW  trigger-waits 2:1.1-3 amd64
rc  nvidia-dkms-550 550.90.07-0ubuntu1 amd64
un  nvidia-kernel-source
"""


def test_dpkg_tells_states_apart(look):
    packages = look(dpkg=DPKG)["packages"]
    assert packages["dpkg"] == {
        "libnvidia-compute-580": "580.95.05-0ubuntu1",
        "nvidia-utils-580": "580.95.05-0ubuntu1",
        "trigger-waits": "2:1.1-3",
    }
    assert [entry["state"] for entry in packages["dpkg_entries"]] == [
        *("ii", "ii", "hi", "iF", "iU", "iHR", "iW", "rc", "un"),
    ]


def test_dpkg_takes_the_nodes_own_architecture_in_any_order(look):
    text = "ii  libcuda1 1.0-old i386\nii  libcuda1 2.0-own amd64\n"
    assert look(dpkg=text)["packages"]["dpkg"] == {"libcuda1": "2.0-own"}


def test_dpkg_list_form(look):
    text = (
        "Desired=Unknown/Install/Remove/Purge/Hold\n"
        "| Status=Not/Inst/Conf-files/Unpacked/halF-conf/Half-inst/trig-aWait/Trig-pend\n"
        "|/ Err?=(none)/Reinst-required (Status,Err: uppercase=bad)\n"
        "||/ Name           Version      Architecture Description\n"
        "+++-==============-============-============-=================================\n"
        "ii  libcuda1:amd64 580.82.07-1  amd64        NVIDIA CUDA Driver Library\n"
    )
    observed = look(dpkg=text)
    assert observed["packages"]["dpkg_entries"] == [
        {"name": "libcuda1", "version": "580.82.07-1", "arch": "amd64", "state": "ii"}
    ]
    assert observed["probes"]["dpkg"]["notes"] == []


def test_dpkg_rows_without_a_state_are_not_taken_for_installed(look):
    observed = look(dpkg="nvidia-dkms-550\t550.90.07-0ubuntu1\nbash\t5.2.21-2\n")
    assert observed["packages"]["dpkg"] is None
    assert "show no state" in observed["probes"]["dpkg"]["notes"][0]
    assert observed["probes"]["dpkg"]["status"] == "unreadable"


def test_dpkg_that_is_no_package_list(look):
    observed = look(dpkg="<html>\nno such host\n")
    assert observed["packages"]["dpkg"] is None
    assert observed["probes"]["dpkg"]["status"] == "unreadable"


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("", []),
        ("nvidia-driver-580\nlibcuda1:i386\nlibcuda1\n", ["nvidia-driver-580", "libcuda1"]),
    ],
)
def test_apt_holds(look, text, held):
    assert look(apt_holds=text)["packages"]["held"] == held


def test_apt_holds_that_failed_is_unknown_not_empty(look):
    assert look(apt_holds=("", 100, "E: could not open lock"))["packages"]["held"] is None


POLICY = """\
nvidia-driver-580-open:
  Installed: 580.82.07-0ubuntu1
  Candidate: 580.95.05-0ubuntu2
  Version table:
     580.95.05-0ubuntu2 600
        600 https://mirror.example/cuda/ubuntu2404  Packages
     580.90.01-0ubuntu1 500 (phased 20%)
        500 http://archive.example/ubuntu noble-updates/restricted amd64 Packages
 *** 580.82.07-0ubuntu1 100
        100 /var/lib/dpkg/status
nvidia-fabricmanager-580:
  Installed: (none)
  Candidate: (none)
  Package pin: 580.82.07-1
  Version table:
     580.82.07-1 -10
         -1 https://mirror.example/cuda/ubuntu2404  Packages
"""


def test_apt_policy(look):
    policy = look(apt_policy=POLICY)["packages"]["policy"]
    driver = policy["nvidia-driver-580-open"]
    assert (driver["installed"], driver["candidate"]) == ("580.82.07-0ubuntu1", "580.95.05-0ubuntu2")
    keys = ("version", "priority", "installed", "phased_percent")
    assert [tuple(one[key] for key in keys) for one in driver["versions"]] == [
        ("580.95.05-0ubuntu2", 600, False, None),
        ("580.90.01-0ubuntu1", 500, False, 20),
        ("580.82.07-0ubuntu1", 100, True, None),
    ]
    assert driver["versions"][0]["origins"] == ["https://mirror.example/cuda/ubuntu2404  Packages"]
    assert "Candidate: 580.95.05-0ubuntu2" in driver["raw"]
    manager = policy["nvidia-fabricmanager-580"]
    assert (manager["installed"], manager["candidate"], manager["pin"]) == (None, None, "580.82.07-1")
    assert manager["versions"][0]["priority"] == -10


HISTORY = """\
ian-archive-keyring:amd64 (1, 2), tail-of-a-long-line:amd64 (3, 4)
End-Date: 2026-03-01  06:00:01

Start-Date: 2026-03-02  06:11:42
Commandline: /usr/bin/unattended-upgrade
Upgrade: libcuda1:amd64 (580.82-1, 580.95-1), nvidia-utils-580:amd64 (580.82.07-0ubuntu1, 580.95.05-0ubuntu1)
Install: linux-image-6.8.0-52-generic:amd64 (6.8.0-52.53, automatic)
Remove: old-thing:amd64 (1.0)
End-Date: 2026-03-02  06:12:10

Start-Date: 2026-03-03  09:00:00
Commandline: apt-get install -y dkms
Requested-By: ops (1000)
Error: Sub-process /usr/bin/dpkg returned an error code (1)
End-Date: 2026-03-03  09:00:05
"""


def test_apt_history(look):
    observed = look(apt_history=HISTORY)
    first, upgrade, failed = observed["packages"]["history"]
    assert first["end"] == "2026-03-01 06:00:01" and first["actions"] == {}
    assert upgrade["start"] == "2026-03-02 06:11:42"
    assert upgrade["commandline"] == "/usr/bin/unattended-upgrade"
    moved = upgrade["actions"]["upgrade"][1]
    assert (moved["name"], moved["arch"], moved["from"], moved["to"]) == (
        *("nvidia-utils-580", "amd64", "580.82.07-0ubuntu1", "580.95.05-0ubuntu1"),
    )
    assert moved["raw"] == "Upgrade: nvidia-utils-580:amd64 (580.82.07-0ubuntu1, 580.95.05-0ubuntu1)"
    new = upgrade["actions"]["install"][0]
    assert (new["from"], new["to"], new["automatic"]) == (None, "6.8.0-52.53", True)
    gone = upgrade["actions"]["remove"][0]
    assert (gone["from"], gone["to"]) == ("1.0", None)
    assert failed["requested_by"] == "ops (1000)" and failed["error"].startswith("Sub-process")
    assert observed["probes"]["apt_history"]["notes"] == []


SOURCES = """\
==> /etc/apt/sources.list <==
# deb cdrom:[old disc]/ noble main
deb http://archive.example/ubuntu noble main restricted # ours

==> /etc/apt/sources.list.d/cuda.list <==
deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/cuda.gpg trusted=yes] https://mirror.example/cuda/ubuntu2404/ /
this is not a source

==> /etc/apt/sources.list.d/vendor.sources <==
Types: deb deb-src
# a comment inside
URIs: https://one.example/debian
 https://two.example/debian
Suites: stable
Components: main
Enabled: no
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: https://three.example/
Suites: ./
Trusted: yes

==> keys <==
/usr/share/keyrings/cuda.gpg 0123456789ABCDEF0123456789ABCDEF01234567 Vendor Key <keys@vendor.example>
"""


def test_apt_sources(look):
    observed = look(apt_sources=SOURCES)
    packages = observed["packages"]
    plain, cuda, vendor, flat = packages["sources"]
    assert (plain["uris"], plain["suites"], plain["components"]) == (
        *(["http://archive.example/ubuntu"], ["noble"], ["main", "restricted"]),
    )
    assert plain["signed_by"] is None and plain["enabled"] is True and plain["trusted"] is None
    assert cuda["signed_by"] == "/usr/share/keyrings/cuda.gpg" and cuda["trusted"] is True
    assert cuda["architectures"] == ["amd64", "arm64"] and cuda["suites"] == ["/"] and cuda["components"] == []
    assert vendor["types"] == ["deb", "deb-src"] and vendor["enabled"] is False
    assert vendor["uris"] == ["https://one.example/debian", "https://two.example/debian"]
    assert vendor["signed_by"] == "embedded key"
    assert flat["trusted"] is True and flat["file"].endswith("vendor.sources")
    assert packages["keys"] == [
        {
            "keyring": "/usr/share/keyrings/cuda.gpg",
            "fingerprint": "0123456789ABCDEF0123456789ABCDEF01234567",
            "uid": "Vendor Key <keys@vendor.example>",
        }
    ]
    assert observed["probes"]["apt_sources"]["notes"] == [
        "cannot be read: /etc/apt/sources.list.d/cuda.list: this is not a source"
    ]


def test_apt_sources_without_the_keys_section_knows_no_keys(look):
    packages = look(apt_sources="==> /etc/apt/sources.list <==\n")["packages"]
    assert packages["sources"] == [] and packages["keys"] is None


CONFIG = """\
==> /etc/apt/apt.conf.d/20auto-upgrades <==
APT::Periodic::Update-Package-Lists "1";
APT::Periodic::Unattended-Upgrade "1";

==> /etc/apt/apt.conf.d/50unattended-upgrades <==
// Automatically upgrade
Unattended-Upgrade::Allowed-Origins {
        "${distro_id}:${distro_codename}-security";
//      "${distro_id}:${distro_codename}-updates";
        "vendor:https://mirror.example//x/*";
};
/* block
   "not-this"; */
Unattended-Upgrade::Package-Blacklist {
    "linux-"; # a comment here too
    "nvidia-";
};
Unattended-Upgrade::Automatic-Reboot "true";

==> /etc/apt/apt.conf.d/90site <==
unattended-upgrade::Package-Blacklist:: "libnvidia-";
Unattended-Upgrade::Automatic-Reboot "false";
#clear APT::Periodic::Update-Package-Lists;
Dpkg { Options { "--force-confdef"; } }

==> /etc/apt/preferences.d/cuda <==
Explanation: keep the driver
Package: nvidia-* libnvidia-*
Pin: version 580.95.05*
Pin-Priority: 1001

Package: *
Pin: release o=NVIDIA
Pin-Priority: -1
"""


def test_apt_config_adds_up_as_apt_does(look):
    packages = look(apt_config=CONFIG)["packages"]
    settings = packages["apt_settings"]
    assert settings["apt::periodic::unattended-upgrade"] == ["1"]
    assert "apt::periodic::update-package-lists" not in settings
    assert settings["unattended-upgrade::allowed-origins"] == [
        "${distro_id}:${distro_codename}-security",
        "vendor:https://mirror.example//x/*",
    ]
    assert settings["unattended-upgrade::package-blacklist"] == ["linux-", "nvidia-", "libnvidia-"]
    assert settings["unattended-upgrade::automatic-reboot"] == ["false"]
    assert settings["dpkg::options"] == ["--force-confdef"]
    assert [(pin["packages"], pin["pin"], pin["priority"]) for pin in packages["apt_pins"]] == [
        (["nvidia-*", "libnvidia-*"], "version 580.95.05*", 1001),
        (["*"], "release o=NVIDIA", -1),
    ]
    assert "not-this" not in str(settings)
    assert packages["apt_config"]["/etc/apt/apt.conf.d/90site"].startswith("unattended-upgrade::")


def test_rpm(look):
    text = (
        "kernel-core 0:5.14.0-503.el9 x86_64\nkernel-core 0:5.14.0-570.el9 x86_64\n"
        "nvidia-driver 3:580.95.05-1.el9 x86_64\ngpg-pubkey (none):d42d0685-62589a51 (none)\n"
        "libnccl-2.28.3-1+cuda13.0.x86_64\n"
    )
    packages = look(rpm=text)["packages"]
    assert packages["rpm"] == {
        "kernel-core": "5.14.0-503.el9",
        "nvidia-driver": "3:580.95.05-1.el9",
        "gpg-pubkey": "d42d0685-62589a51",
        "libnccl": "2.28.3-1+cuda13.0",
    }
    assert len(packages["rpm_entries"]) == 5


@pytest.mark.parametrize(
    ("text", "locks"),
    [
        ("", []),
        (
            "Last metadata expiration check: now\nnvidia-driver-3:580.95.05-1.el9.*\n!kernel-0:5.14.0-570.el9.*\n",
            ["nvidia-driver-3:580.95.05-1.el9.*", "!kernel-0:5.14.0-570.el9.*"],
        ),
        (
            "# dnf\nPackage name: nvidia-driver\nevr = 3:580.95.05-1.fc42\n\nPackage name: kernel\nversion < 6.1",
            ["nvidia-driver-3:580.95.05-1.fc42", "kernel version < 6.1"],
        ),
    ],
)
def test_dnf_versionlock(look, text, locks):
    assert look(dnf_versionlock=text)["packages"]["versionlock"] == locks


def test_dkms_old_and_new_form(look):
    text = (
        "nvidia/580.95.05, 6.8.0-52-generic, x86_64: installed\n"
        "nvidia, 470.256.02, 5.4.0-42-generic, x86_64: built\n"
        "mlnx-ofed-kernel/25.04.OFED.25.04.0.6.1.1: added\n"
        "nvidia/580.95.05, 6.8.0-51-generic, x86_64: installed (WARNING! Diff between built and installed module!)\n"
        "Error! Could not locate dkms.conf file.\n"
    )
    observed = look(dkms=text)
    found = observed["packages"]["dkms"]
    assert [(one["module"], one["version"], one["kernel"], one["state"]) for one in found] == [
        ("nvidia", "580.95.05", "6.8.0-52-generic", "installed"),
        ("nvidia", "470.256.02", "5.4.0-42-generic", "built"),
        ("mlnx-ofed-kernel", "25.04.OFED.25.04.0.6.1.1", None, "added"),
        ("nvidia", "580.95.05", "6.8.0-51-generic", "installed"),
    ]
    assert found[3]["warning"].startswith("(WARNING!")
    assert observed["probes"]["dkms"]["notes"] == ["cannot be read: Error! Could not locate dkms.conf file."]


def test_dkms_log_keeps_the_end(look):
    log = look(dkms_log="x" * 50000 + "\nmake: *** [Makefile:1234: all] Error 2\n")["packages"]["dkms_log"]
    assert log.endswith("Error 2") and len(log) == 32 * 1024


@pytest.mark.parametrize(
    ("output", "answer", "status"),
    [
        ("SecureBoot enabled\n", True, "ok"),
        ("SecureBoot disabled\nPlatform is in Setup Mode\n", False, "ok"),
        ("SecureBoot enabled\nSecureBoot validation is disabled in shim\n", False, "ok"),
        (("", 0, "EFI variables are not supported on this system\n"), False, "ok"),
        ("This system doesn't support Secure Boot\n", False, "ok"),
        ("something else\n", None, "unreadable"),
    ],
)
def test_secure_boot(look, output, answer, status):
    observed = look(secure_boot=output)
    assert observed["boot"]["secure_boot"] is answer
    assert observed["boot"]["secure_boot_raw"]
    assert observed["probes"]["secure_boot"]["status"] == status
