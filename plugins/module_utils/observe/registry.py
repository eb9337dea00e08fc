"""Which parser reads which probe, and the joins that make one fact of several; by name, so a module's zip has all."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Callable

from ansible_collections.trainrig.gpu.plugins.module_utils.observe import gpus
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers import (
    accelerators,
    apt,
    apt_config,
    apt_sources,
    configuration,
    containers,
    dkms,
    documents,
    dpkg,
    interpreters,
    kernel_log,
    limits,
    machine,
    network,
    nvidia_driver,
    nvidia_smi,
    nvidia_tables,
    pci,
    rdma,
    rdma_stack,
    rpm,
    system,
    units,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Parser

#: Probe id -> parser. A parser takes a Reading and returns {place in the Observation: value}.
PARSERS: dict[str, Parser] = {
    # the system
    "os_release": system.os_release,
    "uname": system.uname,
    "cmdline": system.cmdline,
    "modules": system.modules,
    "boot_id": system.boot_id,
    "kernels": system.kernels,
    "identity": system.identity,
    # the machine
    "numa": machine.numa,
    "cpu": machine.cpu,
    "virt": machine.virt,
    "memory": machine.memory,
    "disks": machine.disks,
    "shm": machine.shm,
    "sysctl": machine.sysctl,
    # the buses and the NVIDIA driver
    "lspci": pci.lspci,
    "lspci_vv": pci.lspci_vv,
    "nvidia_version": nvidia_driver.nvidia_version,
    "nvidia_params": nvidia_driver.nvidia_params,
    "nvidia_gpus": nvidia_driver.nvidia_gpus,
    "nvidia_nvswitch": nvidia_driver.nvidia_nvswitch,
    "nvidia_libs": nvidia_driver.nvidia_libs,
    "fabricmanager": nvidia_driver.fabricmanager,
    "nvidia_smi_xml": nvidia_smi.nvidia_smi_xml,
    "nvidia_smi_topo": nvidia_tables.nvidia_smi_topo,
    "nvidia_smi_nvlink": nvidia_tables.nvidia_smi_nvlink,
    "nvidia_smi_nvlink_errors": nvidia_tables.nvidia_smi_nvlink_errors,
    "nvidia_smi_p2p": nvidia_tables.nvidia_smi_p2p,
    "nvidia_processes": nvidia_tables.nvidia_processes,
    "dmesg": kernel_log.dmesg,
    "journal_nvidia": kernel_log.journal_nvidia,
    # packages
    "dpkg": dpkg.dpkg,
    "apt_holds": dpkg.apt_holds,
    "apt_policy": apt.apt_policy,
    "apt_history": apt.apt_history,
    "apt_sources": apt_sources.apt_sources,
    "apt_config": apt_config.apt_config,
    "rpm": rpm.rpm,
    "dnf_versionlock": rpm.dnf_versionlock,
    "dkms": dkms.dkms,
    "dkms_log": dkms.dkms_log,
    "secure_boot": dkms.secure_boot,
    "units": units.units,
    # the fabric
    "ibstat": rdma.ibstat,
    "ibv_devinfo": rdma.ibv_devinfo,
    "rdma_link": rdma.rdma_link,
    "gids": rdma.gids,
    "rdma_counters": rdma_stack.rdma_counters,
    "mlxconfig": rdma_stack.mlxconfig,
    "rdma_stack": rdma_stack.rdma_stack,
    # configuration
    "modprobe": configuration.modprobe,
    "nccl_conf": configuration.nccl_conf,
    "env_paths": configuration.env_paths,
    "compilers": configuration.compilers,
    "limits": limits.limits,
    # the network
    "ip_addr": network.ip_addr,
    "ip_route": network.ip_route,
    "ports": network.ports,
    "hosts": network.hosts,
    # containers, other accelerators
    "containers": containers.containers,
    "cdi": containers.cdi,
    "npu_smi": accelerators.npu_smi,
    "cnmon": accelerators.cnmon,
    "rocm_smi": accelerators.rocm_smi,
    # documents
    "manifest": documents.manifest,
    "pending_reboot": documents.pending_reboot,
    "interpreters": interpreters.interpreters,
    "python_env": documents.python_env,
}

#: Join by probe (where its failure is noted): (facts under "join.", Observation so far) -> facts. In this order, last.
JOINS: dict[str, Callable[[Facts, dict[str, Any]], Facts]] = {
    "lspci": pci.join,
    "nvidia_version": gpus.driver,
    "nvidia_gpus": gpus.gpus,
    "nvidia_smi_topo": gpus.topology,
    "nvidia_processes": gpus.processes,
    "rdma_devices": rdma.devices,
    "accelerators": accelerators.accelerators,
}
