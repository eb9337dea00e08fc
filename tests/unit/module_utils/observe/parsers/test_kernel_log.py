"""Kernel log: Xid and SXid lines of old and new drivers, PCIe errors, in every style of time stamp."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

XID = "NVRM: Xid (PCI:0000:3b:00): 94, pid=812, name=python3, Contained: SM (0x1). RST: No, D-RST: No"

STYLES = {
    "[ 4711.250001] ": "4711.250001",
    "[Tue Mar  3 10:11:12 2026] ": "Tue Mar  3 10:11:12 2026",
    "2026-03-03T10:11:12,123456+00:00 ": "2026-03-03T10:11:12,123456+00:00",
    "kern  :warn  : 2026-03-03T10:11:12,123456+00:00 ": "2026-03-03T10:11:12,123456+00:00",
    "kern  :warn  : [ 4711.250001] ": "4711.250001",
    "2026-03-03T10:11:12+0100 node-a kernel: ": "2026-03-03T10:11:12+0100",
    "2026-03-03T10:11:12.123456+01:00 node-a kernel: [ 4711.250001] ": "2026-03-03T10:11:12.123456+01:00",
    "Mar  3 10:11:12 node-a kernel: ": "Mar  3 10:11:12",
    "Mar 13 10:11:12 node-a kernel: [ 4711.250001] ": "Mar 13 10:11:12",
    "4,2107,4711250001,-;": "4711.250001",
    "<4>[ 4711.250001] ": "4711.250001",
    "[  +0.000012] ": "+0.000012",
    "": None,
}


@pytest.mark.parametrize("style", STYLES)
def test_time_stamp_styles(look, style):
    xid = look(dmesg=f"{style}{XID}\n")["kernel_log"]["xids"]
    assert xid == [
        {"xid": 94, "pci_address": "0000:3b:00.0", "count": 1, "last": STYLES[style], "raw": f"{style}{XID}".strip()}
    ]


@pytest.mark.parametrize(
    ("line", "number", "address"),
    [
        ("NVRM: Xid (PCI:0000:10:1c): 63, pid=18, Row Remapper: New row marked", 63, "0000:10:1c.0"),
        ("NVRM: Xid (PCI:000d:00:00): 31, Ch 00000010, engmask 00000101", 31, "000d:00:00.0"),
        ("NVRM: Xid (0000:03:00): 31, Ch 00000008, engmask 00000101, intr 10000000", 31, "0000:03:00.0"),
        ("NVRM: Xid (0:3:0): 13, 0003 00000000 000090c0 00001b0c 1000f010 00000040", 13, "0000:03:00.0"),
        ("NVRM: Xid (PCI:0000:9b:00): 119, pid=20, name=nvidia-smi, Timeout after 6s of waiting", 119, "0000:9b:00.0"),
        ("NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal", 149, "0009:01:00.0"),
        ("NVRM: Xid (PCI:0000:1b:00 GPU-I:02): 43, pid=3, Ch 00000008", 43, "0000:1b:00.0"),
    ],
)
def test_xid_lines_of_all_generations(look, line, number, address):
    (xid,) = look(dmesg=f"[    1.000000] {line}\n")["kernel_log"]["xids"]
    assert (xid["xid"], xid["pci_address"]) == (number, address)


def test_xids_are_counted_by_number_and_gpu_and_the_last_is_kept(look):
    lines = "".join(
        f"[{second:4}.000000] NVRM: Xid (PCI:0000:{bus}:00): {number}, event {second}\n"
        for second, bus, number in ((1, "3b", 13), (2, "3b", 13), (3, "86", 13), (4, "3b", 154), (5, "3b", 13))
    )
    xids = look(dmesg=lines)["kernel_log"]["xids"]
    assert [(xid["xid"], xid["pci_address"], xid["count"], xid["last"]) for xid in xids] == [
        (13, "0000:3b:00.0", 3, "5.000000"),
        (13, "0000:86:00.0", 1, "3.000000"),
        (154, "0000:3b:00.0", 1, "4.000000"),
    ]
    assert xids[0]["raw"].endswith("event 5")


def test_sxid_keeps_the_telling_line(look):
    text = (
        "[  9.100000] nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 12028, Non-fatal, Link 21 egress\n"
        "[  9.200000] nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 12028, Data {0x00000001, 0x00000000}\n"
        "[ 10.000000] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
        "[ 10.100000] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Severity 1 Engine instance 30\n"
    )
    sxids = look(dmesg=text)["kernel_log"]["sxids"]
    assert [(one["xid"], one["count"], one["fatal"]) for one in sxids] == [(12028, 2, False), (20034, 2, True)]
    assert sxids[0]["raw"].endswith("Link 21 egress")
    assert sxids[1]["raw"].endswith("LTSSM Fault Up")


def test_fallen_off_the_bus_without_an_xid(look):
    text = (
        "[  5.000000] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "               NVRM: fallen off the bus and is not responding to commands.\n"
        "[  6.000000] nvidia: probe of 0000:b3:00.0 failed with error -1\n"
    )
    log = look(dmesg=text)["kernel_log"]
    assert log["fallen_off"] == ["0000:b3:00.0"]
    assert log["xids"] == []


SHORT = """\
NVRM: API mismatch: the client has the version 545.23.08, but
NVRM: this kernel module has the version 545.23.06.  Please
NVRM: make sure that this kernel module and all components agree
"""
LONG = """\
NVRM: API mismatch: the client 'python3' (pid 77)
NVRM: has the version 545.23.08, but this kernel module has
NVRM: the version 545.23.06.  Please make sure
"""


@pytest.mark.parametrize("text", [SHORT, LONG])
def test_library_of_another_version(look, text):
    mismatch = look(dmesg=text)["kernel_log"]["nvrm_mismatch"]
    assert (mismatch["module"], mismatch["library"]) == ("545.23.06", "545.23.08")


def test_half_a_mismatch_is_not_guessed(look):
    text = "NVRM: API mismatch: the client has the version 545.23.08, but\n"
    assert look(dmesg=text)["kernel_log"]["nvrm_mismatch"] is None


def test_pcie_errors_by_device_and_severity(look):
    text = (
        "[ 1.0] pcieport 0000:c0:01.1: AER: Corrected error received: 0000:c1:00.0\n"
        "[ 1.1] nvidia 0000:c1:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)\n"
        "[ 1.2] nvidia 0000:c1:00.0:   device [10de:2330] error status/mask=00000001/0000e000\n"
        "[ 2.0] nvidia 0000:c1:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)\n"
        "[ 3.0] pcieport 0000:00:1c.0: AER: Multiple Uncorrectable (Non-Fatal) error message received from"
        " 0000:02:00.0\n"
    )
    aer = look(dmesg=text)["kernel_log"]["aer"]
    assert [(one["pci_address"], one["severity"], one["count"]) for one in aer] == [
        ("0000:c1:00.0", "corrected", 2),
        ("0000:02:00.0", "nonfatal", 1),
    ]


def test_killed_for_memory(look):
    text = (
        "[ 8.0] Out of memory: Killed process 901 (pt_main_thread) total-vm:1kB, anon-rss:1kB\n"
        "[ 9.0] Memory cgroup out of memory: Kill process 902 (python3) score 1 or sacrifice child\n"
    )
    oom = look(dmesg=text)["kernel_log"]["oom"]
    assert [(one["pid"], one["process"], one["cgroup"]) for one in oom] == [
        (901, "pt_main_thread", False),
        (902, "python3", True),
    ]


def test_lines_that_only_look_alike(look):
    text = (
        "[ 1.0] usb 1-1: SerialNumber: Xid (PCI) 79\n"
        "[ 2.0] systemd[1]: Started NVIDIA Persistence Daemon.\n"
        '[ 3.0] audit: type=1400 comm="Xid: 31"\n'
    )
    log = look(dmesg=text)["kernel_log"]
    assert (log["xids"], log["sxids"], log["aer"], log["oom"], log["notable"]) == ([], [], [], [], [])


def test_a_refused_log_is_unknown_and_an_empty_one_is_empty(look):
    refused = look(dmesg=("", 1, "dmesg: read kernel buffer failed: Operation not permitted\n"))
    assert refused["kernel_log"] is None
    assert look(dmesg="")["kernel_log"]["xids"] == []


def test_repeated_notable_lines_are_kept_once(look):
    text = "".join(f"[ {n}.0] mlx5_core 0000:17:00.0: health poll failed\n" for n in range(500))
    assert look(dmesg=text)["kernel_log"]["notable"] == ["[ 0.0] mlx5_core 0000:17:00.0: health poll failed"]


def test_no_unit_that_could_log(look):
    observation = look(journal_nvidia=("", 1, "Failed to add filter for units: No data available\n"))
    assert observation["journal_nvidia"] == []
    assert observation["probes"]["journal_nvidia"]["status"] == "ok"


def test_journal_of_the_services(look):
    text = (
        "-- Boot 0a1b --\n"
        "2026-03-03T10:00:00+0000 node-a nv-fabricmanager[77]: failed to find any NVSwitch devices\n"
        "2026-03-03T10:00:01+0000 node-a systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.\n"
    )
    assert look(journal_nvidia=text)["journal_nvidia"] == [
        {
            "time": "2026-03-03T10:00:00+0000",
            "unit": "nv-fabricmanager",
            "text": "failed to find any NVSwitch devices",
        },
        {
            "time": "2026-03-03T10:00:01+0000",
            "unit": "systemd",
            "text": "nvidia-fabricmanager.service: Failed with result 'exit-code'.",
        },
    ]
