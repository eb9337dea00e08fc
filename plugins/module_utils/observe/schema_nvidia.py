"""The NVIDIA part of the shape of an Observation (see schema.py, whose rules hold here)."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Dict, List, Optional, TypedDict


class Ecc(TypedDict):
    enabled: Optional[bool]
    uncorrected_volatile: Optional[int]
    uncorrected_aggregate: Optional[int]
    corrected_volatile: Optional[int]
    corrected_aggregate: Optional[int]
    remap_pending: Optional[bool]
    remap_failed: Optional[bool]
    remapped_uncorrectable: Optional[int]
    remapped_correctable: Optional[int]
    sram_threshold_exceeded: Optional[bool]
    retired_pending: Optional[bool]


class Pcie(TypedDict):
    gen: Optional[int]
    gen_max: Optional[int]  # what this GPU in this slot can do: the smaller of the next two
    gen_max_device: Optional[int]
    gen_max_host: Optional[int]
    width: Optional[int]
    width_max: Optional[int]
    replays: Optional[int]


class NvlinkState(TypedDict):
    links: Optional[int]
    links_active: Optional[int]
    link_gb_s: Optional[List[Optional[float]]]  # per link, None = inactive
    errors: Optional[Dict[str, Dict[str, int]]]  # replay | recovery | crc -> number of the link -> count


class FabricState(TypedDict):
    state: Optional[str]
    status: Optional[str]
    clique_id: Optional[str]
    cluster_uuid: Optional[str]
    health: Optional[str]


class MigDevice(TypedDict):
    index: Optional[int]
    gpu_instance: Optional[int]
    compute_instance: Optional[int]
    memory_mib: Optional[int]
    memory_used_mib: Optional[int]


class Gpu(TypedDict):
    index: Optional[int]
    pci_address: str
    pci_id: Optional[str]
    name: Optional[str]
    model: Optional[str]  # key of data/gpus.yml, added on the controller; None = not in data
    uuid: Optional[str]
    serial: Optional[str]
    vbios: Optional[str]
    memory_mib: Optional[int]
    memory_used_mib: Optional[int]
    mig_enabled: Optional[bool]  # None: it has no MIG
    mig_devices: List[MigDevice]
    ecc: Ecc
    pcie: Pcie
    nvlink: NvlinkState
    fabric: FabricState
    throttle_reasons: Optional[List[str]]
    temperature_c: Optional[int]
    temperature_slowdown_c: Optional[int]  # from which on the GPU slows itself down; newer ones say a margin instead
    temperature_margin_c: Optional[int]  # what is left to the highest temperature of operation
    power_w: Optional[float]
    power_limit_w: Optional[float]
    power_limit_max_w: Optional[float]
    power_limit_default_w: Optional[float]
    utilization_percent: Optional[int]
    clock_sm_mhz: Optional[int]
    clock_sm_max_mhz: Optional[int]
    clock_application_sm_mhz: Optional[int]
    clock_application_default_sm_mhz: Optional[int]
    persistence_mode: Optional[bool]
    compute_mode: Optional[str]
    virtualization_mode: Optional[str]  # None, Pass-Through, VGPU ... as nvidia-smi says; null where it does not
    recovery_action: Optional[str]  # None, Reset, Reboot, Drain P2P ... as nvidia-smi says; null where it does not
    query_errors: List[str]  # values for which nvidia-smi printed an error ("temperature/gpu_temp")
    lost: bool
    hidden: Optional[bool]  # on the bus, left out by the driver on request (not lost); None: nothing tells
    raw: str


class GpuProcess(TypedDict):
    gpu_uuid: Optional[str]
    pid: int
    name: Optional[str]
    used_memory_mib: Optional[int]


class Driver(TypedDict):
    module: Optional[str]
    module_flavour: Optional[str]  # open | proprietary
    library: Optional[str]
    cuda: Optional[str]
    module_raw: Optional[str]
    library_raw: Optional[str]
    library_files: Optional[List[str]]  # ls -l lines of libnvidia-ml.so*, libcuda.so*, compat
    uninstaller: Optional[bool]  # /usr/bin/nvidia-uninstall: a runfile was used
    params: Optional[Dict[str, str]]


class Topology(TypedDict):
    gpus: Dict[str, Dict[str, str]]
    nics: Dict[str, str]
    cpu_affinity: Dict[str, str]
    numa: Dict[str, Optional[int]]
    p2p: Optional[Dict[str, Dict[str, str]]]


class Nvidia(TypedDict):
    driver: Driver
    gpus: Optional[List[Gpu]]
    smi_error: Optional[str]  # the sentence nvidia-smi printed instead of XML
    topology: Optional[Topology]
    processes: Optional[List[GpuProcess]]  # those that compute
    graphics_processes: Optional[List[GpuProcess]]  # those that only draw (they hold memory as well)
    nvswitches: Optional[List[str]]
    proc_gpus: Optional[List[str]]
    fabricmanager_version: Optional[str]
