"""Rules about the driver itself: is it there, is it one version, is it the declared one, does it fit the GPUs."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose import hardware
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import (
    belongs,
    driver_packages,
    installed,
    library,
    package_driver,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Evidence, evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import (
    at_least,
    branch,
    differs,
    numbers,
    upstream,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.reboot import pending


def _device_lines(host: Host, limit: int = 2) -> List[Evidence]:
    return [evidence("lspci", device.get("raw")) for device in host.pci_gpus[:limit]]


@host_rule("driver.not_loaded")
def not_loaded(host: Host) -> Iterator[Hit]:
    if not host.pci_gpus or host.passed_through or host.container or not host.wants.driver_is_ours:
        return
    error = str(host.get("nvidia", "smi_error") or "")
    silent = "communicate with the NVIDIA driver" in error
    if host.driver_loaded or (host.driver_loaded is None and not silent):
        return
    shown = _device_lines(host)
    if host.modules is not None:
        shown.append(evidence("modules", "no line of /proc/modules begins with nvidia"))
    if silent:
        shown.append(evidence("nvidia_smi_xml", error))
    packages = driver_packages(host)
    count = len(host.pci_gpus)
    what = f"{count} NVIDIA GPU{'s' if count > 1 else ''} on the bus, no NVIDIA driver loaded"
    if packages:
        name, version = next(iter(packages.items()))
        shown.append(evidence("dpkg" if name in host.dpkg else "rpm", f"{name} {version}"))
        yield Hit(f"{what}, though its packages are installed", shown, action="reload", say="installed", package=name)
    else:
        yield Hit(what, shown)


@host_rule("driver.module_library_mismatch")
def module_library_mismatch(host: Host) -> Iterator[Hit]:
    module = host.module_version
    found = library(host)
    error = str(host.get("nvidia", "smi_error") or "")
    complained = "version mismatch" in error.lower()
    seen = host.get("kernel_log", "nvrm_mismatch") or {}
    if module and found:
        version, probe = found
        if not differs(module, version):
            return
    elif complained and (module or seen.get("module")):
        module, version, probe = module or seen.get("module"), str(seen.get("library") or "another version"), "dmesg"
    elif complained:
        module, version, probe = "one version", "another", "nvidia_smi_xml"
    else:
        return
    shown = [evidence("nvidia_version", host.get("nvidia", "driver", "module_raw") or f"kernel module {module}")]
    if probe == "nvidia_libs":
        shown.append(evidence(probe, host.get("nvidia", "driver", "library_raw") or version))
    elif probe in ("dpkg", "rpm"):
        name = next(name for name in installed(host, "library"))
        shown.append(evidence(probe, f"{name} {installed(host, 'library')[name]}"))
    if seen.get("raw"):
        shown.append(evidence("dmesg", seen["raw"]))
    if error:
        shown.append(evidence("nvidia_smi_xml", error))
    mover = _who_changed(host, version)
    if mover:
        shown.append(mover[1])
    on_disk = _module_on_disk(host)
    summary = f"loaded module {module}, libraries {version}"
    if on_disk and differs(on_disk, version):
        yield Hit(
            summary, shown, action="reinstall", say="module_on_disk", module=module, library=version, disk=on_disk
        )
        return
    cause = None
    if mover:
        cause = f"{mover[0]} replaced the libraries while the old kernel module stayed loaded."
    # What site.yml itself left for the next boot is no fault; it is not finished either, and the report says so.
    expected: Dict[str, Any] = {"severity": "warn"} if pending(host.observation) else {}
    yield Hit(summary, shown, cause=cause, module=module, library=version, **expected)


def _who_changed(host: Host, version: str) -> Optional[Tuple[str, Evidence]]:
    """The command of the package manager's log that brought this version."""
    for entry in reversed(host.get("packages", "history") or []):
        for rows in (entry.get("actions") or {}).values():
            for row in rows:
                if (
                    belongs(host, "driver", str(row.get("name", "")).split(":")[0])
                    and upstream(row.get("to")) == version
                ):
                    command = str(entry.get("commandline") or "a package operation")
                    text = (
                        f"{entry.get('start') or ''} {command}: {row.get('name')} {row.get('from')} -> {row.get('to')}"
                    )
                    return command.split()[0].rsplit("/", 1)[-1], evidence("apt_history", text)
    return None


def _module_on_disk(host: Host) -> Optional[str]:
    """The version that a reload or reboot would load, where DKMS tells."""
    kernel = host.boot_kernel or host.kernel
    rows = host.get("packages", "dkms") or []
    found = [
        row
        for row in rows
        if str(row.get("module", "")).startswith("nvidia")
        and row.get("kernel") == kernel
        and "installed" in str(row.get("state"))
    ]
    return str(found[-1].get("version")) if found and numbers(found[-1].get("version")) else None


