"""The machines that diagnose cases start from: one healthy machine a kind."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from tests.support.simulated_machine import Machine

_TOOLKIT = {
    "nvidia-container-toolkit": "1.18.1-1",
    "nvidia-container-toolkit-base": "1.18.1-1",
    "libnvidia-container1": "1.18.1-1",
}


def nvidia_repo(version: str, suffix: str = "-0ubuntu1", fabric_manager: bool = True) -> dict[str, str]:
    """Package names of NVIDIA's own repository for Ubuntu, branch 580."""
    branch = version.split(".")[0]
    names = (
        "nvidia-driver-{}-open",
        "nvidia-dkms-{}-open",
        "nvidia-utils-{}",
        "libnvidia-compute-{}",
        "libnvidia-common-{}",
    )
    found = {name.format(branch): version + suffix for name in names}
    found["nvidia-modprobe"] = version + suffix
    if fabric_manager:
        found.update({"nvidia-fabricmanager": f"{version}-1", "libnvidia-nscq": f"{version}-1"})
    return found


def ubuntu_archive(version: str, kernel: str, suffix: str = "-0ubuntu0.22.04.1") -> dict[str, str]:
    """Package names of Ubuntu's own archive: prebuilt, signed modules."""
    branch = version.split(".")[0]
    return {
        f"nvidia-driver-{branch}-server-open": version + suffix,
        f"nvidia-utils-{branch}-server": version + suffix,
        f"libnvidia-compute-{branch}-server": version + suffix,
        f"linux-modules-nvidia-{branch}-server-open-{kernel}": "5.15.0-160.170+1",
        f"linux-modules-nvidia-{branch}-server-open-generic": "5.15.0-160.170+1",
    }


def debian(version: str, suffix: str) -> dict[str, str]:
    names = ("nvidia-driver", "nvidia-kernel-dkms", "nvidia-kernel-support", "libcuda1", "libnvidia-ml1", "nvidia-smi")
    return dict.fromkeys(names, version + suffix)


_H100 = {
    **nvidia_repo("580.95.05"),
    **_TOOLKIT,
    "rdma-core": "50.0-2build2",
    "ibverbs-providers": "50.0-2build2",
    "ibverbs-utils": "50.0-2build2",
}
_JAMMY = "5.15.0-160-generic"

BASES = {
    "h100x8": Machine(packages=_H100),
    "h100x8-roce": Machine(packages=_H100, link_layer="Ethernet"),
    "b200x8": Machine(
        packages={**nvidia_repo("580.105.08"), "nvlsm": "2025.10.11-1"},
        driver="580.105.08",
        gpu="NVIDIA B200",
        pci="10de:2901",
        chip="GB100 [B200]",
        architecture="Blackwell",
        memory_mib=183359,
        link_gb_s=53.125,
        nvswitches=(),
        docker=False,
    ),
    "a100x8-vm": Machine(
        packages=nvidia_repo("580.95.05"),
        gpu="NVIDIA A100-SXM4-80GB",
        pci="10de:20b2",
        chip="GA100 [A100 SXM4 80GB]",
        architecture="Ampere",
        memory_mib=81920,
        pcie=4,
        nvlinks=12,
        link_gb_s=25,
        nvswitches=("10de:1af1",) * 6,
        fabric=False,
        virt="microsoft",
        docker=False,
    ),
    "l40sx4-vm": Machine(
        os="ubuntu 22.04 jammy",
        kernel=_JAMMY,
        virt="kvm",
        packages=ubuntu_archive("570.195.03", _JAMMY),
        driver="570.195.03",
        cuda="12.8",
        gpu="NVIDIA L40S",
        pci="10de:26b9",
        chip="AD102GL [L40S]",
        architecture="Ada Lovelace",
        gpus=4,
        memory_mib=46068,
        pcie=4,
        nvlinks=0,
        fabric=False,
        nvswitches=(),
        dkms=False,
        nics=0,
        docker=False,
        modules=("nvidia", "nvidia_uvm", "nvidia_modeset"),
        torch="2.8.0+cu128",
        nccl="2.27.3",
        archs="sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
        memory_gib=512,
    ),
    "gh200": Machine(
        packages=nvidia_repo("580.95.05", fabric_manager=False),
        gpu="NVIDIA GH200 480GB",
        pci="10de:2342",
        chip="GH100 [GH200 120GB / 480GB]",
        gpus=1,
        memory_mib=97871,
        nvlinks=0,
        fabric=False,
        nvswitches=(),
        nics=1,
        docker=False,
    ),
    "gb200x4": Machine(
        packages=nvidia_repo("580.95.05", fabric_manager=False),
        gpu="NVIDIA GB200",
        pci="10de:2941",
        chip="GB100 [GB200]",
        architecture="Blackwell",
        gpus=4,
        memory_mib=189471,
        link_gb_s=53.125,
        nvswitches=(),
        nics=4,
        docker=False,
    ),
    "h100-nvlx2": Machine(
        packages=nvidia_repo("580.95.05", fabric_manager=False),
        gpu="NVIDIA H100 NVL",
        pci="10de:2321",
        chip="GH100 [H100 NVL]",
        gpus=2,
        memory_mib=95830,
        nvlinks=12,
        nvswitches=(),
        fabric=False,
        nics=0,
        docker=False,
        modules=("nvidia", "nvidia_uvm", "nvidia_modeset"),
    ),
    "rtx4090x2": Machine(
        os="debian 12 bookworm",
        kernel="6.1.0-40-amd64",
        packages=debian("535.261.03", "-1"),
        flavour="",
        driver="535.261.03",
        cuda="12.2",
        gpu="NVIDIA GeForce RTX 4090",
        pci="10de:2684",
        chip="AD102 [GeForce RTX 4090]",
        architecture="Ada Lovelace",
        gpus=2,
        memory_mib=24564,
        pcie=4,
        nvlinks=0,
        fabric=False,
        nvswitches=(),
        ecc=False,
        nics=0,
        docker=False,
        modules=("nvidia", "nvidia_uvm", "nvidia_modeset"),
        torch="2.6.0+cu124",
        nccl="2.21.5",
        archs="sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90",
        memory_gib=128,
    ),
    "h100x8-rocky": Machine(
        os="rocky 9.6 blue-onyx",
        kernel="5.14.0-570.55.1.el9_6.x86_64",
        packages={
            "kmod-nvidia-open-dkms": "580.95.05-1.el9",
            "nvidia-driver-cuda": "580.95.05-1.el9",
            "nvidia-driver-cuda-libs": "580.95.05-1.el9",
            "libnvidia-ml": "580.95.05-1.el9",
            "nvidia-fabricmanager": "580.95.05-1",
        },
        docker=False,
    ),
    "cpu": Machine(
        os="debian 13 trixie",
        kernel="6.12.57+deb13-amd64",
        gpus=0,
        driver=None,
        nvswitches=(),
        nics=0,
        docker=False,
        virt="kvm",
        torch="2.13.0+cpu",
        memory_gib=24,
    ),
}
