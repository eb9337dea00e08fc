"""Rules about each GPU as a part: does it answer, is one missing, is its memory sound, what state was it left in."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Iterator, List

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose import hardware
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Evidence, evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import count, listed


def answering(host: Host) -> List[Dict[str, Any]]:
    """GPUs that the driver lists and that answer."""
    return [gpu for gpu in host.gpus if not gpu.get("lost") and not gpu.get("hidden") and gpu.get("index") is not None]


def shown(gpu: Dict[str, Any], text: str) -> Evidence:
    return evidence("nvidia_smi_xml", f"{gpu['pci_address']} {text}")


@host_rule("gpu.lost")
def lost(host: Host) -> Iterator[Hit]:
    gone = [str(address) for address in host.get("kernel_log", "fallen_off") or []]
    alive = {gpu["pci_address"] for gpu in answering(host)}
    told = {
        str(xid.get("pci_address")): xid
        for xid in host.get("kernel_log", "xids") or []
        if xid.get("xid") in (host.fact("rules", "xid_lost") or [])
    }
    listed_by_driver = host.get("nvidia", "proc_gpus")
    dead: Dict[str, List[Evidence]] = {}
    for gpu in host.gpus:
        address = str(gpu["pci_address"])
        if not gpu.get("lost") or gpu.get("hidden"):
            continue
        # Without nvidia-smi and without a word in the log, a missing driver explains the silence.
        if host.driver_loaded is False and address not in told and address not in gone:
            continue
        said = gpu.get("raw") or f"GPU {address} does not answer"
        dead[address] = [evidence("nvidia_smi_xml" if gpu.get("index") is not None else "lspci", said)]
        if listed_by_driver is not None and address not in listed_by_driver:
            dead[address].append(
                evidence("nvidia_gpus", f"{address} is not among {len(listed_by_driver)} of the driver")
            )
    for address in gone:
        if address not in alive:
            dead.setdefault(address, []).append(
                evidence("dmesg", f"{address} has fallen off the bus and is not responding to commands")
            )
    for address, lines in sorted(dead.items()):
        if address in told:
            lines.append(evidence("dmesg", told[address].get("raw")))
        yield Hit(f"GPU {address} does not answer", lines, address=address)


@host_rule("gpu.query_errors")
def query_errors(host: Host) -> Iterator[Hit]:
    """Errors where every GPU has an answer, in more than one part of the report; a single one is a driver's quirk."""
    parts = [str(part) for part in host.fact("rules", "vital_queries") or []]
    for gpu in answering(host):
        errors = [str(path) for path in gpu.get("query_errors") or []]
        failed = [part for part in parts if any(path.startswith(part) for path in errors)]
        if len(failed) > 1:
            text = f"error instead of {listed(failed)}"
            yield Hit(f"GPU {gpu['pci_address']}: {text}", [shown(gpu, text)], address=gpu["pci_address"])


@host_rule("gpu.none_found")
def none_found(host: Host) -> Iterator[Hit]:
    if host.wants.wants_nvidia and host.answered("lspci") and not host.pci_gpus and not host.container:
        yield Hit(
            "the stack asks for NVIDIA GPUs, there is none on the bus",
            [evidence("lspci", f"{count(len(host.pci), 'device')}, none of them an NVIDIA GPU")],
        )


@host_rule("gpu.count")
def number_of_gpus(host: Host) -> Iterator[Hit]:
    """Against the declaration, the bus against the driver, and boards that are never sold with seven."""
    on_bus, driver = len(host.pci_gpus), host.get("nvidia", "proc_gpus")
    usable = len(answering(host)) if host.answered("nvidia_smi_xml") else None
    seen = (
        usable
        if usable is not None
        else len(driver)
        if driver is not None
        else on_bus
        if host.answered("lspci")
        else None
    )
    want = host.wants.gpus_per_node
    lines = []
    if host.answered("lspci"):
        lines.append(evidence("lspci", f"{count(on_bus, 'NVIDIA GPU')} on the bus"))
    if driver is not None:
        lines.append(
            evidence("nvidia_gpus", f"{count(len(driver), 'GPU')} of the driver: {' '.join(map(str, driver))}")
        )
    if usable is not None:
        lines.append(evidence("nvidia_smi_xml", f"{count(usable, 'GPU')} listed"))
    hidden = any(gpu.get("hidden") for gpu in host.gpus)
    if want and seen is not None and seen < want and not host.wants.no_hardware:
        where = "on the bus, not initialised by the driver" if on_bus >= want else "not on the bus"
        yield Hit(f"{seen} of {want} GPUs: {want - seen} {where}", lines, say=None if on_bus >= want else "bus")
    elif host.driver_loaded and driver is not None and on_bus > len(driver) and not hidden and not host.passed_through:
        yield Hit(f"{on_bus} GPUs on the bus, {len(driver)} initialised by the driver", lines)
    elif host.pci_nvswitches and on_bus and on_bus not in (host.fact("rules", "nvswitch_gpu_counts") or []):
        yield Hit(
            f"{on_bus} GPUs behind {count(len(host.pci_nvswitches), 'NVSwitch')}: boards come with 8", lines, say="bus"
        )


@host_rule("gpu.mixed_models")
def mixed_models(host: Host) -> Iterator[Hit]:
    """Different GPUs in one node, unless that is declared."""
    found: Dict[str, List[str]] = {}
    for device in hardware.gpu_devices(host):
        found.setdefault(hardware.kind(host, device), []).append(
            str(device.get("address") or device.get("pci_address"))
        )
    if len(found) < 2 or (host.wants.gpu_models and len(host.wants.gpu_models) > 1) or host.passed_through:
        return
    drivers = {str(device.get("driver")) for device in host.pci_gpus if device.get("driver")}
    if len(drivers) > 1:
        return
    text = listed(f"{len(addresses)} {label}" for label, addresses in found.items())
    yield Hit(
        f"one node, two kinds of GPU: {text}",
        [evidence("lspci", f"{label}: {' '.join(addresses)}") for label, addresses in found.items()],
    )


