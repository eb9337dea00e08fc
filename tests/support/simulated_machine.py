"""Simulated machines: the raw output of every probe for a machine described in a few words, all healthy.

Test equipment. Numbers, names and addresses are invented; the shapes are those of the real tools. A case changes what
it is about in the text of one probe or another.
"""

# ruff: noqa: E501 - a line of a tool's output is as long as the tool makes it
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
from dataclasses import dataclass, field

NVSWITCH = {"10de:1af1": "GA100 [A100 NVSwitch]", "10de:22a3": "GH100 [H100 NVSwitch]"}


@dataclass
class Machine:
    """What a machine is made of. The defaults are one node of eight H100 on bare metal."""

    os: str = "ubuntu 24.04 noble"
    kernel: str = "6.8.0-86-generic"
    virt: str = "none"
    gpu: str = "NVIDIA H100 80GB HBM3"
    pci: str = "10de:2330"
    chip: str = "GH100 [H100 SXM5 80GB]"
    architecture: str = "Hopper"
    gpus: int = 8
    memory_mib: int = 81559
    pcie: int = 5
    nvlinks: int = 18
    link_gb_s: float = 26.562
    fabric: bool = True
    nvswitches: tuple[str, ...] = ("10de:22a3",) * 4
    flavour: str = "Open "
    driver: str | None = "580.95.05"
    cuda: str = "13.0"
    vbios: str = "96.00.A5.00.01"
    ecc: bool = True
    packages: dict[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = (
        "nvidia",
        "nvidia_uvm",
        "nvidia_modeset",
        "nvidia_peermem",
        "mlx5_core",
        "mlx5_ib",
        "ib_umad",
    )
    dkms: bool = True
    fabric_manager: bool = True
    nics: int = 8
    rate: int = 400
    link_layer: str = "InfiniBand"
    nic_chip: str = "15b3:1021 MT2910 Family [ConnectX-7]"
    docker: bool = True
    torch: str | None = "2.13.0+cu130"
    nccl: str = "2.29.7"
    archs: str = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
    memory_gib: int = 2048
    number: int = 1

    def gpu_addresses(self) -> list[str]:
        return [f"0000:{bus:02x}:00.0" for bus in (0x19, 0x3B, 0x4C, 0x5D, 0x9B, 0xBB, 0xCB, 0xDB)[: self.gpus]]

    def nic_addresses(self) -> list[str]:
        return [f"0000:{bus:02x}:00.0" for bus in (0x18, 0x3A, 0x4B, 0x5C, 0x9A, 0xBA, 0xCA, 0xDA)[: self.nics]]

    def switch_addresses(self) -> list[str]:
        return [f"0000:{5 + n:02x}:00.0" for n in range(len(self.nvswitches))]


def probes(machine: Machine) -> dict[str, str]:
    """Probe id -> raw output."""
    parts = (_system, _bus, _packages, _driver, _fabric, _network, _environment, _containers)
    found: dict[str, str] = {}
    for part in parts:
        found.update(part(machine))
    return {name: text for name, text in found.items() if text is not None}


def section(name: str, text: str) -> str:
    return f"==> {name} <==\n{text.rstrip(chr(10))}\n"


def _system(m: Machine) -> dict[str, str]:
    name, version, codename = m.os.split()
    like = {"ubuntu": "debian", "debian": "", "rocky": "rhel centos fedora"}[name]
    modules = [*(m.modules if m.driver else ()), "ext4", "xfs", "overlay"]
    return {
        "os_release": f'ID={name}\nVERSION_ID="{version}"\nVERSION_CODENAME={codename}\n'
        + (f'ID_LIKE="{like}"\n' if like else ""),
        "uname": f"Linux node-{m.number} {m.kernel} #1 SMP PREEMPT_DYNAMIC Thu Sep 18 10:11:12 UTC 2026 x86_64 GNU/Linux\n",
        "cmdline": f"BOOT_IMAGE=/boot/vmlinuz-{m.kernel} root=UUID=0e9d4a0e-0001 ro iommu=pt console=ttyS0\n",
        "boot_id": f"5f0c2a41-7d3e-4b52-9a66-0000000000{m.number:02d}\n",
        "modules": "".join(f"{one} 16384 1 - Live 0x0000000000000000\n" for one in modules),
        "kernels": f"* {m.kernel}\n",
        "identity": section("/etc/machine-id", f"a1b2c3d4e5f60718293a4b5c6d7e8f{m.number:02d}")
        + section("date -u +%s.%N", "1764495000.125000000")
        + section("timedatectl show -p NTPSynchronized", "NTPSynchronized=yes"),
        "secure_boot": "SecureBoot disabled\n",
        "virt": f"{m.virt}\n",
        "memory": f"MemTotal:       {m.memory_gib * 1048576} kB\nMemAvailable:   {m.memory_gib * 1000000} kB\n",
        "shm": "Filesystem     1024-blocks  Used Available Capacity Mounted on\n"
        f"tmpfs            {m.memory_gib * 524288}     4 {m.memory_gib * 524288 - 4}       1% /dev/shm\n",
        "limits": section("login: /proc/self/limits", _limits()) + section("sshd child: /proc/self/limits", _limits()),
        "cpu": section(
            "lscpu",
            "CPU(s): 192\nModel name: Example CPU\nSocket(s): 2\nCore(s) per socket: 48\nThread(s) per core: 2\n"
            "NUMA node(s): 2\n",
        ),
        "sysctl": "kernel.numa_balancing = 0\nnet.ipv4.ip_local_port_range = 32768\t60999\n",
        "disks": section(
            "df -kP",
            "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/md0 1875000000 90000000 1785000000 5% /",
        ),
    }


def _limits() -> str:
    return (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            1048576              1048576              files     \n"
        "Max locked memory         unlimited            unlimited            bytes     \n"
    )


def _bus(m: Machine) -> dict[str, str]:
    devices = [("0000:00:01.0", "PCI bridge [0604]: Example Root Port [8086:352a]", "pcieport", 5, 16)]
    devices += [
        (address, f"3D controller [0302]: NVIDIA Corporation {m.chip} [{m.pci}] (rev a1)", "nvidia", m.pcie, 16)
        for address in m.gpu_addresses()
    ]
    for address, pci in zip(m.switch_addresses(), m.nvswitches):
        devices.append(
            (address, f"Bridge [0680]: NVIDIA Corporation {NVSWITCH[pci]} [{pci}] (rev a1)", "nvidia-nvswitch", 4, 2)
        )
    nic, nic_name = m.nic_chip.split(" ", 1)
    kind = "Infiniband controller [0207]" if m.link_layer == "InfiniBand" else "Ethernet controller [0200]"
    for address in m.nic_addresses():
        devices.append((address, f"{kind}: Mellanox Technologies {nic_name} [{nic}]", "mlx5_core", 5, 16))
    speed = {1: "2.5", 2: "5", 3: "8", 4: "16", 5: "32"}
    short, long = [], []
    for address, text, driver, generation, width in sorted(devices):
        owner = f"\tKernel driver in use: {driver}\n" if m.driver or driver not in ("nvidia", "nvidia-nvswitch") else ""
        short.append(f"{address} {text}\n")
        acs = "\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-\n"
        long.append(
            f"{address} {text}\n\tNUMA node: 0\n"
            f"\t\tLnkCap:\tPort #0, Speed {speed[generation]}GT/s, Width x{width}, ASPM not supported\n"
            f"\t\tLnkSta:\tSpeed {speed[generation]}GT/s (ok), Width x{width} (ok)\n"
            + (acs if "PCI bridge" in text else "")
            + owner
        )
    return {"lspci": "".join(short), "lspci_vv": "\n".join(long)}


def _packages(m: Machine) -> dict[str, str]:
    name, _version, codename = m.os.split()
    if name == "rocky":
        rows = [f"{package} 0:{one} x86_64\n" for package, one in m.packages.items()]
        built = f"nvidia-open/{m.driver}, {m.kernel}, x86_64: installed\n"
        return {"rpm": "".join(rows), "dnf_versionlock": "", "dkms": built}
    holds = [
        one for one in m.packages if one.startswith(("nvidia-", "libnvidia-", "libcuda1", "linux-modules-nvidia-"))
    ]
    rows = [f"ii  {package} {one} amd64\n" for package, one in sorted(m.packages.items())]
    rows.append(f"ii  linux-image-{m.kernel} {m.kernel.split('-generic')[0]}.1 amd64\n")
    origin = (
        "https://repo.example/compute/cuda/repos/ubuntu2404/x86_64  Packages"
        if any(one.endswith("-0ubuntu1") for one in m.packages.values())
        else f"http://archive.example/{name} {codename}-updates/restricted amd64 Packages"
    )
    policy = "".join(
        f"{package}:\n  Installed: {one}\n  Candidate: {one}\n  Version table:\n *** {one} 500\n        500 {origin}\n"
        "        100 /var/lib/dpkg/status\n"
        for package, one in sorted(m.packages.items())
    )
    return {
        "dpkg": "".join(rows),
        "apt_holds": "".join(f"{one}\n" for one in sorted(holds)),
        "apt_policy": policy,
        "apt_config": section(
            "/etc/apt/apt.conf.d/50unattended-upgrades",
            'Unattended-Upgrade::Allowed-Origins {\n\t"${distro_id}:${distro_codename}-security";\n};\n'
            'Unattended-Upgrade::Package-Blacklist {\n\t"^nvidia-";\n\t"^libnvidia-";\n\t"^linux-";\n};',
        )
        + section(
            "/etc/apt/apt.conf.d/20auto-upgrades",
            'APT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "1";',
        ),
        "dkms": f"nvidia/{m.driver}, {m.kernel}, x86_64: installed\n" if m.dkms and m.driver else "",
    }


def _driver(m: Machine) -> dict[str, str]:
    if not m.driver:
        return {}
    library = f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{m.driver}"
    version = (
        f"NVRM version: NVIDIA UNIX {m.flavour}Kernel Module for x86_64  {m.driver}  Release Build  (builder@host)\n"
        "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
    )
    if not m.flavour:
        version = (
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {m.driver}  Wed Sep 10 12:00:00 UTC 2026\n"
            "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
        )
    return {
        "nvidia_version": version,
        "nvidia_params": "EnableMSI: 1\nNVreg_RestrictProfilingToAdminUsers: 1\n",
        "nvidia_gpus": "".join(f"{address}\n" for address in m.gpu_addresses()),
        "nvidia_nvswitch": "".join(f"{address}\n" for address in m.switch_addresses()) or None,
        "nvidia_libs": f"lrwxrwxrwx 1 root root 25 Sep 20 09:00 /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 -> "
        f"libnvidia-ml.so.{m.driver}\n-rw-r--r-- 1 root root 2249000 Sep 20 09:00 {library}\n"
        f"-rw-r--r-- 1 root root 96000000 Sep 20 09:00 /usr/lib/x86_64-linux-gnu/libcuda.so.{m.driver}\n",
        "nvidia_smi_xml": smi_xml(m),
        "nvidia_smi_topo": _topo(m),
        "nvidia_smi_nvlink": _nvlink(m),
        "nvidia_processes": "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n",
        "fabricmanager": f"Fabric Manager version is : {m.driver}\n" if m.fabric_manager and m.nvswitches else None,
        "journal_nvidia": "-- No entries --\n",
        "dmesg": f"2026-11-30T08:00:00+0000 node-{m.number} kernel: Linux version {m.kernel} (builder@host) "
        "(x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0, GNU ld 2.42)\n"
        f"2026-11-30T08:00:09+0000 node-{m.number} kernel: NVRM: loading NVIDIA UNIX {m.flavour}Kernel Module  {m.driver}\n",
    }


def uuid(index: int, number: int = 1) -> str:
    return f"GPU-{number:02d}{index:02d}aaaa-bbbb-4ccc-8ddd-eeeeeeee{index:04d}"


def smi_xml(m: Machine) -> str:
    gpus = "".join(_smi_gpu(m, index, address) for index, address in enumerate(m.gpu_addresses()))
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>\n'
        f"<timestamp>Mon Nov 30 09:30:00 2026</timestamp>\n<driver_version>{m.driver}</driver_version>\n"
        f"<cuda_version>{m.cuda}</cuda_version>\n<attached_gpus>{m.gpus}</attached_gpus>\n{gpus}</nvidia_smi_log>\n"
    )


