"""The shape of an Observation: what one look at one node returns.

Other programs read these names (docs/observation.md): rename nothing, add freely.
Units are in the names. Unknown is ``None``; a list is ``[]`` only when its probe
answered and there was nothing. A whole section is ``None`` when none of its probes
answered. Facts that can become evidence keep their raw line in ``raw``.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.schema_nvidia import Nvidia

SCHEMA = 1
#: Longest raw line kept as evidence, in characters.
RAW_LIMIT = 240


class ProbeState(TypedDict):
    status: str  # ok | absent | timeout | error | unreadable
    notes: List[str]


class Os(TypedDict):
    id: Optional[str]
    version_id: Optional[str]
    arch: Optional[str]
    kernel: Optional[str]
    codename: Optional[str]
    id_like: List[str]


class Boot(TypedDict):
    boot_id: Optional[str]
    cmdline: Optional[str]
    modules: Optional[Dict[str, List[str]]]  # loaded module -> modules that use it
    kernels: Optional[List[str]]  # installed
    default_kernel: Optional[str]
    secure_boot: Optional[bool]
    secure_boot_raw: Optional[str]


class Identity(TypedDict):
    machine_id: Optional[str]
    clock_unix_s: Optional[float]
    asked_unix_s: Optional[List[float]]  # [before, after] by the controller's clock, of a live look
    ntp_synchronized: Optional[bool]


class PciDevice(TypedDict):
    address: str  # 0000:17:00.0
    pci_class: str  # 0302
    class_name: str
    id: str  # 10de:2330
    name: str
    revision: Optional[str]
    driver: Optional[str]  # Kernel driver in use (lspci -vv only)
    driver_modules: List[str]
    numa_node: Optional[int]
    link_speed_gt_s: Optional[float]
    link_speed_max_gt_s: Optional[float]
    link_width: Optional[int]
    link_width_max: Optional[int]
    acs: Optional[Dict[str, bool]]  # ACSCtl flags by name: {"SrcValid": True, "ReqRedir": False}
    raw: str


class LogEvent(TypedDict):
    time: Optional[str]
    unit: Optional[str]
    text: str


class Xid(TypedDict):
    xid: int
    pci_address: Optional[str]
    count: int
    last: Optional[str]
    raw: str


class KernelLog(TypedDict):
    xids: List[Xid]
    sxids: List[Xid]  # with fatal: bool
    aer: List[Dict[str, Any]]  # {pci_address, severity: corrected | nonfatal | fatal, count, last, raw}
    nvrm_mismatch: Optional[Dict[str, Optional[str]]]  # {module, library, raw}
    fallen_off: List[str]  # addresses of GPUs of which the driver says so in words, with or without an Xid
    oom: List[Dict[str, Any]]  # {pid, process, cgroup, time, raw}
    notable: List[str]  # raw lines that name NVRM, nvidia, mlx5, nouveau, nova, IOMMU or thermal trouble


class GidEntry(TypedDict):
    index: int
    gid: str
    type: Optional[str]


class RdmaPort(TypedDict):
    port: int
    state: Optional[str]
    physical_state: Optional[str]
    rate_gbit_s: Optional[float]
    link_layer: Optional[str]
    netdev: Optional[str]
    lid: Optional[int]
    sm_lid: Optional[int]
    mtu_active: Optional[int]
    mtu_max: Optional[int]
    gids: Optional[List[GidEntry]]
    raw: Optional[str]


class RdmaDevice(TypedDict):
    name: str
    pci_address: Optional[str]
    board: Optional[str]
    firmware: Optional[str]
    ca_type: Optional[str]
    virtual: Optional[bool]  # a virtual function of SR-IOV
    ports: List[RdmaPort]


class RdmaStack(TypedDict):
    ofed: Optional[str]
    ofed_kernel_source: Optional[str]
    memory_peers: Optional[List[str]]
    class_devices: Optional[List[str]]
    char_devices: Optional[List[str]]
    qos: Dict[str, Dict[str, Any]]  # netdev or device -> {trust, pfc: [priorities with flow control], roce_tos, raw}


class Rdma(TypedDict):
    devices: Optional[List[RdmaDevice]]
    stack: Optional[RdmaStack]
    mlxconfig: Optional[Dict[str, Dict[str, str]]]
    counters: Optional[Dict[str, Dict[str, int]]]  # "mlx5_0/1" -> counter, as the kernel names it -> value


class DpkgEntry(TypedDict):
    name: str
    version: str
    arch: str
    state: str  # ii, iF, iU, rc ...


class RpmEntry(TypedDict):
    name: str
    version: str  # epoch:version-release, the epoch only where it is not 0
    arch: str


class Packages(TypedDict):
    dpkg: Optional[Dict[str, str]]  # installed: name -> version
    dpkg_entries: Optional[List[DpkgEntry]]  # every row, other states too
    held: Optional[List[str]]
    rpm: Optional[Dict[str, str]]
    rpm_entries: Optional[List[RpmEntry]]  # every row: kernels are installed several times
    versionlock: Optional[List[str]]
    # {installed, candidate, pin, raw, versions: [{version, priority, installed, phased_percent, origins: [text], raw}]}
    policy: Optional[Dict[str, Dict[str, Any]]]
    # {start, end, commandline, requested_by, error, actions: {upgrade: [{name, arch, from, to, automatic, raw}]}}
    history: Optional[List[Dict[str, Any]]]
    # {file, types, uris, suites, components, architectures, signed_by, trusted, enabled, raw}
    sources: Optional[List[Dict[str, Any]]]
    keys: Optional[List[Dict[str, str]]]  # {keyring, fingerprint, uid}
    apt_config: Optional[Dict[str, str]]  # file -> text
    apt_settings: Optional[Dict[str, List[str]]]  # what apt.conf.d adds up to, names in lower case
    apt_pins: Optional[List[Dict[str, Any]]]  # {file, packages: [pattern], pin, priority, raw}
    dkms: Optional[List[Dict[str, Any]]]  # {module, version, kernel, arch, state, warning, raw}
    dkms_log: Optional[str]


class Unit(TypedDict):
    load: Optional[str]
    active: Optional[str]
    sub: Optional[str]
    enabled: Optional[str]
    result: Optional[str]
    condition_result: Optional[str]
    properties: Dict[str, str]


class Network(TypedDict):
    addresses: Optional[List[Dict[str, Any]]]  # `ip -j addr`, as parsed JSON
    routes: Optional[List[Dict[str, Any]]]
    listening: Optional[List[Dict[str, Any]]]  # {address, interface, port, process, pid, raw}
    hostname: Optional[str]
    fqdn: Optional[str]
    etc_hosts: Optional[List[Dict[str, Any]]]  # {address, names, raw}
    resolved: Optional[Dict[str, List[str]]]  # name -> addresses


class LimitEntry(TypedDict):
    file: str
    domain: str  # a user, @group, *
    type: str  # soft | hard | -
    item: str  # memlock, nofile ...
    value: str
    raw: str


class Limits(TypedDict):
    login: Optional[Dict[str, Dict[str, str]]]  # {"Max locked memory": {soft, hard, unit, raw}}
    sshd_child: Optional[Dict[str, Dict[str, str]]]
    files: Optional[Dict[str, str]]
    entries: Optional[List[LimitEntry]]  # what the files say


class Machine(TypedDict):
    cpu: Optional[Dict[str, Any]]  # {model, sockets, cores, threads, numa_nodes, governor}
    numa: Optional[List[Dict[str, Any]]]  # {node, cpus, memory_mib}
    virt: Optional[str]  # systemd-detect-virt: none, kvm, docker ...
    container: Optional[bool]
    memory_mib: Optional[int]
    memory_available_mib: Optional[int]
    shm_mib: Optional[int]
    shm_available_mib: Optional[int]
    shm_raw: Optional[str]
    block_devices: Optional[List[Dict[str, Any]]]
    filesystems: Optional[List[Dict[str, Any]]]  # {device, mount, size_mib, available_mib}
    sysctl: Optional[Dict[str, str]]


class ModprobeDirective(TypedDict):
    file: str
    directive: str  # blacklist, options, install, alias, softdep, load (modules-load.d) ...
    module: str  # with _ for -
    arguments: str
    raw: str


class Variable(TypedDict):
    file: str  # or `login: env`
    name: str
    value: str
    raw: str


class LibraryPath(TypedDict):
    file: str  # of ld.so.conf.d
    path: str
    raw: str


class SharedLibrary(TypedDict):
    name: str  # libcuda.so.1
    flags: str  # libc6,x86-64
    path: str
    raw: str


class Configuration(TypedDict):
    modprobe: Optional[Dict[str, str]]  # file -> text
    modprobe_directives: Optional[List[ModprobeDirective]]
    nccl_conf: Optional[Dict[str, Dict[str, str]]]  # file -> {NAME: value}, the value as NCCL takes it
    environment: Optional[Dict[str, str]]  # file or `login: env` or `ldconfig -p` -> text
    variables: Optional[List[Variable]]
    library_paths: Optional[List[LibraryPath]]
    libraries: Optional[List[SharedLibrary]]  # of `ldconfig -p`, in its order: the first of a name is loaded
    compilers: Optional[Dict[str, Optional[str]]]  # {gcc, nvcc, kernel: the compiler that built the running kernel}


class Containers(TypedDict):
    docker_version: Optional[str]
    docker_error: Optional[str]  # why the daemon did not answer
    toolkit_config: Optional[Dict[str, str]]  # nvidia-container-runtime/config.toml: "table.key" -> value
    daemon_json: Optional[Dict[str, Any]]
    daemon_json_error: Optional[str]
    nvidia_ctk: Optional[str]
    snap_docker: Optional[bool]
    cdi_devices: Optional[List[str]]
    cdi_libcuda: Optional[List[str]]  # raw lines


class Accelerator(TypedDict):
    vendor: str  # huawei | cambricon | amd
    index: Optional[int]
    name: Optional[str]
    health: Optional[str]
    pci_address: Optional[str]
    raw: str


class Observation(TypedDict, total=False):
    schema: int
    probes: Dict[str, ProbeState]
    os: Os
    boot: Boot
    identity: Optional[Identity]
    pci: Optional[List[PciDevice]]
    nvidia: Nvidia
    journal_nvidia: Optional[List[LogEvent]]
    kernel_log: Optional[KernelLog]
    rdma: Rdma
    packages: Packages
    units: Optional[Dict[str, Unit]]
    network: Network
    limits: Limits
    machine: Machine
    configuration: Configuration
    containers: Containers
    python_env: Optional[
        Dict[str, Any]
    ]  # the probe's JSON as design of the probe: {interpreter, python, packages, torch, env, pip_config}
    interpreters: Optional[List[Dict[str, str]]]  # Pythons found: {path, version}, the PATH's own first
    accelerators: Optional[List[Accelerator]]
    manifest: Optional[Dict[str, Any]]
    pending_reboot: Optional[Dict[str, Any]]
    fingerprints: Dict[str, Any]  # layer -> resource kind -> name -> state; only where resources were asked for
