"""The path that NCCL took, from its own log, and what is wrong with it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.rules_logs import RULES
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.lines import split
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.log import evidence, path_findings
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.result import parse

#: Two nodes of two GPUs over RDMA, both ends of each channel between them in the log.
HEALTHY = """\
gpu-a:10:20 [0] NCCL INFO cudaDriverVersion 12080
gpu-a:10:20 [0] NCCL INFO Bootstrap: Using eth1:10.0.0.4<0>
gpu-a:10:20 [0] NCCL INFO NCCL version 2.27.5+cuda12.9
gpu-b:30:40 [0] NCCL INFO NCCL version 2.27.5+cuda12.9
gpu-a:10:20 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_3:1/IB [RO]; OOB eth1:10.0.0.4<0>
gpu-a:10:20 [0] NCCL INFO Using network IB
gpu-a:10:20 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'
gpu-a:10:20 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 1 'mlx5_3'
gpu-a:10:20 [0] NCCL INFO comm 0x1 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0
gpu-a:10:20 [0] NCCL INFO NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)
gpu-a:10:20 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
gpu-a:10:20 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
gpu-a:11:21 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0/GDRDMA
gpu-b:30:40 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [receive] via NET/IB/0/GDRDMA
gpu-b:31:41 [1] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [send] via NET/IB/1(2)/GDRDMA(PCI)/Shared
gpu-b:30:40 [0] NCCL INFO Channel 01/0 : 2[0] -> 3[1] via P2P/IPC
gpu-a:10:20 [0] NCCL INFO 16 coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels
gpu-b:30:40 [0] NCCL INFO 16 coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels
gpu-a:10:20 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 - Init COMPLETE
"""
DECLARED = {"nodes": 2, "rdma": True, "interface": "eth1", "devices": ["mlx5_0", "mlx5_3"], "p2p": True, "nvls": True}
SOCKETS = HEALTHY.replace("NET/IB/0/GDRDMA", "NET/Socket/0").replace("NET/IB/1(2)/GDRDMA(PCI)", "NET/Socket/1(2)")
SOCKETS = SOCKETS.replace("Using network IB", "Using network Socket").replace(
    "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_3:1/IB [RO]; OOB eth1:10.0.0.4<0>", "NET/IB : No device found."
)


def seen(text):
    return evidence(split(text)[1])


def rules(text, **declared):
    return [one["rule"] for one in path_findings(seen(text), {**DECLARED, **declared})]


def test_what_a_log_shows():
    told = seen(HEALTHY)
    assert told["transports"] == {"P2P/CUMEM": 2, "NET/IB": 2, "P2P/IPC": 1} == parse(HEALTHY)["transports"]
    assert told["pairs"] == [
        {"from": 0, "to": 1, "transports": {"P2P/CUMEM": 2}},
        {"from": 1, "to": 2, "transports": {"NET/IB": 1}},
        {"from": 2, "to": 3, "transports": {"P2P/IPC": 1}},
        {"from": 3, "to": 0, "transports": {"NET/IB": 1}},
    ]
    assert (told["network_channels"], told["gpudirect_channels"]) == (2, 2)
    assert told["gpudirect"] == {"mlx5_0": {"enabled": 1, "disabled": 0}, "mlx5_3": {"enabled": 1, "disabled": 0}}
    assert told["channels"] == {"coll": 16, "collnet": 0, "nvls": 16, "p2p": 32} and told["nvls"] is True
    assert told["devices"] == ["mlx5_0:1/IB", "mlx5_3:1/IB"] and told["interfaces"] == ["eth1"]
    assert (told["networks"], told["nccl_versions"]) == (["IB"], ["2.27.5"])
    assert (told["nodes"], told["ranks"]) == (2, 4)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Channel 00 : 0[1a000] -> 1[3d000] via P2P/IPC", "P2P/IPC"),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read", "P2P/direct"),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/3[3]", "P2P/indirect"),
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", "SHM/direct"),
        ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA", "NET/AWS Libfabric"),
        ("Channel 00/0 : 0[0] -> 8[0] [receive] via NET/Socket/0", "NET/Socket"),
        ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/OFI/0/GDRDMA", "NET/OFI"),
        ("CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA", "COLLNET/SHARP"),
    ],
)
def test_transports(line, name):
    assert seen(f"gpu-a:1:2 [0] NCCL INFO {line}")["transports"] == {name: 1}


def test_without_lines_of_nccl_nothing_is_known():
    told = seen("# nThread 1\n")
    assert told["transports"] == {} and told["nvls"] is None and told["channels"] is None and told["nodes"] is None


def test_every_rule_of_the_path_fires_here():
    named = {name for name in RULES if name.startswith("verify.path_")}
    fired = {rule for text, declared, wanted in SICK for rule in wanted}
    assert named == fired


SHARED = HEALTHY.replace("2[0] -> 3[1] via P2P/IPC", "2[0] -> 3[1] via SHM/direct/direct")
OTHER_NCCL = HEALTHY.replace("[0] NCCL INFO NCCL version 2.27.5", "[0] NCCL INFO NCCL version 2.26.2", 1)
SICK = [
    (SOCKETS, {}, ["verify.path_socket"]),
    (SHARED, {}, ["verify.path_shared_memory"]),
    (OTHER_NCCL, {}, ["verify.path_versions"]),
    (HEALTHY.replace("/GDRDMA", ""), {}, ["verify.path_no_gpudirect"]),
    (HEALTHY.replace("Using eth1", "Using docker0"), {}, ["verify.path_interface"]),
    (HEALTHY.replace(" [1]mlx5_3:1/IB", ""), {}, ["verify.path_devices"]),
    (HEALTHY.replace("16 nvls", "0 nvls"), {}, ["verify.path_no_nvls"]),
    ("\n".join(one for one in HEALTHY.splitlines() if "NET/IB/" not in one and "network" not in one), {},
     ["verify.path_not_shown"]),
    ("", {}, ["verify.path_not_shown"]),
    ("", {"rdma": False}, ["verify.path_not_shown"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "declared", "wanted"), SICK)
def test_sick_paths(text, declared, wanted):
    assert rules(text, **declared) == wanted
    for one in path_findings(seen(text), {**DECLARED, **declared}, "gpu-a", "red"):
        assert (one["host"], one["pool"], one["phase"]) == ("gpu-a", "red", "verify")
        assert one["severity"] == RULES[one["rule"]].severity and one["summary"]


def test_a_healthy_path_is_silent():
    assert rules(HEALTHY) == []
    assert rules(HEALTHY.replace("IB/", "AWS Libfabric/").replace("network IB", "network AWS Libfabric")) == []
    # Sockets are what was declared, one node has no path between nodes, and what is not declared is not judged.
    assert rules(SOCKETS, rdma=False, devices=[]) == []
    assert rules("", nodes=1) == []
    assert path_findings(seen(SOCKETS), {}) == []


def test_rdma_declared_and_sockets_used_is_a_fail_at_any_bandwidth():
    (one,) = path_findings(seen(SOCKETS), DECLARED)
    assert (one["severity"], one["summary"]) == (
        "fail",
        "RDMA is declared, and 2 channels between nodes are NET/Socket",
    )
    # One channel of many is enough.
    mixed = HEALTHY.replace(
        "3[1] -> 0[0] [send] via NET/IB/1(2)/GDRDMA(PCI)", "3[1] -> 0[0] [send] via NET/Socket/1(2)"
    )
    assert rules(mixed) == ["verify.path_socket"]
    # And the name of the network is, where no channel is in the log.
    assert rules("gpu-a:1:2 [0] NCCL INFO Using network Socket") == ["verify.path_socket"]
