"""RDMA devices: each tool alone, all of them united, and the software around."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

IBSTAT = """\
CA 'mlx5_10'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.43.2026
\tNode GUID: 0x0000000000000001
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 75
\t\tSM lid: 3
\t\tPort GUID: 0x0000000000000002
\t\tLink layer: InfiniBand
CA 'mlx5_2'
\tCA type: MT4125
\tFirmware version: 22.43.2026
\tPort 1:
\t\tState: Down
\t\tPhysical state: Disabled
\t\tRate: 40
\t\tBase lid: 65535
\t\tSM lid: 0
\t\tLink layer: Ethernet
\tPort 2:
\t\tState: Initializing
\t\tPhysical state: LinkUp
\t\tRate: 100
\t\tLink layer: InfiniBand
"""

DEVINFO = """\
hca_id:\tmlx5_10
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.43.2026
\tboard_id:\t\t\tMT_0000000838
\tphys_port_cnt:\t\t\t1
\tdevice_cap_flags:\t\t0x21361c36
\t\t\t\t\tBAD_PKEY_CNTR
\tcompletion_timestamp_mask not supported
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t1024 (3)
\t\t\tsm_lid:\t\t\t3
\t\t\tport_lid:\t\t75
\t\t\tlink_layer:\t\tInfiniBand
\t\t\tactive_width:\t\t4X (2)
\t\t\tactive_speed:\t\t100.0 Gbps (128)
\t\t\tphys_state:\t\tLINK_UP (5)
\t\t\tGID[  0]:\t\tfe80:0000:0000:0000:0000:0000:0000:0002

