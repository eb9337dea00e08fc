"""Other vendors' tools in the header forms that their releases print."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest

NPU_HEAD = """\
+------------------------------------------------------------------------------------------------+
| npu-smi {version}                   Version: {version}                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
"""
NPU_NEW = (
    NPU_HEAD.format(version="24.1.0")
    + """\
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 101.8       43                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3318 / 65536         |
+===========================+===============+====================================================+
| 5     910B3               | Alarm         | 99.0        91                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3314 / 65536         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 4711          | python3                  | 120                     |
"""
)
NPU_TWO_CHIPS = (
    NPU_HEAD.format(version="25.3.0")
    + """\
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     Ascend910           | OK            | 178.3       36                0    / 0             |
| 0     0                   | 0000:9D:00.0  | 0           0    / 0          3158 / 65536         |
+------------------------------------------------------------------------------------------------+
| 0     Ascend910           | OK            | -           37                0    / 0             |
| 1     12                  | 0000:9F:00.0  | 0           0    / 0          2888 / 65536         |
+===========================+===============+====================================================+
"""
)
NPU_NO_BARS = """\
| npu-smi 23.0.0                    Version: 23.0.0                                  |
| NPU  Name       Health   Power(W)   Temp(C)    Hugepages-Usage(page)  |
| Chip  Device    Bus-Id   AICore(%)  Memory-Usage(MB)                   |
| 3     910A      OK       65.0       42         0    / 0                 |
| 0     0         0000:7B:00.0   0    0     / 32768                      |
"""


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        (NPU_NEW, [(0, "910B3", "OK", "0000:c1:00.0"), (5, "910B3", "Alarm", "0000:c2:00.0")]),
        (NPU_TWO_CHIPS, [(0, "Ascend910", "OK", "0000:9d:00.0"), (0, "Ascend910", "OK", "0000:9f:00.0")]),
        (NPU_NO_BARS, [(3, "910A", "OK", "0000:7b:00.0")]),
    ],
)
def test_npu_smi(look, text, cards):
    found = look(npu_smi=text)["accelerators"]
    assert [(one["index"], one["name"], one["health"], one["pci_address"]) for one in found] == cards
    assert {one["vendor"] for one in found} == {"huawei"}


CNMON_HEAD = """\
Sat Oct  8 11:22:22 2026
+------------------------------------------------------------------------------+
| CNMON v5.10.13                                               Driver v5.10.13 |
+-------------------------------+----------------------+-----------------------+
"""
CNMON_NEW = (
    CNMON_HEAD
    + """\
| Card  VF  Name       Firmware |               Bus-Id | Util        Ecc-Error |
| Fan   Temp      Pwr:Usage/Cap |         Memory-Usage | SR-IOV   Compute-Mode |
|===============================+======================+=======================|
| 0     /   MLU370-X8    v1.1.6 |         0000:39:00.0 | 0%                N/A |
|  0%   32C        106 W/ 250 W |     0 MiB/ 23374 MiB | N/A           Default |
+-------------------------------+----------------------+-----------------------+
| Processes:                                                                   |
|  Card  MI  PID     Command Line                             MLU Memory Usage |
|  No running processes found                                                  |
"""
)
CNMON_OLD = (
    CNMON_HEAD
    + """\
| Card  VF  Name       Firmware | Inited        Driver | Util        Ecc-Error |
| Fan   Temp      Pwr:Usage/Cap |         Memory-Usage |         vMemory-Usage |
|===============================+======================+=======================|
| 0     /   MLU290-M5    v1.1.6 | On          v4.20.11 | 0%          N/A       |
|  0%   32C         30 W/ 150 W |     0 MiB/ 23308 MiB | 10240 MiB/1048576 MiB |
| 1     /   MLU290-M5    v1.1.6 | On          v4.20.11 | 0%          N/A       |
|  0%   33C         25 W/ 150 W |     0 MiB/ 23308 MiB | 10240 MiB/1048576 MiB |
"""
)
CNMON_LIST = """\
CNMON v6.2.29
Card 0
    Product Name        : MLU590-M9
    PCIe Address        : 0000:0e:00.0
    Health              : Good
Card 1
    Product Name        : MLU590-M9
    Health              : N/A
"""


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        (CNMON_NEW, [(0, "MLU370-X8", None, "0000:39:00.0")]),
        (CNMON_OLD, [(0, "MLU290-M5", None, None), (1, "MLU290-M5", None, None)]),
        (CNMON_LIST, [(0, "MLU590-M9", "Good", "0000:0e:00.0"), (1, "MLU590-M9", None, None)]),
    ],
)
def test_cnmon(look, text, cards):
    found = look(cnmon=text)["accelerators"]
    assert [(one["index"], one["name"], one["health"], one["pci_address"]) for one in found] == cards


ROCM_JSON = json.dumps(
    {
        "card0": {"Device ID": "0x74a1", "Card Series": "AMD Instinct MI300X OAM", "PCI Bus": "0000:26:00.0"},
        "card10": {"GPU ID": "0x73df", "Card series": "0x1002", "Card model": "0x1002", "PCI Bus": "0000:46:00.0"},
        "system": {"Driver version": "6.7.0"},
    }
)
ROCM_TEXT = """\
============================ ROCm System Management Interface ============================
GPU[0]\t\t: Device ID: 0x74a1
GPU[1]\t\t: Not supported
GPU[1]\t\t: PCI Bus: 0000:46:00.0
GPU[0]\t\t: Card series: \t\tAMD Instinct MI300X OAM
GPU[0]\t\t: Card model: \t\t0x74a1
================================== End of ROCm SMI Log ===================================
"""
AMD_STATIC = "GPU: 3\n    ASIC:\n        MARKET_NAME: MI300X-O\n    BUS:\n        BDF: 0000:05:00.0\n"


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        (
            "WARNING: unlocked the power cap\n" + ROCM_JSON,
            [(0, "AMD Instinct MI300X OAM", "0000:26:00.0"), (10, None, "0000:46:00.0")],
        ),
        (ROCM_TEXT, [(0, "AMD Instinct MI300X OAM", None), (1, None, "0000:46:00.0")]),
        (AMD_STATIC, [(3, "MI300X-O", "0000:05:00.0")]),
    ],
)
def test_rocm_smi(look, text, cards):
    found = look(rocm_smi=text)["accelerators"]
    assert [(one["index"], one["name"], one["pci_address"]) for one in found] == cards
    assert all(one["health"] is None for one in found)


def test_accelerators_of_all_tools_in_one_list(look):
    found = look(npu_smi=NPU_NO_BARS, cnmon=CNMON_OLD, rocm_smi=AMD_STATIC)["accelerators"]
    assert [one["vendor"] for one in found] == ["huawei", "cambricon", "cambricon", "amd"]


@pytest.mark.parametrize(
    ("output", "accelerators", "status"),
    [
        (("dcmi model initialized failed, ret is -8020\n", 255), None, "error"),
        ("| npu-smi 24.1.0      Version: 24.1.0 |\n", [], "ok"),
        ("/bin/sh: npu-smi: something\nelse\n", None, "unreadable"),
        ("<html>\n", None, "unreadable"),
    ],
)
def test_npu_smi_without_a_device(look, output, accelerators, status):
    observed = look(npu_smi=output)
    assert observed["accelerators"] == accelerators
    assert observed["probes"]["npu_smi"]["status"] == status
