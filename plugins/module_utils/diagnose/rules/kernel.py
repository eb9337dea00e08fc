"""Rules about the kernel: a module for the running and the next one, building and loading it, the IOMMU."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Iterator, List, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import installed
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.modules import (
    built_for,
    dkms_rows,
    has_driver,
    precompiled,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import numbers


def _concerned(host: Host) -> bool:
    return host.wants.driver_is_ours and not host.container and not host.passed_through and has_driver(host)


@host_rule("kernel.no_module_for_running")
def no_module_for_running(host: Host) -> Iterator[Hit]:
    kernel = host.kernel
    if not _concerned(host) or host.driver_loaded or not kernel or host.no_gpus:
        return
    built = built_for(host, kernel)
    if built.there is False:
        yield Hit(f"no NVIDIA module for the running kernel {kernel}", built.evidence, say=built.how, kernel=kernel)


@host_rule("kernel.no_module_for_next_boot")
def no_module_for_next_boot(host: Host) -> Iterator[Hit]:
    kernel = host.boot_kernel
    if not _concerned(host) or not kernel or kernel == host.kernel:
        return
    built = built_for(host, kernel)
    runfile = built.there is None and host.get("nvidia", "driver", "uninstaller")
    if built.there is False or runfile:
        shown = [evidence("kernels", f"* {kernel} (running: {host.kernel})"), *built.evidence]
        text = f"healthy now, broken after a reboot: no NVIDIA module for {kernel}, which boots next"
        yield Hit(text, shown, severity="warn" if runfile else None, say=built.how or "runfile", kernel=kernel)


@host_rule("kernel.meta_package_missing")
def meta_package_missing(host: Host) -> Iterator[Hit]:
    """Precompiled modules follow the kernel only through their meta package."""
    packages = [name for name in precompiled(host) if name in host.dpkg]
    if not packages or installed(host, "precompiled_meta") or not installed(host, "kernel_meta"):
        return
    shown = [evidence("dpkg", name) for name in (*packages[:2], *list(installed(host, "kernel_meta"))[:1])]
    stem = re.sub(r"-[0-9]+\.[0-9]+.*$", "", packages[0])
    yield Hit(f"{packages[0]} has no meta package that moves it with the kernel", shown, stem=stem)


#: Lines of a make.log that say why, the best first.
_REASONS = (r"\berror: ", r"fatal error", r"compiler differs", r"unrecognized command", r"No such file", r"\*\*\*")


def _reason(log: Optional[str]) -> Optional[str]:
    lines = [line.strip() for line in str(log or "").splitlines() if line.strip()]
    for pattern in _REASONS:
        found = next((line for line in lines if re.search(pattern, line)), None)
        if found:
            return found
    return None


@host_rule("kernel.dkms_build_failed")
def dkms_build_failed(host: Host) -> Iterator[Hit]:
    """A build that failed, with the compiler's line that matters."""
    log = host.get("packages", "dkms_log")
    reason = _reason(log)
    rows = dkms_rows(host)
    stuck = [row for row in rows if not re.match("installed", str(row.get("state")))]
    headers = [
        row
        for row in host.get("packages", "dpkg_entries") or []
        if str(row.get("state"))[1:2] in "FUH" and str(row.get("name")).startswith(("linux-headers-", "linux-image-"))
    ]
    if not reason or not (rows or installed(host, "dkms")):
        return
    known = re.search(
        r"for kernel ([0-9][^\s(]+)|/lib/modules/([0-9][^/\s]+)/build|linux-headers-([0-9][^/\s]+)", str(log)
    )
    kernel = next((part for part in known.groups() if part), None) if known else None
    kernel = kernel or (headers[0]["name"].split("-", 2)[2] if headers else None)
    if kernel and built_for(host, kernel).there:
        return
    if not kernel and not stuck and not headers and host.driver_loaded and host.boot_kernel in (None, host.kernel):
        return
    version = next((str(row.get("version")) for row in rows), None) or "the driver"
    where = kernel or "a kernel"
    shown = [evidence("dkms_log", reason)]
    shown += [evidence("dpkg", f"{row['state']} {row['name']} {row['version']}") for row in headers[:2]]
    shown += [evidence("dkms", row.get("raw")) for row in rows[:2]]
    good = next((str(row.get("kernel")) for row in rows if re.match("installed", str(row.get("state")))), None)
    yield Hit(
        f"{version} does not build on {where}: {reason}",
        shown,
        good=good or "the one that works",
        kernel=where,
        version=version,
    )