def _smi_gpu(m: Machine, index: int, address: str) -> str:
    bus = "0000" + address.upper()
    vendor, device = m.pci.upper().split(":")
    reasons = (
        *("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown"),
        *("hw_power_brake_slowdown", "sync_boost", "sw_thermal_slowdown", "display_clocks_setting"),
    )
    active = "".join(
        f"<clocks_event_reason_{one}>{'Active' if one == 'gpu_idle' else 'Not Active'}</clocks_event_reason_{one}>"
        for one in reasons
    )
    zero = "0" if m.ecc else "N/A"
    errors = (
        f"<sram_correctable>{zero}</sram_correctable><sram_uncorrectable_parity>{zero}</sram_uncorrectable_parity>"
        f"<sram_uncorrectable_secded>{zero}</sram_uncorrectable_secded><dram_correctable>{zero}</dram_correctable>"
        f"<dram_uncorrectable>{zero}</dram_uncorrectable>"
    )
    remap = (
        "<remapped_rows><remapped_row_corr>0</remapped_row_corr><remapped_row_unc>0</remapped_row_unc>"
        "<remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>"
        if m.ecc
        else "<remapped_rows>N/A</remapped_rows>"
    )
    fabric = (
        "<fabric><state>Completed</state><status>Success</status><cliqueId>0</cliqueId>"
        "<clusterUuid>00000000-0000-0000-0000-000000000000</clusterUuid><health><bandwidth>N/A</bandwidth></health></fabric>"
        if m.fabric
        else "<fabric><state>N/A</state><status>N/A</status><cliqueId>N/A</cliqueId><clusterUuid>N/A</clusterUuid></fabric>"
    )
    ecc = "Enabled" if m.ecc else "N/A"
    return f"""<gpu id="{bus}">
<product_name>{m.gpu}</product_name>
<product_brand>NVIDIA</product_brand>
<product_architecture>{m.architecture}</product_architecture>
<persistence_mode>Enabled</persistence_mode>
<mig_mode><current_mig>{"Disabled" if m.ecc else "N/A"}</current_mig><pending_mig>{"Disabled" if m.ecc else "N/A"}</pending_mig></mig_mode>
<serial>16524{index:08d}</serial>
<uuid>{uuid(index, m.number)}</uuid>
<minor_number>{index}</minor_number>
<vbios_version>{m.vbios}</vbios_version>
<gpu_recovery_action>None</gpu_recovery_action>
<pci><pci_bus>{address[5:7].upper()}</pci_bus><pci_device_id>{device}{vendor}</pci_device_id><pci_bus_id>{bus}</pci_bus_id>
<pci_gpu_link_info><pcie_gen><max_link_gen>{m.pcie}</max_link_gen><current_link_gen>1</current_link_gen>
<device_current_link_gen>1</device_current_link_gen><max_device_link_gen>{m.pcie}</max_device_link_gen></pcie_gen>
<link_widths><max_link_width>16x</max_link_width><current_link_width>16x</current_link_width></link_widths></pci_gpu_link_info>
<replay_counter>0</replay_counter><replay_rollover_counter>0</replay_rollover_counter></pci>
<performance_state>P0</performance_state>
<clocks_event_reasons>{active}</clocks_event_reasons>
<fb_memory_usage><total>{m.memory_mib} MiB</total><reserved>551 MiB</reserved><used>4 MiB</used><free>{m.memory_mib - 555} MiB</free></fb_memory_usage>
<compute_mode>Default</compute_mode>
<utilization><gpu_util>0 %</gpu_util><memory_util>0 %</memory_util></utilization>
<ecc_mode><current_ecc>{ecc}</current_ecc><pending_ecc>{ecc}</pending_ecc></ecc_mode>
<ecc_errors><volatile>{errors}</volatile><aggregate>{errors}</aggregate></ecc_errors>
<retired_pages><pending_blacklist>N/A</pending_blacklist><pending_retirement>N/A</pending_retirement></retired_pages>
{remap}
<temperature><gpu_temp>31 C</gpu_temp></temperature>
<gpu_power_readings><power_state>P0</power_state><instant_power_draw>71.20 W</instant_power_draw>
<current_power_limit>700.00 W</current_power_limit><default_power_limit>700.00 W</default_power_limit>
<max_power_limit>700.00 W</max_power_limit></gpu_power_readings>
<clocks><graphics_clock>345 MHz</graphics_clock><sm_clock>345 MHz</sm_clock><mem_clock>2619 MHz</mem_clock></clocks>
<applications_clocks><graphics_clock>1980 MHz</graphics_clock><mem_clock>2619 MHz</mem_clock></applications_clocks>
<default_applications_clocks><graphics_clock>1980 MHz</graphics_clock><mem_clock>2619 MHz</mem_clock></default_applications_clocks>
<max_clocks><graphics_clock>1980 MHz</graphics_clock><sm_clock>1980 MHz</sm_clock><mem_clock>2619 MHz</mem_clock></max_clocks>
{fabric}
<processes></processes>
</gpu>
"""