hca_id:\troceo1
\tfw_ver:\t\t\t\t229.0.5.0
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_DOWN (1)
\t\t\tactive_mtu:\t\t4096 (5)
\t\t\tlink_layer:\t\tEthernet
\t\t\tactive_width:\t\t2X (16)
\t\t\tactive_speed:\t\t50.0 Gbps (64)
\t\t\tphys_state:\t\tPOLLING (2)
\t\t\tGID[  0]:\t\tfe80::1, RoCE v1
\t\t\tGID[  3]:\t\t::ffff:10.0.0.7, RoCE v2
"""


def port(observed, name, number=1):
    device = next(one for one in observed["rdma"]["devices"] if one["name"] == name)
    return next(one for one in device["ports"] if one["port"] == number)


def test_ibstat(look):
    observed = look(ibstat=IBSTAT)
    assert [one["name"] for one in observed["rdma"]["devices"]] == ["mlx5_2", "mlx5_10"]
    device = observed["rdma"]["devices"][1]
    assert (device["ca_type"], device["firmware"], device["board"]) == ("MT4129", "28.43.2026", None)
    up, down, waiting = port(observed, "mlx5_10"), port(observed, "mlx5_2"), port(observed, "mlx5_2", 2)
    assert (up["state"], up["physical_state"], up["rate_gbit_s"], up["lid"], up["sm_lid"]) == (
        *("Active", "LinkUp", 400.0, 75, 3),
    )
    assert (down["state"], down["physical_state"], down["link_layer"]) == ("Down", "Disabled", "Ethernet")
    assert waiting["state"] == "Initializing"
    assert (
        down["raw"] == "CA 'mlx5_2' Port 1 | State: Down | Physical state: Disabled | Rate: 40 | Link layer: Ethernet"
    )


def test_ibstatus_in_place_of_ibstat(look):
    text = (
        "Infiniband device 'ibp12s0' port 1 status:\n\tdefault gid:\t fe80:0000:0000:0000:0000:0000:0000:0001\n"
        "\tbase lid:\t 0x33bf\n\tsm lid:\t\t 0x1\n\tstate:\t\t 4: ACTIVE\n\tphys state:\t 5: LinkUp\n"
        "\trate:\t\t 200 Gb/sec (4X HDR)\n\tlink_layer:\t InfiniBand\n"
    )
    one = port(look(ibstat=text), "ibp12s0")
    assert (one["state"], one["physical_state"], one["rate_gbit_s"], one["lid"], one["sm_lid"], one["link_layer"]) == (
        *("Active", "LinkUp", 200.0, 0x33BF, 1, "InfiniBand"),
    )


def test_ibv_devinfo(look):
    observed = look(ibv_devinfo=DEVINFO)
    one = port(observed, "mlx5_10")
    assert (one["mtu_active"], one["mtu_max"], one["rate_gbit_s"], one["physical_state"]) == (
        1024,
        4096,
        400.0,
        "LinkUp",
    )
    other = port(observed, "roceo1")
    assert (other["state"], other["physical_state"], other["rate_gbit_s"]) == ("Down", "Polling", 100.0)
    assert other["gids"] == [
        {"index": 0, "gid": "fe80::1", "type": "v1"},
        {"index": 3, "gid": "::ffff:10.0.0.7", "type": "v2"},
    ]
    assert observed["rdma"]["devices"][0]["board"] == "MT_0000000838"
    assert observed["probes"]["ibv_devinfo"] == {"status": "ok", "notes": []}


def test_no_device_is_an_answer(look):
    assert look(ibv_devinfo=("No IB devices found\n", 255))["rdma"]["devices"] == []
    assert look(rdma_link="")["rdma"]["devices"] == []


@pytest.mark.parametrize(
    "outputs",
    [
        {},
        {"ibstat": ("", 1, "ibpanic: [123] main: stat of IB device failed\n")},
        {"rdma_link": ("", 1, "Failed to open NETLINK_RDMA socket\n")},
        {"ibv_devinfo": ("Failed to get IB devices list: Function not implemented\n", 1)},
        {"rdma_stack": "==> ls -l /sys/class/infiniband <==\nmlx5_0 -> ../0000:17:00.0/infiniband/mlx5_0\n"},
    ],
)
def test_no_answer_is_unknown(look, outputs):
    assert look(**outputs)["rdma"]["devices"] is None


LINKS = {
    "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens6np0 ": (
        "mlx5_0",
        "Active",
        "LinkUp",
        "ens6np0",
        None,
        None,
    ),
    "link roceP2p1s0f0/1 state DOWN physical_state DISABLED netdev enP2p1s0f0np0": (
        *("roceP2p1s0f0", "Down", "Disabled", "enP2p1s0f0np0", None, None),
    ),
    "link mlx5_ibp12s0/1 subnet_prefix fe80:0000:0000:0000 lid 9 sm_lid 3 lmc 0 state ACTIVE physical_state LINK_UP": (
        *("mlx5_ibp12s0", "Active", "LinkUp", None, "InfiniBand", 9),
    ),
    "1/1: mlx5_1/1: state INIT physical_state LINK_UP netdev ib1 netdev_index 5": (
        *("mlx5_1", "Initializing", "LinkUp", "ib1", None, None),
    ),
    "node-7: link mlx5_bond_0/1 state ACTIVE physical_state LINK_UP netdev bond0": (
        *("mlx5_bond_0", "Active", "LinkUp", "bond0", None, None),
    ),
}


@pytest.mark.parametrize("line", LINKS)
def test_rdma_link(look, line):
    name, *expected = LINKS[line]
    one = port(look(rdma_link=line + "\n"), name)
    assert [one[key] for key in ("state", "physical_state", "netdev", "link_layer", "lid")] == expected
    assert one["raw"] == line.strip()


GIDS = (
    "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n"
    "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n"
    "mlx5_0\t1\t0\tfe80:0000:0000:0000:0000:0000:0000:0001\t\t\tv1\tens1f0\n"
    "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:0007\t10.0.0.7  \tv2\tens1f0\n"
    "mlx5_0\t1\t5\t0000:0000:0000:0000:0000:ffff:0a01:0007\t10.1.0.7  \tv2\tens1f0.100\n"
    "mlx5_ibp9s0\t1\t0\tfe80:0000:0000:0000:0000:0000:0000:0009\t\t\tv1\n"
    "n_gids_found=4\n"
)


def test_gids(look):
    observed = look(gids=GIDS)
    assert [(one["index"], one["type"]) for one in port(observed, "mlx5_0")["gids"]] == [
        (0, "v1"),
        (3, "v2"),
        (5, "v2"),
    ]
    assert port(observed, "mlx5_0")["netdev"] == "ens1f0"
    assert port(observed, "mlx5_ibp9s0")["gids"][0]["gid"].endswith(":0009")


def test_union_of_all_tools(look):
    observed = look(
        ibstat=IBSTAT,
        ibv_devinfo=DEVINFO,
        rdma_link=(
            "link mlx5_10/1 state DOWN physical_state LINK_UP netdev ibs10\n"
            "link vf_3/1 state ACTIVE physical_state LINK_UP netdev eth3\n"
        ),
        gids=GIDS,
        rdma_stack=(
            "==> ls -l /sys/class/infiniband <==\ntotal 0\n"
            "lrwxrwxrwx 1 root root 0 Jan  1 00:00 mlx5_10"
            " -> ../../devices/pci0000:15/0000:15:01.0/0000:17:00.0/infiniband/mlx5_10\n"
            "lrwxrwxrwx 1 root root 0 Jan  1 00:00 vf_3"
            " -> ../../devices/pci0000:15/0000:15:01.0/0000:17:00.3/infiniband/vf_3\n"
            "lrwxrwxrwx 1 root root 0 Jan  1 00:00 rxe0 -> ../../devices/virtual/infiniband/rxe0\n\n"
            "==> virtual functions <==\nvf_3\n"
        ),
    )
    devices = {one["name"]: one for one in observed["rdma"]["devices"]}
    assert list(devices) == ["mlx5_0", "mlx5_2", "mlx5_10", "mlx5_ibp9s0", "roceo1", "vf_3"]
    united = devices["mlx5_10"]
    assert (united["pci_address"], united["board"], united["ca_type"], united["virtual"]) == (
        *("0000:17:00.0", "MT_0000000838", "MT4129", False),
    )
    one = united["ports"][0]
    assert (one["state"], one["mtu_active"], one["netdev"], one["lid"]) == ("Active", 1024, "ibs10", 75)
    assert devices["vf_3"]["virtual"] is True
    assert observed["probes"]["ibstat"]["notes"] == [
        "mlx5_10 port 1: state: ibstat says Active, ibv_devinfo says Active, rdma_link says Down"
    ]


STACK = """\
==> ofed_info -s <==
MLNX_OFED_LINUX-24.10-1.1.4.0:

