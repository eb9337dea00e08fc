"""Rules about NVLink and NVSwitch: fabric manager where the hardware has switches, and nowhere else."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Iterator, List, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose import hardware
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import installed, library
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Evidence, evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import differs, driver_part
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import listed

UNIT = "nvidia-fabricmanager"


def switches(host: Host) -> List[Evidence]:
    """The NVSwitches this host itself has: on its bus, or as its driver lists them."""
    shown = [evidence("lspci", device.get("raw")) for device in host.pci_nvswitches[:2]]
    found = host.get("nvidia", "nvswitches") or []
    return shown or [evidence("nvidia_nvswitch", address) for address in found[:2]]


def board_needs_manager(host: Host) -> Optional[Evidence]:
    """A baseboard whose switches are no PCI NVSwitch (NVLink 5): its GPUs need the manager here, but in a guest."""
    for device in hardware.gpu_devices(host):
        row = hardware.row(host, device)
        if row.get("fabric_manager") == "with_nvswitch" and row.get("subnet_manager") and not host.virtual:
            return evidence("lspci", device.get("raw"))
    return None


def fabric_ready(host: Host) -> Optional[bool]:
    """Whether every GPU says its fabric is complete; None when none says anything."""
    states = [gpu["fabric"].get("state") for gpu in host.gpus if (gpu.get("fabric") or {}).get("state")]
    states = [state for state in states if "not supported" not in state.lower()]
    return all(state.lower() == "completed" for state in states) if states else None


def hardware_with_fabric(host: Host) -> List[Evidence]:
    """What shows that this host itself has an NVLink fabric to manage."""
    if host.passed_through:
        return []
    board = board_needs_manager(host)
    return switches(host) or ([board] if board else [])


def _needed(host: Host) -> List[Evidence]:
    if host.container or not host.wants.driver_is_ours or host.wants.fabric_manager == "off":
        return []
    return hardware_with_fabric(host)


@host_rule("fabric.manager_missing")
def manager_missing(host: Host) -> Iterator[Hit]:
    shown = _needed(host)
    unit = host.unit(UNIT)
    # A node without a driver lacks everything; the driver's finding comes first.
    if not shown or installed(host, "fabric_manager") or host.get("nvidia", "fabricmanager_version"):
        return
    if host.driver_loaded is False or (unit is None and not host.answered("dpkg") and not host.answered("rpm")):
        return
    if unit is not None and unit.get("load") != "not-found":
        return
    if not switches(host) and fabric_ready(host):
        return
    shown.append(
        host.unit_evidence(UNIT) if unit is not None else evidence("dpkg", "no fabric manager package is installed")
    )
    yield Hit("NVSwitches are present, fabric manager is not installed", shown, driver=host.module_version)


@host_rule("fabric.manager_masked")
def manager_masked(host: Host) -> Iterator[Hit]:
    unit = host.unit(UNIT)
    if unit and "masked" in (unit.get("load"), unit.get("enabled")) and _needed(host):
        yield Hit("fabric manager is masked, though NVSwitches are present", [host.unit_evidence(UNIT), *_needed(host)])


@host_rule("fabric.manager_skipped")
def manager_skipped(host: Host) -> Iterator[Hit]:
    """A condition in the unit that can never be true before the service ran."""
    unit = host.unit(UNIT)
    if not unit or not switches(host) or unit.get("load") != "loaded" or unit.get("active") == "active":
        return
    if unit.get("condition_result") == "no" and unit.get("enabled") == "enabled":
        shown = [evidence("units", f"{UNIT}: ConditionResult=no ActiveState={unit.get('active')}"), *switches(host)]
        log = [str(row.get("text")) for row in host.get("journal_nvidia") or [] if "condition check" in str(row)]
        shown += [evidence("journal_nvidia", text) for text in log[-1:]]
        yield Hit("systemd skipped fabric manager because a condition of its unit was false", shown)


@host_rule("fabric.manager_not_running")
def manager_not_running(host: Host) -> Iterator[Hit]:
    unit = host.unit(UNIT)
    if not unit or not _needed(host) or unit.get("load") != "loaded" or unit.get("enabled") == "masked":
        return
    if unit.get("active") in ("active", "activating", "reloading") or unit.get("active") is None:
        return
    if not switches(host) and fabric_ready(host):
        return
    log = [
        row
        for row in host.get("journal_nvidia") or []
        if "fabricmanager" in str(row.get("unit")) or "fabric" in str(row)
    ]
    shown = [
        host.unit_evidence(UNIT),
        *(evidence("journal_nvidia", row.get("text")) for row in log[-2:]),
        *_needed(host),
    ]
    yield Hit(f"fabric manager is {unit.get('active')}, though NVSwitches are present", shown)


@host_rule("fabric.manager_version")
def manager_version(host: Host) -> Iterator[Hit]:
    driver = (library(host) or (host.module_version,))[0]
    packages = installed(host, "fabric_manager")
    name, version = next(iter(packages.items()), ("nv-fabricmanager", host.get("nvidia", "fabricmanager_version")))
    have = driver_part(version)
    if driver and have and differs(driver, have) and _needed(host):
        shown = [
            evidence("dpkg" if packages else "fabricmanager", f"{name} {version}"),
            evidence("nvidia_version", host.get("nvidia", "driver", "module_raw")),
        ]
        yield Hit(f"fabric manager {have}, driver {driver}", shown, driver=driver, name=name)


@host_rule("fabric.manager_unneeded")
def manager_unneeded(host: Host) -> Iterator[Hit]:
    unit = host.unit(UNIT)
    if not unit or not host.pci_gpus or switches(host) or unit.get("load") != "loaded":
        return
    if any(hardware.row(host, device).get("subnet_manager") for device in host.pci_gpus):
        return
    if unit.get("active") == "failed" or (unit.get("active") == "active" and host.bare_metal):
        text = f"fabric manager is {unit.get('active')} on hardware without NVSwitches"
        yield Hit(text, [host.unit_evidence(UNIT)], severity="info" if unit.get("active") == "active" else None)


@host_rule("fabric.not_ready")
def not_ready(host: Host) -> Iterator[Hit]:
    """What each GPU says of its fabric, wherever the manager runs."""
    odd = []
    for gpu in host.gpus:
        fabric = gpu.get("fabric") or {}
        state, status = str(fabric.get("state") or ""), str(fabric.get("status") or "")
        if not state or "not supported" in state.lower():
            continue
        if state.lower() != "completed" or (status and status.lower() not in ("success", "n/a")):
            odd.append((gpu, state, status))
    if odd:
        shown = [
            evidence("nvidia_smi_xml", f"{gpu['pci_address']} fabric state {state}, status {status}")
            for gpu, state, status in odd[:4]
        ]
        names = listed(gpu["pci_address"] for gpu, _state, _status in odd)
        elsewhere = not switches(host) and host.bare_metal is False
        yield Hit(
            f"NVLink fabric not ready ({odd[0][1]}{', ' + odd[0][2] if odd[0][2] else ''}) on {names}",
            shown,
            **({"action": "ask_provider", "say": "elsewhere"} if elsewhere else {}),
        )


@host_rule("fabric.nvlink5_modules")
def nvlink5_modules(host: Host) -> Iterator[Hit]:
    """NVLink 5 boards are managed through InfiniBand functions; without them the manager takes the old path."""
    board = board_needs_manager(host)
    if not board or host.modules is None or host.driver_loaded is not True or fabric_ready(host):
        return
    wanted = list(host.fact("rules", "nvlink5_modules") or [])
    missing = [name for name in wanted if name not in host.modules]
    devices = host.get("rdma", "stack", "class_devices")
    if missing:
        shown = [board, evidence("modules", f"not loaded: {' '.join(missing)}")]
        if devices == []:
            shown.append(evidence("rdma_stack", "no device in /sys/class/infiniband"))
        yield Hit(
            f"{listed(missing)} not loaded: fabric manager cannot reach the NVLink 5 switches",
            shown,
            missing=" ".join(missing),
        )


@host_rule("fabric.cuda_not_ready")
def cuda_not_ready(host: Host) -> Iterator[Hit]:
    """CUDA error 802: its reason is decided by the hardware."""
    error = str(host.torch.get("error") or "")
    if not re.search(r"\b802\b|system not yet initialized|cudaErrorSystemNotReady", error):
        return
    shown = [evidence("python_env", error), *switches(host)]
    if _needed(host):
        yield Hit("CUDA cannot start: system not yet initialized (802)", shown)
        return
    if any((gpu.get("fabric") or {}).get("state") for gpu in host.gpus):
        yield Hit("CUDA cannot start: system not yet initialized (802)", shown, say="elsewhere")
        return
    shown.append(evidence("lspci", "no NVSwitch on the bus"))
    yield Hit(
        "CUDA cannot start (802) although this hardware has no NVSwitch",
        shown,
        action="configure",
        say="hmm",
        cause=str(host.fact("rules", "rules", "fabric.cuda_not_ready", "texts", "hmm_cause")),
    )


@host_rule("fabric.imex_down")
def imex_down(host: Host) -> Iterator[Hit]:
    """Where one NVLink domain spans hosts, nvidia-imex shares memory between them."""
    unit = host.unit("nvidia-imex")
    rows = [hardware.row(host, device) for device in hardware.gpu_devices(host)]
    if (
        unit
        and any(row.get("imex") for row in rows)
        and unit.get("load") == "loaded"
        and unit.get("active") == "failed"
    ):
        yield Hit("nvidia-imex has failed", [host.unit_evidence("nvidia-imex")])


@host_rule("gpu.nvlink_inactive")
def nvlink_inactive(host: Host) -> Iterator[Hit]:
    """Links of each GPU against its product and its peers; a bridge that is not there is not missed."""
    if not host.gpus:
        yield from _unnamed(host)
        return
    counts = [(gpu, gpu.get("nvlink") or {}) for gpu in host.gpus if not gpu.get("lost")]
    # A partition of one GPU has its links switched off: there is no peer to reach.
    partition = len(host.gpus) == 1 and host.bare_metal is not True and not switches(host)
    for gpu, links in counts:
        active, known = links.get("links_active"), links.get("links")
        expected = hardware.nvlinks(host, gpu)
        rates = links.get("link_gb_s") or []
        if active is None or (partition and not active):
            continue
        dead = [number for number, rate in enumerate(rates) if rate is None]
        # nvidia-smi counts no links where all of them are inactive; 0 is a GPU that has none.
        if expected and active < expected and known != 0:
            which = f"links {listed(dead)} inactive" if dead and len(dead) < expected else "all links inactive"
            yield Hit(
                f"GPU {gpu['pci_address']}: {active} of {expected} NVLinks active ({which})",
                [evidence("nvidia_smi_nvlink", f"{gpu['pci_address']}: {which}")],
                address=gpu["pci_address"],
            )
        elif not expected and dead and active and known and active < known:
            yield Hit(
                f"GPU {gpu['pci_address']}: {active} of {known} NVLinks active",
                [evidence("nvidia_smi_nvlink", f"{gpu['pci_address']}: links {listed(dead)} inactive")],
                severity="warn",
                address=gpu["pci_address"],
            )


def _unnamed(host: Host) -> Iterator[Hit]:
    """The report of the links alone: how many there should be is not known, that some are down is."""
    for row in host.get("nvidia", "nvlink_report") or []:
        rates = row.get("link_gb_s") or []
        dead = [number for number, rate in enumerate(rates) if rate is None]
        if row.get("links_active") == 0 and (row.get("links") or not rates) and row.get("links") != 0:
            text = f"GPU {row.get('index')}: all NVLinks inactive"
        elif dead:
            text = f"GPU {row.get('index')}: NVLinks {listed(dead)} inactive"
        else:
            continue
        yield Hit(text, [evidence("nvidia_smi_nvlink", text)], address=row.get("uuid") or f"GPU {row.get('index')}")
