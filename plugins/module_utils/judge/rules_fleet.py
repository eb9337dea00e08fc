"""The rules of what nodes do together: which node, link, rail or switch it is, who hangs, which port is shut."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Dict

from ansible_collections.trainrig.gpu.plugins.module_utils.judge.rule import Rule

_ELASTIC = "PyTorch documentation, torchrun (Elastic Launch)"
_MPI = "Open MPI documentation, Launching with SSH, and FAQ: Running MPI jobs"
_BUILD = "NVIDIA/nccl-tests, README.md (Build)"
#: Peers on the same network are the measure: there is no published figure for any pair of nodes.
_PEERS = "Verification of trainrig: pairs of nodes are compared with the other pairs of the same run"

FLEET: Dict[str, Rule] = {
    "verify.node_slow": Rule(
        "fail",
        "ask_provider",
        "Every pair that this node is part of is slower than the other pairs, also with partners that are fast with "
        "others: the node itself is slow. Usual reasons: an adapter at a lower rate or width, a GPU or CPU that is "
        "throttled or shared, traffic shaping, another job on it.",
        "Compare the node's adapters, PCIe widths and clocks with a healthy node's. Leave it out of the job until then "
        "(`--limit '!NODE'`), and show the provider the pairs in the evidence.",
        _PEERS,
    ),
    "verify.node_cut_off": Rule(
        "fail",
        "ask_provider",
        "No pair that this node is part of came to a result, while its partners work with others: a firewall, a wrong "
        "interface or a broken adapter keeps it apart, or its ranks hang.",
        "Look at the errors in the evidence, the node's firewall and the interface that has its private address. Leave "
        "it out of the job until then.",
        _PEERS,
    ),
    "verify.link_slow": Rule(
        "fail",
        "ask_provider",
        "These nodes are slow or silent with each other and well with everybody else, so it is what lies between them: "
        "a cable, a port, a route, a rule of a firewall.",
        "Show the provider the pair and what the same nodes reach with others; compare the error counters of their "
        "ports.",
        _PEERS,
    ),
    "verify.rail_slow": Rule(
        "fail",
        "ask_provider",
        "The nodes are well over their other RDMA devices and slow over this one: its cable, port or leaf switch.",
        "Compare the device's rate, width and error counters with those of its neighbours, then show the provider.",
        _PEERS,
    ),
    "verify.switch_bad": Rule(
        "fail",
        "ask_provider",
        "Nodes behind one switch are well with each other and slow with all others: it is the switch or its uplinks.",
        "Show the provider the pairs inside and across; until then run jobs on nodes of one side only.",
        _PEERS,
    ),
    "verify.set_bad": Rule(
        "fail",
        "ask_provider",
        "These nodes are well in pairs and slow or silent together: the network between them does not carry all of "
        "them at once (oversubscription, a congested uplink), or the job breaks at this size.",
        "Show the provider the sizes that are well and the one that is not; until then run jobs of the larger size "
        "that is well.",
        _PEERS,
    ),
    "verify.pairs_undecided": Rule(
        "warn",
        "none",
        "Pairs differ by more than noise, and the rounds so far do not tell which node or link it is.",
        "Verify again with more time (`-e verify_pairs_seconds=SECONDS`) on nodes that do nothing else; with two nodes "
        "only, a third one tells.",
        _PEERS,
    ),
    "verify.group_failed": Rule(
        "fail",
        "configure",
        "Nodes that measured together came to no result.",
        "The last lines of their output are in the evidence; the other findings of this stage say which node it is.",
        _ELASTIC,
    ),
    "verify.rank_stuck": Rule(
        "fail",
        "reset",
        "The others waited for this rank until their time was up. It was stopped, hung in a driver or on a device, or "
        "died without a word.",
        "Look on its node for Xid messages (`dmesg`), a full disk, the out-of-memory killer and stopped processes; "
        "then verify again.",
        _ELASTIC,
    ),
    "verify.port_blocked": Rule(
        "fail",
        "configure",
        "The node that keeps the job's rendezvous does not answer at its port on the private network: a firewall, a "
        "security group, or an address that leads elsewhere.",
        "Open TCP port {port} and the ports that processes choose (`sysctl net.ipv4.ip_local_port_range`) between the "
        "private addresses of the pool's nodes: `nft list ruleset`, `iptables -S` and the provider's security groups "
        "show what is shut. Another port: `verify_nodes_port`.",
        _ELASTIC,
    ),
    "verify.budget_left_out": Rule(
        "info",
        "none",
        "The time that was given does not suffice for everything, so part of the verification was left out and proves "
        "nothing.",
        "Verify with more: `-e budget=30m`, `-e budget=3h`, or without a budget.",
        "Verification of trainrig: data/budgets.yml",
    ),
    "verify.mpi_missing": Rule(
        "fail",
        "install",
        "verify_launcher is mpi, and this node has no OpenMPI that can be run.",
        "Install it on all nodes of the pool in one version (Debian and Ubuntu: openmpi-bin), name it in "
        "`verify_mpirun`, or verify with `-e verify_launcher=torchrun`.",
        _MPI,
    ),
    "verify.mpi_as_root": Rule(
        "fail",
        "configure",
        "MPI programs are started on all nodes by SSH, and that is not done as root.",
        "Let Ansible connect as a normal user (`ansible_user`), or verify with `-e verify_launcher=torchrun`.",
        _MPI,
    ),
    "verify.nccl_tests_not_built": Rule(
        "info",
        "configure",
        "nccl-tests is not there, so torch.distributed measured the same; the path is the same NCCL's, the program is "
        "not the one that others publish figures of.",
        "Look at what the build says in the evidence: it names which of compiler, CUDA, NCCL and MPI is not right. "
        "Programs that are there already: `verify_nccl_tests_path`.",
        _BUILD,
    ),
}