@host_rule("driver.differs_from_stack")
def differs_from_stack(host: Host) -> Iterator[Hit]:
    wanted = host.wants.driver_exact or host.wants.driver_branch
    if not wanted:
        return
    package = package_driver(host)
    have = package[1] if package else (library(host) or (None, ""))[0] or host.module_version
    if not have:
        return
    if host.wants.driver_exact and differs(have, host.wants.driver_exact):
        summary = f"installed driver {have}, declared {host.wants.driver_exact}"
    elif branch(have) != host.wants.driver_branch:
        summary = f"installed driver branch {branch(have)} ({have}), declared {host.wants.driver_branch}"
    else:
        return
    shown = [
        evidence("dpkg" if package and package[0] in host.dpkg else "nvidia_version", " ".join(package or ("", have)))
    ]
    named = f"-{host.wants.driver_branch}"
    transitional = next((name for name in installed(host, "driver_itself") if named in name), None)
    cause = None
    if transitional:
        cause = (
            f"{transitional} is a transitional package: its name still carries {host.wants.driver_branch}, what it "
            f"installs is {branch(have)}. The branch is in the version, never in the name."
        )
    yield Hit(summary, shown, cause=cause, wanted=wanted, have=have)


@host_rule("driver.competing_driver")
def competing_driver(host: Host) -> Iterator[Hit]:
    """Some other driver holds the GPU."""
    if not host.wants.driver_is_ours:
        return
    ours = set((host.fact("pci", "drivers", "nvidia") or []) + (host.fact("pci", "drivers", "passthrough") or []))
    competing = set(host.fact("pci", "drivers", "competing") or [])
    bound = [device for device in host.pci_gpus if device.get("driver") and device["driver"] not in ours]
    lines = host.kernel_lines(r"is already bound to (?!nvidia)\S+")
    owner = ""
    shown: List[Evidence] = []
    if bound:
        owner = str(bound[0]["driver"])
        shown += [evidence("lspci_vv", f"{one['address']} Kernel driver in use: {one['driver']}") for one in bound[:3]]
    elif lines and not host.driver_loaded:
        owner = lines[0].rsplit("bound to ", 1)[1].split()[0].strip(".:")
    elif host.pci_gpus and host.modules is not None and "nvidia" not in host.modules:
        loaded = sorted(competing & set(host.modules))
        if not loaded:
            return
        owner = loaded[0]
        shown.append(evidence("modules", f"{owner} is loaded, nvidia is not"))
    if not owner:
        return
    shown += [evidence("dmesg", line) for line in lines[:1]]
    module = {"NovaCore": "nova_core", "novacore": "nova_core", "nova": "nova_core"}.get(owner, owner)
    files = host.get("configuration", "modprobe") or {}
    blacklisted = [
        (place, line)
        for place, text in files.items()
        for line in str(text).splitlines()
        if line.split() and line.split()[0] in ("blacklist", "install") and module in line.split()[1:2]
    ]
    where = bound[0]["address"] if bound else (host.pci_gpus[0]["address"] if host.pci_gpus else "the GPU")
    if blacklisted:
        shown.append(evidence("modprobe", ": ".join(blacklisted[0])))
        yield Hit(
            f"{where} is held by {module}, which is blacklisted",
            shown,
            say="blacklisted",
            action="reboot",
            module=module,
        )
        return
    asked = host.answered("dpkg") or host.answered("rpm")
    fresh = asked and not driver_packages(host) and not host.get("nvidia", "driver", "uninstaller")
    # Where no driver is installed yet, that is what is missing; installing it also keeps the other one out.
    extra: Dict[str, Any] = {"severity": "warn", "say": "fresh"} if fresh else {}
    yield Hit(f"{where} is held by {module}, not by nvidia", shown, module=module, **extra)


