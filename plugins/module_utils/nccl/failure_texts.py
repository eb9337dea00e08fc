"""The table of failure texts: what launchers, NCCL, torch, MPI and SSH say, and which rule that is."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import NamedTuple, Pattern, Tuple

#: How much a text says. A consequence is left out where a cause is known. A cause that is ANYWHERE is also looked for
#: in the middle of NCCL's lines, where two processes wrote at once.
CAUSE, ANYWHERE, CONSEQUENCE = "cause", "anywhere", "consequence"


class Failure(NamedTuple):
    """One text. ``summary`` may name {groups} of the pattern; {ranks} and {hosts} are gathered over all lines."""

    rule: str
    kind: str
    summary: str
    pattern: Pattern[str]


_WATCHDOG = (
    r"\[Rank (?P<rank>\d+)\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<number>\d+), "
    r"OpType=(?P<operation>\w+)[^)]*Timeout\(ms\)=(?P<limit>\d+)\)"
)
_TEXTS: Tuple[Tuple[str, str, str, Tuple[str, ...]], ...] = (
    (
        "log_watchdog",
        ANYWHERE,
        "{operation} number {number} did not end within {limit} ms (ranks {ranks})",
        (_WATCHDOG,),
    ),
    (
        "log_watchdog",
        ANYWHERE,
        "collectives did not end in time",
        ("Watchdog caught collective operation timeout", "Some NCCL operations have failed or timed out"),
    ),
    (
        "log_test_timeout",
        CAUSE,
        "no result within {limit} s on {hosts}",
        (r"(?P<host>\S+): Test timeout \((?P<limit>\d+)s\)",),
    ),
    (
        "log_test_timeout",
        CAUSE,
        "the time limit of the launcher or scheduler was reached",
        ("DUE TO TIME LIMIT", r"job timed out", r"exceeded the (?:specified )?(?:wall|run) ?time"),
    ),
    (
        "log_host_memory",
        CAUSE,
        "a process was killed because memory was short",
        (r"(?i)oom[-_ ]?kill", "Out of memory: Killed process"),
    ),
    (
        "log_gpu_memory",
        CAUSE,
        "a GPU's memory did not suffice",
        ("CUDA out of memory", "OutOfMemoryError", r"CUDA failure .*'out of memory'", "CUDA error: out of memory"),
    ),
    (
        "log_port_in_use",
        CAUSE,
        "an address or port is taken",
        ("EADDRINUSE", r"(?i)address already in use", "Couldn't allocate a port for PMI"),
    ),
    (
        "log_host_key",
        CAUSE,
        "SSH does not accept a node's host key",
        ("Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"),
    ),
    (
        "log_ssh_login",
        CAUSE,
        "SSH login to a node was refused",
        (r"Permission denied \((?:publickey|password|gssapi)",),
    ),
    (
        "log_name",
        CAUSE,
        "a node's name does not resolve",
        ("Could not resolve hostname", "Temporary failure in name resolution", "Name or service not known"),
    ),
    (
        "log_root",
        CAUSE,
        "mpirun refuses to run as root",
        (r"(?:mpirun|prterun|prte) has detected an attempt to run as root",),
    ),
    ("log_slots", CAUSE, "there are fewer slots than processes", ("There are not enough slots available",)),
    (
        "log_daemons",
        CAUSE,
        "mpirun could not keep its daemons on the nodes",
        (
            r"(?:ORTE|PRTE|PRRTE) was unable to reliably start",
            r"(?:ORTE|PRTE|PRRTE) has lost communication with a remote daemon",
            r"died unexpectedly with status \d+ while attempting to launch",
            r"daemon .* failed unexpectedly",
        ),
    ),
    (
        "log_no_interface",
        CAUSE,
        "NCCL found no network interface that it may use",
        (
            r"(?i)no socket interface found",
            "No usable listening interface found",
            "No interface found in the same subnet",
            r"no device found matching .*NCCL_OOB_NET_IFNAME",
        ),
    ),
    (
        "log_gloo_address",
        CAUSE,
        "Gloo does not reach the other ranks",
        (
            "Gloo connectFullMesh failed",
            r"Unable to resolve hostname to a \(local\) address",
            "Unable to find address for",
        ),
    ),
    ("log_versions", CAUSE, "the ranks load different versions of NCCL", ("Mismatched NCCL version detected",)),
    (
        "log_gpu_shared",
        CAUSE,
        "two ranks use the same GPU",
        ("Duplicate GPU detected", "Multiple Ranks are using the same GPU"),
    ),
    (
        "log_gpu_counts",
        CAUSE,
        "{wanted} GPUs were asked for and {found} found",
        (r"Invalid number of GPUs: (?P<wanted>\d+) requested but only (?P<found>\d+) were found",),
    ),
    ("log_gpu_counts", CAUSE, "a GPU was asked for that the node does not have", ("invalid device ordinal",)),
    (
        "log_shared_memory",
        CAUSE,
        "shared memory could not be had",
        (
            r"posix_fallocate failed ?: No space left",
            r"(?:creating|attaching to) shared memory segment",
            r"failed to (?:create|extend) (?:shared memory file )?/dev/shm",
        ),
    ),
    (
        "log_memlock",
        CAUSE,
        "memory could not be registered with an adapter",
        (r"ibv_reg_(?:dmabuf_)?mr\w* failed", r"ibv_create_\w+ failed.*Cannot allocate memory", "RLIMIT_MEMLOCK"),
    ),
    (
        "log_rdma",
        CAUSE,
        "an RDMA connection broke or could not be made",
        (
            r"Got completion (?:from peer \S+ )?with (?:status|error)",
            r"Got completion from peer .*status=\d+",
            r"ibv_\w+ failed",
            r"NET/IB .*Got async (?:fatal )?event",
        ),
    ),
    (
        "log_network_plugin",
        CAUSE,
        "NCCL cannot load the network {name}",
        (r"network (?P<name>\S[^.]*) not found",),
    ),
    (
        "log_cuda",
        CAUSE,
        "a CUDA call failed",
        (
            "Test CUDA failure",
            "unhandled cuda error",
            "CUDA driver version is insufficient",
            r"CUDA error: \S",
            r"Cuda failure",
        ),
    ),
    (
        "log_unreachable",
        CAUSE,
        "a node does not answer",
        (
            "client socket has timed out",
            "No route to host",
            "Network is unreachable",
            r"(?i)connection timed out",
            r"(?i)operation timed out",
        ),
    ),
    ("log_connection_refused", CAUSE, "a connection was refused", (r"(?i)connection refused",)),
    (
        "log_rendezvous",
        CAUSE,
        "the launchers did not meet",
        (r"Rendezvous(?:Connection|Timeout|Closed)Error", "connection to the C10d store has failed"),
    ),
    (
        "log_library",
        CAUSE,
        "{name} is missing or too old",
        (r"error while loading shared libraries: (?P<name>[^:\s]+)", r"undefined symbol: (?P<name>\w+)"),
    ),
    (
        "log_program",
        CAUSE,
        "the program could not be started",
        (
            r"(?i)could not find (?:the )?executable",
            r"mpirun was unable to (?:find|launch) the specified",
            r"execve\(\): .*(?:No such file|Permission denied)",
            "command not found",
        ),
    ),
    (
        "log_out_of_bounds",
        CAUSE,
        "{count} results are out of bounds",
        (r"Out of bounds values\s*:\s*(?P<count>\d+) FAILED",),
    ),
    (
        "log_usage",
        CAUSE,
        "NCCL was not called or set up as it needs",
        (r"'invalid (?:usage|argument)", "ncclInvalidUsage", "ncclInvalidArgument"),
    ),
    (
        "log_system",
        CONSEQUENCE,
        "a system call failed inside NCCL",
        ("unhandled system error", "ncclSystemError", "ncclInternalError", "'internal error"),
    ),
    (
        "log_peer_gone",
        CONSEQUENCE,
        "another rank ended or was lost",
        (
            "remote process exited or there was a network error",
            "ncclRemoteError",
            "Connection closed by remote peer",
            "Connection reset by peer",
        ),
    ),
    (
        "log_test_failed",
        CONSEQUENCE,
        "the test program failed on {hosts}",
        (
            r"(?P<host>[\w.-]+): Test \w+ failure",
            r"\.\. (?P<host>[\w.-]+) pid \d+: Test failure",
        ),
    ),
    (
        "log_test_failed",
        CONSEQUENCE,
        "the mean bandwidth is below the limit that the program was given",
        (r"Avg bus bandwidth\s*:\s*\S+\s+FAILED",),
    ),
    (
        "log_worker_died",
        CONSEQUENCE,
        "a worker process ended with an error",
        (
            "ChildFailedError",
            r"exitcode\s*:\s*-?[1-9]",
            r"exited on signal \d+",
            r"Signal \d+ \(SIG\w+\) received",
            "Segmentation fault",
        ),
    ),
    (
        "log_launcher",
        CONSEQUENCE,
        "the launcher says that the job failed",
        (
            "srun: error: ",
            "slurmstepd: error: ",
            r"Exited with exit code [1-9]",
            r"launch failed on \S+",
            r"exited with non-zero (?:status|exit code)",
            r"returned\s+a\s+non-zero exit code",
            "MPI_ABORT was invoked",
            r"\[mpiexec@",
        ),
    ),
)
#: The first that fits a line counts.
TABLE: Tuple[Failure, ...] = tuple(
    Failure(f"verify.{rule}", kind, summary, re.compile(pattern, re.ASCII))
    for rule, kind, summary, patterns in _TEXTS
    for pattern in patterns
)