==> ls -1 /sys/kernel/mm/memory_peers <==
nv_mem

==> readlink /usr/src/ofa_kernel/default <== exit 1

==> ls -1 /sys/class/infiniband <==
mlx5_0
mlx5_1

==> ls -1 /dev/infiniband <==
rdma_cm
uverbs0

==> mlnx_qos -i ens1f0 <==
DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
\tprio:0 dscp:07,06,05,04,03,02,01,00,
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   1   0   0   0   0
\tbuffer      0   0   0   1   0   0   0   0
tc: 0 ratelimit: unlimited, tsa: vendor

==> mlnx_qos -i ens2f0 <== exit 1
Netlink error

==> cma_roce_tos -d mlx5_0 <==
106
"""


def test_rdma_stack(look):
    observed = look(rdma_stack=STACK)
    stack = observed["rdma"]["stack"]
    assert stack["ofed"] == "MLNX_OFED_LINUX-24.10-1.1.4.0" and stack["ofed_kernel_source"] is None
    assert stack["memory_peers"] == ["nv_mem"] and stack["class_devices"] == ["mlx5_0", "mlx5_1"]
    assert stack["char_devices"] == ["rdma_cm", "uverbs0"]
    assert stack["qos"]["ens1f0"]["trust"] == "dscp" and stack["qos"]["ens1f0"]["pfc"] == [3]
    assert stack["qos"]["ens1f0"]["raw"] == "Priority trust state: dscp | pfc enabled 0 0 0 1 0 0 0 0"
    assert stack["qos"]["mlx5_0"]["roce_tos"] == 106
    assert "ens2f0" not in stack["qos"]
    assert observed["probes"]["rdma_stack"]["notes"] == ["mlnx_qos -i ens2f0 failed: Netlink error"]


def test_rdma_stack_without_flow_control(look):
    text = "==> mlnx_qos -i eth1 <==\nPFC configuration:\n\tpriority 0 1 2 3 4 5 6 7\n\tenabled  0 0 0 0 0 0 0 0\n"
    assert look(rdma_stack=text)["rdma"]["stack"]["qos"]["eth1"]["pfc"] == []


MLXCONFIG = """\
==> mlxconfig -d 0000:17:00.0 q <==

Device #1:
----------

Device type:        ConnectX7
Name:               MCX75310AAS-NEA_Ax
Description:        NVIDIA ConnectX-7 HHHL Adapter card; 400GbE / NDR IB
Device:             0000:17:00.0

Configurations:                                          Next Boot
        MEMIC_BAR_SIZE                              0
        LINK_TYPE_P1                                IB(1)
*       PCI_WR_ORDERING                             per_mkey(0)         force_relax(1)
        MODULE_SPLIT_M0                             Array[0..15]

==> mlxconfig -d 0000:3a:00.0 q <== exit 3
-E- Failed to open the device
"""


def test_mlxconfig(look):
    observed = look(mlxconfig=MLXCONFIG)
    settings = observed["rdma"]["mlxconfig"]
    assert list(settings) == ["0000:17:00.0"]
    assert settings["0000:17:00.0"]["Device type"] == "ConnectX7"
    assert settings["0000:17:00.0"]["LINK_TYPE_P1"] == "IB(1)"
    assert settings["0000:17:00.0"]["PCI_WR_ORDERING"] == "force_relax(1)"
    assert observed["probes"]["mlxconfig"]["notes"][0].startswith("cannot be read: mlxconfig -d 0000:3a:00.0 q:")


def test_mlxconfig_of_all_devices_in_one_output(look):
    text = MLXCONFIG.split("==> mlxconfig -d 0000:3a")[0].partition("\n")[2]
    second = text.replace("17:00.0", "9a:00.0").replace("IB(1)", "ETH(2)").replace("#1", "#2")
    settings = look(mlxconfig=text + second)["rdma"]["mlxconfig"]
    assert settings["0000:17:00.0"]["LINK_TYPE_P1"] == "IB(1)"
    assert settings["0000:9a:00.0"]["LINK_TYPE_P1"] == "ETH(2)"


def test_counters(look):
    text = (
        "mlx5_0/1 link_downed 0\nmlx5_0/1 symbol_error 12\nmlx5_10/1 carrier_changes 2\nmlx5_10/1 carrier_changes 3\n"
    )
    observed = look(rdma_counters=text)
    assert observed["rdma"]["counters"] == {
        "mlx5_0/1": {"link_downed": 0, "symbol_error": 12},
        "mlx5_10/1": {"carrier_changes": 5},
    }
    assert look(rdma_counters="")["rdma"]["counters"] == {}
    broken = look(rdma_counters="what is this\n")
    assert broken["rdma"]["counters"] is None
    assert broken["probes"]["rdma_counters"]["status"] == "unreadable"