@host_rule("gpu.memory_errors")
def memory_errors(host: Host) -> Iterator[Hit]:
    """The state counts, not the history: the driver repairs by remapping."""
    for gpu in answering(host):
        ecc = gpu.get("ecc") or {}
        address = gpu["pci_address"]
        if ecc.get("remap_failed"):
            yield Hit(
                f"GPU {address}: row remapping has failed",
                [shown(gpu, "Remapping Failure Occurred: Yes")],
                severity="fail",
                action="replace",
                say="failed",
                address=address,
            )
        elif ecc.get("sram_threshold_exceeded"):
            yield Hit(
                f"GPU {address}: uncorrectable SRAM errors beyond NVIDIA's threshold",
                [shown(gpu, "SRAM Threshold Exceeded: Yes")],
                severity="fail",
                action="replace",
                say="failed",
                address=address,
            )
        elif ecc.get("remap_pending") or ecc.get("retired_pending"):
            what = "a row remapping" if ecc.get("remap_pending") else "a page retirement"
            yield Hit(f"GPU {address}: {what} waits for a reset", [shown(gpu, "Pending: Yes")], address=address)
        elif ecc.get("uncorrected_volatile"):
            errors = count(ecc["uncorrected_volatile"], "uncorrectable error")
            yield Hit(
                f"GPU {address}: {errors} since boot, repaired by the driver",
                [shown(gpu, f"uncorrectable, volatile: {ecc['uncorrected_volatile']}")],
                severity="info",
                action="none",
                say="history",
                address=address,
            )


@host_rule("gpu.recovery_action")
def recovery_action(host: Host) -> Iterator[Hit]:
    """What the driver says this GPU needs, now."""
    table: Dict[str, str] = host.fact("xids", "recovery") or {}
    for gpu in answering(host):
        said = gpu.get("recovery_action")
        kind = next((action for words, action in table.items() if str(words).lower() == str(said).lower()), None)
        if said and str(said) != "None" and kind not in (None, "none"):
            yield Hit(
                f"GPU {gpu['pci_address']}: the driver asks for: {said}",
                [shown(gpu, f"gpu_recovery_action: {said}")],
                action=kind,
                address=gpu["pci_address"],
            )


@host_rule("gpu.mig_on")
def mig_on(host: Host) -> Iterator[Hit]:
    known = [gpu for gpu in answering(host) if gpu.get("mig_enabled") is not None]
    on = [gpu for gpu in known if gpu["mig_enabled"]]
    if host.wants.mig is True:
        off = [gpu for gpu in known if not gpu["mig_enabled"]]
        if off:
            yield Hit(
                f"MIG is declared, but off on {listed(gpu['pci_address'] for gpu in off)}",
                [shown(gpu, "current_mig: Disabled") for gpu in off[:3]],
                say="switch_on",
            )
        return
    if on:
        severity = "fail" if host.wants.mig is False or len(on) < len(known) else "warn"
        yield Hit(
            f"MIG is on: {listed(gpu['pci_address'] for gpu in on)}",
            [shown(gpu, "current_mig: Enabled") for gpu in on[:3]],
            severity=severity,
        )


@host_rule("gpu.clocks_changed")
def clocks_changed(host: Host) -> Iterator[Hit]:
    odd = []
    for gpu in answering(host):
        now, default = gpu.get("clock_application_sm_mhz"), gpu.get("clock_application_default_sm_mhz")
        if now and default and now < default:
            odd.append((gpu, now, default))
    if odd:
        names = listed(gpu["pci_address"] for gpu, _now, _default in odd)
        yield Hit(
            f"application clocks below the default on {names}",
            [
                shown(gpu, f"applications_clocks graphics {now} MHz, default {default} MHz")
                for gpu, now, default in odd[:4]
            ],
        )


@host_rule("gpu.power_limited")
def power_limited(host: Host) -> Iterator[Hit]:
    share = host.threshold("power_limit_share")
    odd = []
    for gpu in answering(host):
        now, default = gpu.get("power_limit_w"), gpu.get("power_limit_default_w")
        if now and default and now < share * default:
            odd.append((gpu, now, default))
    if odd:
        names = listed(gpu["pci_address"] for gpu, _now, _default in odd)
        yield Hit(
            f"power limit below the default on {names}",
            [shown(gpu, f"power limit {now:g} W, default {default:g} W") for gpu, now, default in odd[:4]],
        )


@host_rule("gpu.compute_prohibited")
def compute_prohibited(host: Host) -> Iterator[Hit]:
    odd = [gpu for gpu in answering(host) if "prohibited" in str(gpu.get("compute_mode") or "").lower()]
    if odd:
        yield Hit(
            f"compute mode is Prohibited on {listed(gpu['pci_address'] for gpu in odd)}",
            [shown(gpu, f"compute_mode: {gpu['compute_mode']}") for gpu in odd[:3]],
        )


@host_rule("gpu.persistence_off")
def persistence_off(host: Host) -> Iterator[Hit]:
    odd = [gpu for gpu in answering(host) if gpu.get("persistence_mode") is False]
    if odd:
        yield Hit(f"persistence mode is off on {count(len(odd), 'GPU')}", [shown(odd[0], "persistence_mode: Disabled")])