@host_rule("kernel.compiler_differs")
def compiler_differs(host: Host) -> Iterator[Hit]:
    """Only the major version matters, and only where a module is still to be built."""
    have, need = host.get("configuration", "compilers", "gcc"), host.get("configuration", "compilers", "kernel")
    shown = [evidence("compilers", f"gcc {have}; the kernel was built with gcc {need}")]
    log = str(host.get("packages", "dkms_log") or "")
    built = re.search(r"kernel was built by:.*?gcc-?(\d+)?.*?\)\s*(\d+)\.", log)
    used = re.search(r"You are using:.*?\)\s*(\d+)\.", log)
    if built and used:
        need, have = built.group(2), used.group(1)
        shown = [evidence("dkms_log", "the compiler differs from the one used to build the kernel")]
    if not have or not need or numbers(have)[0] == numbers(need)[0]:
        return
    kernel = host.boot_kernel or host.kernel
    to_build = host.wants.module_build == "dkms" or bool(installed(host, "dkms")) or bool(dkms_rows(host))
    if not to_build or not kernel or host.wants.module_build == "precompiled" or built_for(host, kernel).there:
        return
    if host.driver_loaded and kernel == host.kernel:
        return
    major = numbers(need)[0]
    # DKMS takes the compiler that the kernel names, also where it is not the default one.
    if not (built and used) and f"gcc-{major}" in host.dpkg:
        return
    yield Hit(
        f"the default compiler is gcc {numbers(have)[0]}, the kernel was built with gcc {major}", shown, major=major
    )


@host_rule("kernel.secure_boot_refuses_module")
def secure_boot_refuses_module(host: Host) -> Iterator[Hit]:
    """Secure Boot takes only modules signed with an enrolled key; enrolling needs somebody at the console."""
    rejected = host.kernel_lines(
        r"nvidia.*(Key was rejected by service|Required key not available)"
    ) or host.kernel_lines(r"Loading of (?:unsigned )?module.*(?:nvidia|is rejected)")
    state = evidence("secure_boot", host.get("boot", "secure_boot_raw"))
    if host.get("boot", "secure_boot") is not True or host.driver_loaded or not host.wants.driver_is_ours:
        return
    if rejected:
        yield Hit(
            "Secure Boot rejected the NVIDIA module",
            [state, *(evidence("dmesg", line) for line in rejected[:2])],
            severity="fail",
            say="rejected",
        )
    elif host.wants.module_build == "dkms":
        yield Hit(
            "Secure Boot is on and the stack wants a module that this node compiles",
            [state, evidence("stack", "module_build: dkms")],
        )
    elif installed(host, "dkms") and host.pci_gpus:
        name = next(iter(installed(host, "dkms")))
        yield Hit(
            f"Secure Boot is on and {name} compiles an unsigned module",
            [state, evidence("dpkg", name)],
            severity="fail",
            say="rejected",
        )


@host_rule("kernel.module_of_another_kernel")
def module_of_another_kernel(host: Host) -> Iterator[Hit]:
    lines = host.kernel_lines(r"nvidia[\w-]*: version magic '")
    if lines:
        yield Hit(
            "the NVIDIA module was built for another kernel than the one it lies under",
            [evidence("dmesg", line) for line in lines[:2]],
        )


@host_rule("kernel.mixed_network_modules")
def mixed_network_modules(host: Host) -> Iterator[Hit]:
    """One stack's modules from two trees: the loader notices by symbol versions."""
    lines = host.kernel_lines(r"\b((?:mlx5|mlx4|ib|rdma)_\w+): (?:disagrees about version of symbol|Unknown symbol)")
    if not lines:
        return
    names: List[str] = []
    for line in lines:
        match = re.search(r"\b((?:mlx5|mlx4|ib|rdma)_\w+): (?:disagrees|Unknown)", line)
        if match and match.group(1) not in names:
            names.append(match.group(1))
    yield Hit(
        f"{', '.join(names)} and the rest of the network stack come from two trees",
        [evidence("dmesg", line) for line in lines[:3]],
        names=", ".join(names),
    )


@host_rule("kernel.iommu_translates")
def iommu_translates(host: Host) -> Iterator[Hit]:
    words = (host.cmdline or "").split()
    on = [word for word in words if re.fullmatch(r"(intel|amd)_iommu=(on|force)(,.*)?", word)]
    passthrough = any(
        word in ("iommu=pt", "iommu.passthrough=1", "iommu=off", "intel_iommu=off", "amd_iommu=off") for word in words
    )
    if on and not passthrough and host.bare_metal and not host.no_gpus and not host.passed_through:
        yield Hit(
            f"{on[0]} without iommu=pt on bare metal", [evidence("cmdline", host.cmdline), evidence("virt", "none")]
        )
