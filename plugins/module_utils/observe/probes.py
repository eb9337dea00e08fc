"""The table of probes: what one look at a node asks. Read-only, all of it; ids are those of bundle files.

A part is a command or files. A probe with several sources prints sections (see sections.py). Where a tool may be
missing, `otherwise` names another way to the same text. No probe needs root; `root_adds` says what root would add.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence, Union

from ansible_collections.trainrig.gpu.plugins.module_utils.observe import python_script, scripts

MANIFEST = "/etc/trainrig/manifest.json"

#: Names of packages that belong to the GPU, fabric or container side: their policy is asked.
FAMILY = (
    "nvidia|^libcuda|^cuda|^libcu[a-z]+|^libnccl|^libnvjitlink|^libnpp|^libxnvctrl|^datacenter-gpu|^nvlsm|^nvlink"
    "|^doca|^mlnx|^ofed|^rdma-core|^ibverbs|^libibverbs|^docker|^containerd|^podman|^dkms$|^linux-(image|headers|modules)"
)
UNITS = (
    *("nvidia-*", "nvidia-persistenced.service", "nvidia-fabricmanager.service", "nvidia-imex.service"),
    *("nvidia-nvlsm.service", "nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path", "nvidia-dcgm.service"),
    *("nvidia-suspend.service", "nvidia-powerd.service", "docker.service", "docker.socket", "containerd.service"),
    *("snap.docker.dockerd.service", "ssh.service", "sshd.service", "ssh.socket", "unattended-upgrades.service"),
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dnf-automatic.timer", "dnf-automatic-install.timer"),
    *("apt-daily.service", "apt-daily-upgrade.service", "dnf-automatic-install.service", "cloud-final.service"),
    *("openibd.service", "opensm.service", "opensmd.service", "rdma-ndd.service", "slurmd.service", "kubelet.service"),
    *("chrony.service", "chronyd.service", "systemd-timesyncd.service", "irqbalance.service", "dkms.service"),
)
UNIT_PROPERTIES = (
    "Id,LoadState,ActiveState,SubState,UnitFileState,Result,ConditionResult,LimitMEMLOCK,DevicePolicy,DeviceAllow"
)
SYSCTLS = (
    *("net.core.rmem_max", "net.core.wmem_max", "net.core.somaxconn", "net.core.netdev_max_backlog"),
    *("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.ip_local_port_range", "net.ipv4.conf.all.rp_filter"),
    *("net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.arp_announce", "net.ipv6.conf.all.disable_ipv6"),
    *("kernel.numa_balancing", "kernel.dmesg_restrict", "kernel.panic", "kernel.pid_max", "kernel.tainted"),
    *("vm.nr_hugepages", "vm.swappiness", "vm.overcommit_memory", "vm.max_map_count", "vm.zone_reclaim_mode"),
    *("fs.file-max", "fs.inotify.max_user_watches", "user.max_user_namespaces"),
)

#: Counters of RDMA ports that stand still on a healthy link, as the kernel names them; those of its interface too.
RDMA_COUNTERS = (
    *("link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors"),
    *("port_xmit_discards", "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped"),
    *("rnr_nak_retry_err", "local_ack_timeout_err", "packet_seq_err", "out_of_sequence", "roce_slow_restart"),
    *("req_cqe_error", "resp_cqe_error", "carrier_changes"),
)


class Command(NamedTuple):
    """A command line. An exit status in `answers` is an answer, not a failure."""

    argv: tuple[str, ...]
    name: str | None = None  # its section; none: the command line; "": it prints sections itself
    otherwise: tuple[tuple[str, ...], ...] = ()
    keep: str | None = None  # only lines that match
    last: int = 0  # only so many lines from the end
    answers: tuple[int, ...] = (0,)


class Files(NamedTuple):
    """Files by path or pattern, each its own section; only those that hold `holding`, when given."""

    patterns: tuple[str, ...]
    name: str | None = None
    holding: str | None = None
    last: int = 0


class Names(NamedTuple):
    """The names in a directory."""

    directory: str
    name: str | None = None


Part = Union[Command, Files, Names]


class Probe(NamedTuple):
    """One question, one file of a bundle."""

    id: str
    parts: tuple[Part, ...]
    sectioned: bool = False
    timeout_s: float = 15.0
    root_adds: str | None = None


class Options(NamedTuple):
    """What a look can be told."""

    prefix: str | None = None
    manifest: str | None = None
    python: str | None = None  # none: no python_env
    peers: tuple[str, ...] = ()
    hostname: str | None = None


def command(line: str, otherwise: Sequence[tuple[str, ...]] = (), keep: str | None = None, last: int = 0) -> Command:
    return Command(tuple(line.split()), None, tuple(otherwise), keep, last)


def script(text: str, name: str | None = None, *arguments: str) -> Command:
    return Command(("sh", "-c", text, "sh", *arguments), name)


def state_files(options: Options, name: str) -> Files:
    """A file of ours: where the manifest lies, or in the prefix."""
    if options.manifest:
        return Files(
            (options.manifest.rpartition("/")[0] + "/" + name if name != "manifest.json" else options.manifest,)
        )
    places = [MANIFEST.rpartition("/")[0]] + ([options.prefix] if options.prefix else [])
    return Files(tuple(f"{place}/{name}" for place in places))


def table(options: Options = Options()) -> dict[str, Probe]:  # noqa: B008 - Options is immutable
    """Every probe by id."""
    names = [name for name in dict.fromkeys((options.hostname or "", *options.peers)) if name]
    rows = (
        # the system
        Probe("os_release", (Files(("/etc/os-release",)),)),
        Probe("uname", (command("uname -a"),)),
        Probe("cmdline", (Files(("/proc/cmdline",)),)),
        Probe("modules", (Files(("/proc/modules",)),)),
        Probe("boot_id", (Files(("/proc/sys/kernel/random/boot_id",)),)),
        Probe(
            "kernels", (script(scripts.KERNELS),), root_adds="which kernel boots next, where only root reads grub.cfg"
        ),
        Probe(
            "identity",
            (Files(("/etc/machine-id",)), command("date -u +%s.%N"), command("timedatectl show -p NTPSynchronized")),
            sectioned=True,
        ),
        Probe("secure_boot", (Command(("mokutil", "--sb-state"), answers=(0, 1, 255)),)),
        # the buses
        Probe("lspci", (command("lspci -Dnn", otherwise=[("sh", "-c", scripts.LSPCI)]),)),
        Probe(
            "lspci_vv",
            (command("lspci -Dvvnn"),),
            timeout_s=30,
            root_adds="link state and access control of the PCI devices",
        ),
        # the driver
        Probe("nvidia_version", (Files(("/proc/driver/nvidia/version",)),)),
        Probe("nvidia_params", (Files(("/proc/driver/nvidia/params",)),)),
        Probe("nvidia_gpus", (Names("/proc/driver/nvidia/gpus"),)),
        Probe("nvidia_nvswitch", (Names("/proc/driver/nvidia-nvswitch/devices"),)),
        Probe("nvidia_libs", (script(scripts.NVIDIA_LIBS),)),
        Probe("nvidia_smi_xml", (command("nvidia-smi -q -x"),), timeout_s=60),
        Probe("nvidia_smi_topo", (command("nvidia-smi topo -m"),), timeout_s=60),
        Probe("nvidia_smi_nvlink", (command("nvidia-smi nvlink -s"),), timeout_s=60),
        Probe("nvidia_smi_nvlink_errors", (command("nvidia-smi nvlink -e"),), timeout_s=60),
        Probe("nvidia_smi_p2p", (command("nvidia-smi topo -p2p r"),), timeout_s=60),
        Probe(
            "nvidia_processes",
            (command("nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv"),),
            timeout_s=60,
        ),
        Probe("fabricmanager", (command("nv-fabricmanager --version"),)),
        Probe(
            "journal_nvidia",
            (command("journalctl -b -o short-iso -n 100 -q --no-pager -u nvidia-*"),),
            root_adds="what the NVIDIA services logged",
        ),
        Probe(
            "dmesg",
            (command("journalctl -k -b -o short-iso -q --no-pager", otherwise=[("dmesg",)]),),
            timeout_s=30,
            root_adds="the kernel log: Xid errors, PCIe errors, driver mismatches",
        ),
        # packages
        Probe(
            "dpkg",
            (Command(("dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package} ${Version} ${Architecture}\\n")),),
        ),
        Probe("apt_holds", (command("apt-mark showhold"),)),
        Probe("apt_policy", (script(scripts.APT_POLICY, None, FAMILY),), timeout_s=30),
        Probe("apt_history", (Files(("/var/log/apt/history.log",), last=400),)),
        Probe(
            "apt_sources",
            (
                Files(("/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources")),
                script(scripts.APT_KEYS, "keys"),
            ),
            sectioned=True,
            timeout_s=30,
        ),
        Probe(
            "apt_config",
            (
                Files(
                    ("/etc/apt/apt.conf", "/etc/apt/apt.conf.d/*", "/etc/apt/preferences", "/etc/apt/preferences.d/*")
                ),
            ),
            sectioned=True,
        ),
        Probe(
            "rpm",
            (Command(("rpm", "-qa", "--qf", "%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE} %{ARCH}\\n")),),
            timeout_s=30,
        ),
        Probe("dnf_versionlock", (command("dnf -q -C versionlock list"),), timeout_s=30),
        Probe("dkms", (command("dkms status"),), timeout_s=30),
        Probe("dkms_log", (script(scripts.DKMS_LOG),)),
        Probe(
            "modprobe",
            (Files(("/etc/modprobe.d/*.conf", "/etc/modules-load.d/*.conf", "/etc/modules")),),
            sectioned=True,
        ),
        Probe("units", (Command(("systemctl", "show", "-p", UNIT_PROPERTIES, *UNITS)),)),
        # the fabric
        Probe("ibstat", (command("ibstat"),)),
        Probe("ibv_devinfo", (command("ibv_devinfo -v"),)),
        Probe("rdma_link", (command("rdma link"),)),
        Probe("gids", (script(scripts.GIDS),)),
        Probe("rdma_counters", (script(scripts.RDMA_COUNTERS, None, *RDMA_COUNTERS),)),
        Probe(
            "mlxconfig",
            (script(scripts.MLXCONFIG),),
            timeout_s=60,
            root_adds="firmware settings of the network adapters",
        ),
        Probe(
            "rdma_stack",
            (
                command("ofed_info -s"),
                Names("/sys/kernel/mm/memory_peers"),
                command("readlink /usr/src/ofa_kernel/default"),
                Names("/sys/class/infiniband"),
                script(scripts.RDMA_LINKS, "ls -l /sys/class/infiniband"),
                script(scripts.RDMA_VIRTUAL, "virtual functions"),
                Names("/dev/infiniband"),
                script(scripts.ROCE_QOS, ""),
            ),
            sectioned=True,
            timeout_s=30,
        ),
        Probe("nccl_conf", (Files(("/etc/nccl.conf",)), Files(("~/.nccl.conf",))), sectioned=True),
        # the environment
        Probe(
            "env_paths",
            (
                Files(("/etc/environment",)),
                Files(("/etc/profile.d/*", "/etc/ld.so.conf.d/*"), holding="(?i)cuda|nvidia|LD_LIBRARY_PATH"),
                script(scripts.LOGIN_ENV, "login: env"),
                command("ldconfig -p", keep="libcuda|libnvidia-ml|libnccl|libcudart|libnvJitLink"),
            ),
            sectioned=True,
        ),
        Probe("limits", _limits(), sectioned=True),
        Probe("shm", (command("df -kP /dev/shm"),)),
        Probe("sysctl", (command("sysctl -e " + " ".join(SYSCTLS)),)),
        Probe(
            "compilers",
            (command("gcc --version"), command("nvcc --version"), Files(("/proc/version",))),
            sectioned=True,
        ),
        # the network
        Probe("ip_addr", (command("ip -j addr"),)),
        Probe("ip_route", (command("ip -j route"),)),
        Probe("ports", (command("ss -ltnp"),), root_adds="which process listens on a port"),
        Probe(
            "hosts",
            (
                Files(("/etc/hosts",)),
                command("hostname", otherwise=[("uname", "-n")]),
                command("hostname -f"),
                *(Command(("getent", "ahosts", name)) for name in names),
            ),
            sectioned=True,
        ),
        # the machine
        Probe("numa", (command("numactl --hardware", otherwise=[("sh", "-c", scripts.NUMA)]),)),
        Probe(
            "cpu", (command("lscpu"), Files(("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",))), sectioned=True
        ),
        Probe("virt", (Command(("systemd-detect-virt",), otherwise=(("sh", "-c", scripts.VIRT),), answers=(0, 1)),)),
        Probe("memory", (Files(("/proc/meminfo",)),)),
        Probe(
            "disks",
            (Command(("lsblk", "-J", "-b"), "lsblk -J"), command("df -kP", otherwise=[("df", "-kPl")])),
            sectioned=True,
        ),
        # containers, other accelerators, ours
        Probe(
            "containers",
            (
                command("docker version"),
                Files(("/etc/docker/daemon.json",)),
                Files(("/etc/nvidia-container-runtime/config.toml",)),
                command("nvidia-ctk --version"),
                command("snap list docker"),
            ),
            sectioned=True,
        ),
        Probe(
            "cdi",
            (
                command("nvidia-ctk cdi list"),
                script(scripts.CDI_LIBCUDA, "libcuda in /etc/cdi/nvidia.yaml"),
            ),
            sectioned=True,
        ),
        Probe("npu_smi", (command("npu-smi info"),), timeout_s=30),
        Probe("cnmon", (command("cnmon"),), timeout_s=30),
        Probe("rocm_smi", (command("rocm-smi -a --json", otherwise=[("rocm-smi", "-a")]),), timeout_s=30),
        Probe("manifest", (state_files(options, "manifest.json"),)),
        Probe("pending_reboot", (state_files(options, "pending_reboot.json"),)),
        Probe("interpreters", (script(scripts.INTERPRETERS),)),
        Probe("python_env", _python(options), timeout_s=python_script.TIMEOUT_S + 30),
    )
    return {row.id: row for row in rows}


def _limits() -> tuple[Part, ...]:
    return (
        script(scripts.LOGIN_LIMITS, "login: /proc/self/limits"),
        script(scripts.SSHD_LIMITS, "sshd child: /proc/self/limits"),
        Files(("/etc/security/limits.conf", "/etc/security/limits.d/*.conf")),
    )


def _python(options: Options) -> tuple[Part, ...]:
    if not options.python:
        return ()
    return (Command((options.python, "-c", python_script.SCRIPT)),)


def choose(probes: Mapping[str, Probe], wanted: Sequence[str]) -> dict[str, Probe]:
    """The probes with these ids; all when none is named."""
    unknown = sorted(set(wanted) - set(probes))
    if unknown:
        raise ValueError(f"probes: there is no probe {', '.join(unknown)}; there are {', '.join(sorted(probes))}")
    return {name: probe for name, probe in probes.items() if not wanted or name in wanted}