def _topo(m: Machine) -> str:
    names = [f"GPU{index}" for index in range(m.gpus)]
    link = f"NV{m.nvlinks}" if m.nvlinks else "SYS"
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity"])]
    for one in names:
        cells = [" X " if one == other else link for other in names]
        lines.append("\t".join([one, *cells, "0-47,96-143", "0"]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", ""])


def _nvlink(m: Machine) -> str | None:
    if not m.nvlinks:
        return None
    lines = []
    for index in range(m.gpus):
        lines.append(f"GPU {index}: {m.gpu} (UUID: {uuid(index, m.number)})")
        lines += [f"\t Link {link}: {m.link_gb_s} GB/s" for link in range(m.nvlinks)]
    return "\n".join(lines) + "\n"


def _fabric(m: Machine) -> dict[str, str]:
    loaded = "LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nResult=success\nConditionResult=yes\n"
    absent = (
        "LoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\nResult=success\nConditionResult=no\n"
    )
    units = {
        "nvidia-persistenced.service": bool(m.driver),
        "nvidia-fabricmanager.service": m.fabric_manager and bool(m.nvswitches),
        "unattended-upgrades.service": True,
        "docker.service": m.docker,
        "ssh.service": True,
        "opensm.service": False,
    }
    blocks = [f"Id={name}\n{loaded if there else absent}LimitMEMLOCK=infinity\n" for name, there in units.items()]
    found = {"units": "\n".join(blocks)}
    if not m.nics:
        return found
    ib = m.link_layer == "InfiniBand"
    cards = []
    for index in range(m.nics):
        cards.append(
            f"CA 'mlx5_{index}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.43.2026\n"
            f"\tHardware version: 0\n\tNode GUID: 0xa088c203{m.number:04x}{index:04x}\n\tPort 1:\n\t\tState: Active\n"
            f"\t\tPhysical state: LinkUp\n\t\tRate: {m.rate}\n\t\tBase lid: {100 * m.number + index if ib else 0}\n\t\tLMC: 0\n"
            f"\t\tSM lid: {1 if ib else 0}\n\t\tCapability mask: 0xa751e848\n\t\tPort GUID: 0xa088c203{m.number:04x}{index:04x}\n"
            f"\t\tLink layer: {m.link_layer}\n"
        )
    found["ibstat"] = "".join(cards)
    found["ibv_devinfo"] = "".join(_devinfo(m, index) for index in range(m.nics))
    found["rdma_link"] = "".join(
        f"link mlx5_{index}/1 state ACTIVE physical_state LINK_UP" + ("\n" if ib else f" netdev ens{index}f0np0\n")
        for index in range(m.nics)
    )
    names = "".join(f"mlx5_{index}\n" for index in range(m.nics))
    found["rdma_stack"] = section("ls -1 /sys/class/infiniband", names) + section(
        "ls -1 /dev/infiniband", "".join(f"umad{n}\nuverbs{n}\n" for n in range(m.nics)) + "rdma_cm\n"
    )
    if not ib:
        rows = ["DEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV"]
        for index in range(m.nics):
            four = f"10.0.{index}.{10 + m.number}"
            rows.append(f"mlx5_{index}\t1\t0\tfe80:0000:0000:0000:a288:c2ff:fe03:{index:04x}\t\tv1\tens{index}f0np0")
            rows.append(f"mlx5_{index}\t1\t1\tfe80:0000:0000:0000:a288:c2ff:fe03:{index:04x}\t\tv2\tens{index}f0np0")
            tail = f"0a00:{index:02x}{10 + m.number:02x}"
            rows.append(f"mlx5_{index}\t1\t2\t0000:0000:0000:0000:0000:ffff:{tail}\t{four}\tv1\tens{index}f0np0")
            rows.append(f"mlx5_{index}\t1\t3\t0000:0000:0000:0000:0000:ffff:{tail}\t{four}\tv2\tens{index}f0np0")
        found["gids"] = "\n".join(rows) + "\n"
    return found


def _devinfo(m: Machine, index: int) -> str:
    ib = m.link_layer == "InfiniBand"
    return (
        f"hca_id:\tmlx5_{index}\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t28.43.2026\n"
        f"\tnode_guid:\t\t\ta088:c203:{m.number:04x}:{index:04x}\n\tvendor_id:\t\t\t0x02c9\n\tvendor_part_id:\t\t\t4129\n"
        "\tboard_id:\t\t\tMT_0000000838\n\tphys_port_cnt:\t\t\t1\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"
        "\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t4096 (5)\n"
        f"\t\t\tsm_lid:\t\t\t{1 if ib else 0}\n\t\t\tport_lid:\t\t{100 * m.number + index if ib else 0}\n\t\t\tport_lmc:\t\t0x00\n"
        f"\t\t\tlink_layer:\t\t{m.link_layer}\n\n"
    )


def _network(m: Machine) -> dict[str, str]:
    def address(index: int, name: str, four: str | None, mtu: int = 1500, kind: str = "ether") -> dict[str, object]:
        info = [{"family": "inet", "local": four, "prefixlen": 24, "scope": "global"}] if four else []
        return {
            "ifindex": index,
            "ifname": name,
            "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"]
            if kind == "ether"
            else ["LOOPBACK", "UP", "LOWER_UP"],
            "mtu": mtu,
            "operstate": "UP" if kind == "ether" else "UNKNOWN",
            "link_type": kind,
            "addr_info": info,
        }

    own = f"10.0.100.{10 + m.number}"
    rows = [address(1, "lo", "127.0.0.1", 65536, "loopback"), address(2, "eth0", own)]
    if m.link_layer != "InfiniBand":
        rows += [address(10 + n, f"ens{n}f0np0", f"10.0.{n}.{10 + m.number}", 9000) for n in range(m.nics)]
    if m.docker:
        rows.append({**address(90, "docker0", "172.17.0.1"), "operstate": "DOWN"})
    name = f"node-{m.number}"
    return {
        "ip_addr": json.dumps(rows) + "\n",
        "ip_route": json.dumps([{"dst": "default", "gateway": "10.0.100.1", "dev": "eth0", "prefsrc": own}]) + "\n",
        "ports": "State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process\nLISTEN 0      128          0.0.0.0:22        0.0.0.0:*\n",
        "hosts": section("/etc/hosts", f"127.0.0.1 localhost\n{own} {name}\n")
        + section("hostname", name)
        + section("hostname -f", f"{name}.cluster.example")
        + section(f"getent ahosts {name}", f"{own}     STREAM {name}\n{own}     DGRAM\n{own}     RAW"),
    }


def _environment(m: Machine) -> dict[str, str]:
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    cuda = "cpu" if not m.torch or "+cpu" in m.torch else m.torch.split("+cu")[1]
    major = cuda[:2]
    packages = [{"name": "pip", "version": "25.2"}, {"name": "numpy", "version": "2.3.4"}]
    if m.torch:
        packages.append({"name": "torch", "version": m.torch})
        if cuda != "cpu":
            packages.append({"name": f"nvidia-nccl-cu{major}", "version": m.nccl})
    torch = None
    if m.torch:
        torch = {
            "version": m.torch,
            "cuda": None if cuda == "cpu" else f"{major}.{cuda[2:]}",
            "archs": [] if cuda == "cpu" else m.archs.split(),
            "nccl": None if cuda == "cpu" else m.nccl,
            "cuda_available": bool(m.driver) and cuda != "cpu",
            "device_count": m.gpus if m.driver and cuda != "cpu" else 0,
            "error": None,
        }
    found = {
        "env_paths": section("/etc/environment", 'PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"')
        + section("login: env", "HOME=/root\nLANG=C.UTF-8\nPATH=" + env["PATH"])
        + (
            section(
                "ldconfig -p",
                "\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1\n"
                "\tlibnvidia-ml.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-ml.so.1",
            )
            if m.driver
            else ""
        ),
        "compilers": section("gcc --version", "gcc (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0"),
        "modprobe": section("/etc/modprobe.d/nvidia-graphics-drivers-kms.conf", "options nvidia-drm modeset=1")
        + section("/etc/modules-load.d/nvidia-peermem.conf", "nvidia_peermem"),
    }
    if m.torch:
        found["python_env"] = json.dumps(
            {
                "interpreter": "/srv/env/bin/python",
                "python": "3.12.3",
                "packages": packages,
                "torch": torch,
                "env": env,
                "pip_config": {},
            }
        )
    return found


def _containers(m: Machine) -> dict[str, str]:
    if not m.docker:
        return {}
    devices = "".join(f"nvidia.com/gpu={n}\n" for n in range(m.gpus)) + "nvidia.com/gpu=all\n"
    found = {
        "containers": section(
            "docker version",
            "Client: Docker Engine - Community\n Version:           28.5.1\nServer: Docker Engine\n Engine:\n  Version:          28.5.1",
        )
        + section(
            "/etc/docker/daemon.json", '{"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}'
        )
        + section("nvidia-ctk --version", "NVIDIA Container Toolkit CLI version 1.18.1"),
    }
    if m.driver:
        found["cdi"] = section("nvidia-ctk cdi list", devices) + section(
            "libcuda in /etc/cdi/nvidia.yaml",
            f"    - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{m.driver}\n"
            f"      containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{m.driver}",
        )
    return found
