"""The rules of what a job's own output says: the path that NCCL took, and why a job ended."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Dict

from ansible_collections.trainrig.gpu.plugins.module_utils.judge.rule import Rule

_ENV = "NVIDIA NCCL documentation, Environment Variables"
_TROUBLE = "NVIDIA NCCL documentation, Troubleshooting"
_TESTS = "NVIDIA/nccl-tests, README.md and src/common.cu"
_ELASTIC = "PyTorch documentation, torchrun (Elastic Launch)"
_C10D = "PyTorch source, torch/csrc/distributed/c10d (ProcessGroupNCCL, TCPStore)"
_MPI = "Open MPI documentation, mpirun and Launching with SSH"
_SLURM = "Slurm documentation, srun"

RULES: Dict[str, Rule] = {
    # the path, from NCCL's own log
    "verify.path_socket": Rule(
        "fail",
        "configure",
        "RDMA is declared for these nodes and NCCL went over TCP sockets. Whatever bandwidth came out, the adapters "
        "were not used: NCCL_IB_DISABLE or NCCL_NET is set, libibverbs or its providers are missing where the job runs "
        "(a container, too), or /dev/infiniband is.",
        "Look for `NET/IB : No device found` and NCCL_ variables in the log; run `ibv_devinfo` where the job runs. In "
        "a container give it --device /dev/infiniband and rdma-core with its providers.",
        _ENV,
    ),
    "verify.path_not_shown": Rule(
        "fail",
        "configure",
        "NCCL's log says neither which network it uses nor one channel between nodes, so nothing proves that the "
        "nodes were connected at all.",
        "Run the stage again with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,NET,ENV; if a file has the log "
        "(NCCL_DEBUG_FILE), read that one.",
        _ENV,
    ),
    "verify.path_versions": Rule(
        "fail",
        "reinstall",
        "The ranks of one job load different versions of NCCL, which is not supported; what it measured says nothing.",
        "Make the environments of the nodes equal (`ansible-playbook site.yml`), and look for LD_LIBRARY_PATH and "
        "LD_PRELOAD on those that differ.",
        _TROUBLE,
    ),
    "verify.path_no_gpudirect": Rule(
        "warn",
        "configure",
        "The adapters read and write host memory instead of the GPUs': every transfer between nodes costs two copies "
        "and the CPU's memory bandwidth. nvidia-peermem is not loaded and DMA-BUF not usable, or GPU and adapter are "
        "too far apart.",
        "Load nvidia-peermem (or use open kernel modules and a kernel with DMA-BUF), compare the distances with "
        "`nvidia-smi topo -m`, and look at NCCL_NET_GDR_LEVEL.",
        _TROUBLE,
    ),
    "verify.path_interface": Rule(
        "warn",
        "configure",
        "The ranks found each other over another interface than the declared one; the next job may hang on it.",
        "Set NCCL_SOCKET_IFNAME to exactly the interface (`=NAME`); the layer nccl does.",
        _ENV,
    ),
    "verify.path_devices": Rule(
        "warn",
        "configure",
        "Adapters that belong to the job are not used by NCCL: their ports are down, NCCL_IB_HCA leaves them out, or "
        "they are not visible where the job runs.",
        "Compare `ibstat` with the names in the evidence, and look at NCCL_IB_HCA.",
        _ENV,
    ),
    "verify.path_shared_memory": Rule(
        "warn",
        "configure",
        "GPUs that reach each other directly exchange data through host memory: peer-to-peer is switched off "
        "(NCCL_P2P_DISABLE, NCCL_P2P_LEVEL), or IOMMU or ACS stand in its way.",
        "Look at `nvidia-smi topo -p2p r` and at NCCL_ variables in the log.",
        _TROUBLE,
    ),
    "verify.path_no_nvls": Rule(
        "warn",
        "configure",
        "NVLink SHARP is there on this hardware and NCCL does not use it, so collectives inside a node are slower than "
        "they can be: the fabric manager is not up, NCCL_NVLS_ENABLE is 0, or too few GPUs take part.",
        "Look at the fabric state (`nvidia-smi -q`, Fabric), restart the fabric manager with no job running, and look "
        "at NCCL_NVLS_ENABLE.",
        _ENV,
    ),
    # why a job ended
    "verify.log_watchdog": Rule(
        "fail",
        "configure",
        "A collective did not end in time. That is only the symptom: a rank that died or hangs, a network on which "
        "ranks do not reach each other, or ranks that call different collectives. One of the first operations points "
        "at the network, a late one at a rank.",
        "Do not raise the time-out first. Look on all nodes for Xid messages, the out-of-memory killer and link "
        "errors; run the verification between nodes; see which ranks did not report.",
        _C10D,
    ),
    "verify.log_test_timeout": Rule(
        "fail",
        "configure",
        "The job was stopped because its time was up. Mostly one rank waits for another that hangs.",
        "Run it with NCCL_DEBUG=INFO and look where the last lines of each rank stop; look for Xid messages in "
        "`dmesg`.",
        _TESTS,
    ),
    "verify.log_port_in_use": Rule(
        "fail",
        "configure",
        "The port is taken: an earlier job still runs, another service has it, or the launcher was started more than "
        "once on a node (srun starts one for each task).",
        "Find it with `ss -ltnp`, end it or choose another port (--master-port, --rdzv-endpoint); with Slurm start "
        "torchrun with --ntasks-per-node=1.",
        _ELASTIC,
    ),
    "verify.log_connection_refused": Rule(
        "fail",
        "configure",
        "The other node answered that nobody listens at that port: the process there has died or not started yet, or "
        "the address is another machine's.",
        "Look at the first error of the rank that should listen (mostly rank 0's node); check the address that "
        "the launcher was given.",
        _ELASTIC,
    ),
    "verify.log_unreachable": Rule(
        "fail",
        "configure",
        "A node does not answer at an address of the job: a firewall, a wrong interface or address, or a node that is "
        "down. A rendezvous that works says nothing of the other ports, which the kernel chooses.",
        "Open the whole private network between the nodes, not single ports; check with `nc -zv ADDRESS PORT`; set "
        "trainrig_private_address where the address is wrong.",
        _ELASTIC,
    ),
    "verify.log_no_interface": Rule(
        "fail",
        "configure",
        "NCCL found no network interface it may use: NCCL_SOCKET_IFNAME names one that is not there or has no address, "
        "also where names differ between nodes.",
        "Compare `ip -br addr` on each node with NCCL_SOCKET_IFNAME (in the environment, /etc/nccl.conf and "
        "~/.nccl.conf); the layer nccl writes it per node.",
        _ENV,
    ),
    "verify.log_gloo_address": Rule(
        "fail",
        "configure",
        "Gloo uses the interface to which the node's own name resolves, and that one is not reached by the others; "
        "NCCL_SOCKET_IFNAME does not apply to it.",
        "Set GLOO_SOCKET_IFNAME to the plain name of the interface (no `=`, no `^`), and see what `getent ahosts "
        "$(hostname)` says.",
        "PyTorch documentation, torch.distributed (Common environment variables)",
    ),
    "verify.log_rendezvous": Rule(
        "fail",
        "configure",
        "The launchers did not meet: nobody keeps the rendezvous, its address is not one of the first node's own, or "
        "not all nodes came in time.",
        "Give an address of the first node as --rdzv-endpoint (--master-addr), start all nodes at the same time, and "
        "look whether its port is open between them.",
        _ELASTIC,
    ),
    "verify.log_gpu_counts": Rule(
        "fail",
        "configure",
        "A process was to use a GPU that its node does not have: nodes with different numbers of usable GPUs, a GPU "
        "that fell off, CUDA_VISIBLE_DEVICES, or more processes than GPUs.",
        "Compare `nvidia-smi -L` on all nodes with the number of processes a node; look for Xid messages where one is "
        "missing.",
        _TESTS,
    ),
    "verify.log_gpu_shared": Rule(
        "fail",
        "configure",
        "Two ranks use the same GPU: every process of a node took the first one, or the same job was started twice.",
        "Let each process choose its GPU by LOCAL_RANK (torch.cuda.set_device), and start one launcher a node.",
        _TROUBLE,
    ),
    "verify.log_versions": Rule(
        "fail",
        "reinstall",
        "The ranks load different versions of NCCL, and NCCL refuses to work so.",
        "Make the environments of the nodes equal; look for LD_LIBRARY_PATH and LD_PRELOAD on the one that differs.",
        _TROUBLE,
    ),
    "verify.log_rdma": Rule(
        "fail",
        "configure",
        "An adapter's queue pair broke or could not be made: the adapters do not reach each other (GID, VLAN, routing, "
        "a port that went down), the RoCE network loses packets, or another setting of both ends differs.",
        "Run `ib_write_bw` between the two nodes with the same GID index; at once broken is reachability, broken under "
        "load with rising counters is a lossy network (PFC, ECN).",
        _TROUBLE,
    ),
    "verify.log_memlock": Rule(
        "fail",
        "configure",
        "Memory could not be registered with the adapter: the limit of locked memory is too low where the job runs, "
        "or GPU memory cannot be registered because nvidia-peermem is not loaded.",
        "Give the job unlimited locked memory (`ulimit -l`, LimitMEMLOCK of its service, --ulimit memlock=-1 of a "
        "container); see `lsmod | grep peermem`.",
        _TROUBLE,
    ),
    "verify.log_shared_memory": Rule(
        "fail",
        "configure",
        "/dev/shm is full or too small: containers get 64 MiB by default, and killed jobs leave their segments there.",
        "Start the container with --shm-size=1g or more (or --ipc=host); remove segments under /dev/shm that no "
        "process has open.",
        _TROUBLE,
    ),
    "verify.log_network_plugin": Rule(
        "fail",
        "configure",
        "NCCL was told to use a network that it cannot load: NCCL_NET or NCCL_NET_PLUGIN names a plugin that is not in "
        "the library path.",
        "Install the plugin where the job runs, or take NCCL_NET and NCCL_NET_PLUGIN out of the environment and "
        "nccl.conf.",
        _ENV,
    ),
    "verify.log_gpu_memory": Rule(
        "fail",
        "configure",
        "The GPU's memory did not suffice: another process holds part of it, or the job asks for too much.",
        "See who holds it with `nvidia-smi`; end leftovers of earlier jobs, or use smaller messages or batches.",
        "PyTorch documentation, CUDA semantics (Memory management)",
    ),
    "verify.log_host_memory": Rule(
        "fail",
        "configure",
        "The kernel or the scheduler killed a process because memory was short.",
        "Look at `dmesg` (Out of memory), the cgroup's limit and the job's --mem.",
        "Linux kernel documentation, Memory Resource Controller",
    ),
    "verify.log_cuda": Rule(
        "fail",
        "configure",
        "A CUDA call failed. In the middle of a run this is mostly the GPU or the driver (look for an Xid), at the "
        "beginning mostly a driver that is too old or a device that cannot be used.",
        "Look for Xid messages in `dmesg` on that node, and compare `nvidia-smi` with the CUDA version of the job.",
        "NVIDIA GPU Debug Guidelines; NVIDIA XID Errors",
    ),
    "verify.log_system": Rule(
        "fail",
        "configure",
        "A call to the system or a network library failed inside NCCL; the lines with NCCL WARN before it say which.",
        "Run it again with NCCL_DEBUG=INFO and read the first NCCL WARN of the rank that failed first.",
        _TROUBLE,
    ),
    "verify.log_usage": Rule(
        "fail",
        "configure",
        "NCCL was called or set up in a way it does not accept; the line with NCCL WARN before it says what.",
        "Run it again with NCCL_DEBUG=WARN and read that line; look at NCCL_ variables first.",
        _TROUBLE,
    ),
    "verify.log_host_key": Rule(
        "fail",
        "configure",
        "SSH does not know the other node's key, or it has changed, so the launcher could not start anything there.",
        "Put the nodes' real keys into known_hosts of the user that launches (`ssh-keyscan` only over a network you "
        "trust). Do not switch the check off.",
        "man 1 ssh, VERIFYING HOST KEYS",
    ),
    "verify.log_ssh_login": Rule(
        "fail",
        "configure",
        "SSH from the first node to another was refused: its key is not among that user's authorized_keys there.",
        "Give the user that launches a key that all nodes accept, or verify with torchrun, which needs none.",
        _MPI,
    ),
    "verify.log_name": Rule(
        "fail",
        "configure",
        "A node's name does not resolve where the launcher runs.",
        "Use private addresses in the host file, or put the names into /etc/hosts on every node.",
        _MPI,
    ),
    "verify.log_slots": Rule(
        "fail",
        "configure",
        "More processes were asked for than the host file or the allocation has slots.",
        "Write `slots=GPUS` behind each host, or ask for as many processes as there are GPUs. Oversubscribing puts two "
        "ranks on one GPU.",
        _MPI,
    ),
    "verify.log_root": Rule(
        "fail",
        "configure",
        "mpirun does not run as root.",
        "Launch as a normal user; nothing of the measurement needs root.",
        _MPI,
    ),
    "verify.log_daemons": Rule(
        "fail",
        "configure",
        "mpirun could not start its daemon on another node: SSH does not work without a question, MPI is missing there "
        "or of another version, or a firewall keeps the daemon from calling back.",
        "Run `ssh NODE mpirun --version` from the first node; open the private network between the nodes; give "
        "mpirun the interface (--mca oob_tcp_if_include, --mca btl_tcp_if_include).",
        _MPI,
    ),
    "verify.log_library": Rule(
        "fail",
        "reinstall",
        "A library that the program needs is not found, or an older one than it was built against is.",
        "Look at `ldd PROGRAM` on that node, and at LD_LIBRARY_PATH there.",
        "man 8 ld.so",
    ),
    "verify.log_program": Rule(
        "fail",
        "install",
        "The program is not there, or may not be run, on one of the nodes.",
        "Copy it to the same place on all nodes, or give a path that all of them have.",
        _MPI,
    ),
    "verify.log_out_of_bounds": Rule(
        "fail",
        "replace",
        "Elements of a result are wrong: data was corrupted on its way. A GPU or link with errors, a driver or NCCL "
        "fault, or peer-to-peer through an IOMMU or ACS that mangles it.",
        "Do not train here. Repeat it in pairs of nodes to find the one that all bad runs share; look for Xid and ECC "
        "messages there.",
        _TESTS,
    ),
    "verify.log_peer_gone": Rule(
        "fail",
        "configure",
        "Another rank died or its connection broke; this rank only noticed. The cause is in the output of the one that "
        "ended first.",
        "Look at the first error of the other ranks, and at the other node's `dmesg`.",
        _TROUBLE,
    ),
    "verify.log_test_failed": Rule(
        "fail",
        "configure",
        "The test program ended with an error of its own.",
        "The lines before it say what failed; run it again with NCCL_DEBUG=INFO.",
        _TESTS,
    ),
    "verify.log_worker_died": Rule(
        "fail",
        "configure",
        "A worker process ended with an error or by a signal; the launcher stopped the others.",
        "Look at the first worker's own output above, and at `dmesg` of its node.",
        _ELASTIC,
    ),
    "verify.log_launcher": Rule(
        "fail",
        "configure",
        "The launcher says that the job failed or could not be started.",
        "Read the lines around it, and run a program that does nothing (`hostname`) with the same launcher and hosts.",
        _SLURM,
    ),
}