@host_rule("driver.wrong_flavour")
def wrong_flavour(host: Host) -> Iterator[Hit]:
    """Open or proprietary is decided by the GPU's generation."""
    needs: Dict[str, Any] = {}
    for device in host.pci_gpus:
        flavour = hardware.flavour(host, device)
        if flavour:
            needs.setdefault(flavour, device)
    if "open" in needs and "proprietary" in needs:
        yield Hit(
            "no driver serves all GPUs of this host: one needs the open module, another the proprietary one",
            [evidence("lspci", needs[flavour].get("raw")) for flavour in ("open", "proprietary")],
            severity="refuse",
            action="ask_provider",
            say="both",
        )
        return
    for flavour, device in needs.items():
        declared = host.wants.kernel_module
        have = host.get("nvidia", "driver", "module_flavour")
        other = "proprietary" if flavour == "open" else "open"
        shown = [evidence("lspci", device.get("raw"))]
        label = hardware.label(host, device)
        if declared == other:
            summary = f"{label} needs the {flavour} kernel module, the stack declares {other}"
            yield Hit(
                summary,
                [*shown, evidence("stack", f"kernel_module: {other}")],
                severity="refuse",
                action="configure",
                say="declared",
                flavour=flavour,
                gpu=label,
            )
        elif have == other:
            shown.append(evidence("nvidia_version", host.get("nvidia", "driver", "module_raw")))
            yield Hit(
                f"{label} needs the {flavour} kernel module, the {other} one is loaded",
                shown,
                flavour=flavour,
                gpu=label,
            )
        elif not have and installed(host, other) and not installed(host, flavour):
            name = next(iter(installed(host, other)))
            shown.append(evidence("dpkg", f"{name} {installed(host, other)[name]}"))
            yield Hit(
                f"{label} needs the {flavour} kernel module, only the {other} one is installed",
                shown,
                flavour=flavour,
                gpu=label,
            )


@host_rule("driver.does_not_know_gpu")
def does_not_know_gpu(host: Host) -> Iterator[Hit]:
    """Too old for the GPU, or so new that the GPU was dropped."""
    have = host.wants.driver_exact or host.module_version or (library(host) or (None,))[0]
    told = host.wants.driver_exact is not None
    answering = {gpu["pci_address"] for gpu in host.gpus if gpu.get("index") is not None and not gpu.get("lost")}
    seen = set()
    for device in host.pci_gpus:
        floor, last = hardware.driver_range(host, device)
        label = hardware.label(host, device)
        # A GPU that answers is one the driver knows, whatever the tables say.
        if not have or label in seen or (not told and device.get("address") in answering):
            continue
        seen.add(label)
        shown = [
            evidence("lspci", device.get("raw")),
            evidence("stack" if told else "nvidia_version", f"driver {have}"),
        ]
        change: Mapping[str, Any] = {"severity": "refuse"} if told else {}
        if floor and at_least(have, floor) is False:
            yield Hit(
                f"{label} needs driver {floor} or later, {'declared' if told else 'present'} is {have}",
                shown,
                **change,
                floor=floor,
                gpu=label,
            )
        elif last and numbers(have)[:1] > numbers(last)[:1]:
            text = f"{label} is served up to driver branch {last}, {'declared' if told else 'present'} is {have}"
            yield Hit(text, shown, **change, say="dropped", last=last, gpu=label)


@host_rule("driver.two_module_versions")
def two_module_versions(host: Host) -> Iterator[Hit]:
    lines = host.kernel_lines(r"nvidia[-_]\w+: Version mismatch")
    kernel = host.kernel
    rows = host.get("packages", "dkms") or []
    versions = sorted(
        {
            str(row.get("version"))
            for row in rows
            if str(row.get("module", "")).startswith("nvidia")
            and row.get("kernel") == kernel
            and "installed" in str(row.get("state"))
        }
    )
    if len(versions) > 1:
        shown = [evidence("dkms", row.get("raw")) for row in rows if str(row.get("version")) in versions][:4]
        yield Hit(f"DKMS holds {' and '.join(versions)} for kernel {kernel}", shown, versions=" and ".join(versions))
    elif lines:
        yield Hit(
            "modules of two driver versions lie beside each other", [evidence("dmesg", line) for line in lines[:2]]
        )


@host_rule("driver.two_installations")
def two_installations(host: Host) -> Iterator[Hit]:
    packages = driver_packages(host)
    if host.get("nvidia", "driver", "uninstaller") and packages:
        name, version = next(iter(packages.items()))
        shown = [evidence("nvidia_libs", "/usr/bin/nvidia-uninstall"), evidence("dpkg", f"{name} {version}")]
        yield Hit("a driver from NVIDIA's .run installer and one from packages", shown, package=name)


@host_rule("driver.end_of_life")
def end_of_life(host: Host) -> Iterator[Hit]:
    have = host.module_version or (library(host) or (None,))[0]
    row = host.fact("drivers", "branches", branch(have) or "") or {}
    ends = row.get("end_of_life")
    if have and ends and str(ends) < host.today[: len(str(ends))]:
        yield Hit(
            f"driver branch {branch(have)} had its end of life in {ends}",
            [evidence("nvidia_version", have)],
            branch=branch(have),
            ends=ends,
        )
