"""What the load changed on the GPUs themselves: do they answer, Xid errors, memory, clocks, temperature."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import SEVERITIES
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.rules.events import stated
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import count, listed
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.changes import Looks, at, rise

Proof = List[Tuple[str, object]]
Gpu = Mapping[str, Any]

#: What to do, where the finding itself decides it.
_NEXT = {
    "none": "Nothing needs to be done; look again after the next long job.",
    "reset": "Stop what uses the GPU, then `sudo nvidia-smi --gpu-reset -i {address}` (or reboot), and verify again. "
    "If it comes back, show both lines to the provider.",
    "reboot": "Reboot the node and verify again. If it comes back, show both lines to the provider.",
    "power_cycle": "Power-cycle the node (a reboot does not take power from the GPU) and verify again. If it comes "
    "back, the provider has to replace the GPU.",
    "replace": "The GPU has to be replaced: send the evidence to the provider.",
    "ask_provider": "Send the evidence to the provider; the part is faulty, not what runs on it.",
    "reinstall": "Install the driver again (`ansible-playbook site.yml`), reboot, and verify again.",
    "wait": "Let the driver finish what it does, then verify again.",
}
UNLOADED = "nobody looked while the load ran"


class Hit(NamedTuple):
    """One thing that the load changed. What is None is the rule's own."""

    rule: str
    summary: str
    proof: Proof
    severity: Optional[str] = None
    action: Optional[str] = None
    say: str = ""


class Outcome(NamedTuple):
    """What a check came to: hits, what it saw where all was well, and what it could not know."""

    hits: Sequence[Hit] = ()
    seen: str = "nothing changed"
    unknown: Optional[str] = None


def advice(action: str, address: str) -> str:
    return _NEXT.get(action, _NEXT["ask_provider"]).replace("{address}", address)


def listed_gpus(look: Mapping[str, Any]) -> Dict[str, Gpu]:
    """The GPUs that the driver lists and that answer, by PCI address."""
    return {
        str(gpu["pci_address"]): gpu
        for gpu in at(look, "nvidia", "gpus") or []
        if not gpu.get("lost") and not gpu.get("hidden") and gpu.get("index") is not None
    }


def pairs(looks: Looks) -> Iterator[Tuple[str, Gpu, Gpu]]:
    """(address, before, after) of each GPU that answered both times."""
    after = listed_gpus(looks.after)
    for address, gpu in listed_gpus(looks.before).items():
        if address in after:
            yield address, gpu, after[address]


def under_load(looks: Looks) -> Dict[str, List[Gpu]]:
    """What each GPU said while it was busy, by PCI address."""
    busy = float(at(looks.rules, "thresholds", "busy_percent", "value") or 0)
    found: Dict[str, List[Gpu]] = {}
    for look in looks.during:
        for address, gpu in listed_gpus(look).items():
            if (gpu.get("utilization_percent") or 0) >= busy:
                found.setdefault(address, []).append(gpu)
    return found


def not_loaded(looks: Looks) -> Optional[str]:
    """Why nothing can be said about load, or None."""
    if not looks.during:
        return UNLOADED
    missing = [address for address, _was, _now in pairs(looks) if address not in under_load(looks)]
    return f"{listed(missing)} not busy when somebody looked" if missing else None


def answering(looks: Looks) -> Optional[Outcome]:
    before, after = listed_gpus(looks.before), listed_gpus(looks.after)
    if not before:
        return None
    gone = set(at(looks.after, "kernel_log", "fallen_off") or [])
    if not looks.rebooted:
        gone -= set(at(looks.before, "kernel_log", "fallen_off") or [])
    hits = []
    for address in before:
        if address in after and address not in gone:
            continue
        said = next(
            (gpu.get("raw") for gpu in at(looks.after, "nvidia", "gpus") or [] if gpu["pci_address"] == address), None
        )
        proof: Proof = [
            ("nvidia_smi_xml", f"before: {before[address].get('raw')}"),
            ("nvidia_smi_xml", f"after: {said or 'not listed'}"),
        ]
        if at(looks.after, "nvidia", "smi_error"):
            proof.append(("nvidia_smi_xml", looks.after["nvidia"]["smi_error"]))
        proof += [
            ("dmesg", row.get("raw"))
            for row in at(looks.after, "kernel_log", "xids") or []
            if row.get("pci_address") == address
        ][-3:]
        hits.append(Hit("gpu_lost", f"GPU {address} does not answer since it was under load", proof))
    return Outcome(hits, seen=f"all {len(before)} answer")


def xids(looks: Looks) -> Optional[Outcome]:
    """One finding a GPU: the worst new Xid decides, unless the driver stated what it needs."""
    if not listed_gpus(looks.before):
        return None
    new = looks.fresh("xids", ("xid", "pci_address"))
    if new is None:
        return Outcome(unknown="the kernel log could not be read")
    harmless = {int(number) for number in looks.health["harmless_xids"]}
    by_gpu: Dict[str, List[Dict[str, Any]]] = {}
    for event, _times in new:
        if event["xid"] not in harmless:
            by_gpu.setdefault(str(event.get("pci_address") or "unknown"), []).append(event)
    return Outcome(
        [hit for address, rows in sorted(by_gpu.items()) for hit in _xid_hits(looks, address, rows)], seen="no new one"
    )


def _xid_hits(looks: Looks, address: str, rows: List[Dict[str, Any]]) -> Iterator[Hit]:
    catalog: Mapping[int, Mapping[str, Any]] = looks.xids["xids"]
    of_jobs = [row for row in rows if at(catalog.get(row["xid"]), "kind") == "application"]
    ranked = sorted(
        (row for row in rows if row not in of_jobs),
        key=lambda row: SEVERITIES.index(str(at(catalog.get(row["xid"]), "severity") or "warn")),
    )
    proof: Proof = [("dmesg", row.get("raw")) for row in rows[-5:]]
    if not ranked:
        numbers = listed(f"Xid {row['xid']}" for row in of_jobs)
        yield Hit("xid_of_job", f"GPU {address}: {numbers} under load", proof)
        return
    worst = ranked[0]
    known = catalog.get(worst["xid"]) or {}
    action = stated(looks.xids["recovery"], rows) or str(known.get("action", "none"))
    others = [str(row["xid"]) for row in [*ranked[1:], *of_jobs]]
    text = f"GPU {address}: Xid {worst['xid']}, {known.get('title', 'not in the catalog')}, under load"
    text += f" (also Xid {listed(others)})" if others else ""
    yield Hit("xid", text, proof, str(known.get("severity", "warn")), action, advice(action, address))


def memory(looks: Looks) -> Optional[Outcome]:
    rows = list(pairs(looks))
    if not rows:
        return None
    hits: List[Hit] = []
    silent = []
    for address, was, now in rows:
        old, new = was.get("ecc") or {}, now.get("ecc") or {}
        if new.get("enabled") is False or all(value is None for value in new.values()):
            silent.append(address)
            continue
        hits += _memory_hit(address, old, new, looks.rebooted)
    return Outcome(hits, seen="no new error", unknown=f"{listed(silent)} without error correction" if silent else None)


def _memory_hit(address: str, old: Mapping[str, Any], new: Mapping[str, Any], anew: bool) -> Iterator[Hit]:
    """The gravest change of one GPU's memory. Aggregate counts outlive a reset, volatile ones a lost log."""

    def risen(name: str) -> int:
        return max(
            rise(old.get(f"{name}_volatile"), new.get(f"{name}_volatile"), anew) or 0,
            rise(old.get(f"{name}_aggregate"), new.get(f"{name}_aggregate")) or 0,
        )

    def newly(name: str) -> bool:
        return bool(new.get(name)) and not old.get(name)

    def hit(text: str, severity: str, action: str, shown: str) -> Hit:
        proof: Proof = [("nvidia_smi_xml", f"{address} {shown}")]
        return Hit("memory_errors", f"GPU {address}: {text}", proof, severity, action, advice(action, address))

    uncorrected, corrected = risen("uncorrected"), risen("corrected")
    remapped = sum(
        rise(old.get(f"remapped_{kind}"), new.get(f"remapped_{kind}")) or 0 for kind in ("uncorrectable", "correctable")
    )
    change = f"{old.get('uncorrected_volatile')} before the load, {new.get('uncorrected_volatile')} after it"
    if newly("remap_failed"):
        yield hit("row remapping failed under load", "fail", "replace", "Remapping Failure Occurred: Yes")
    elif newly("sram_threshold_exceeded"):
        yield hit(
            "SRAM errors went beyond NVIDIA's threshold under load", "fail", "replace", "SRAM Threshold Exceeded: Yes"
        )
    elif uncorrected:
        text = f"{count(uncorrected, 'uncorrectable memory error')} under load"
        yield hit(text, "fail", "reset", f"uncorrectable, volatile: {change}")
    elif remapped or newly("remap_pending") or newly("retired_pending"):
        text = (
            f"{count(remapped, 'memory row')} remapped under load" if remapped else "a memory row waits to be replaced"
        )
        yield hit(text, "warn", "reset", f"rows remapped under load: {remapped}, pending: {new.get('remap_pending')}")
    elif corrected:
        text = f"{count(corrected, 'memory error')} corrected under load"
        yield hit(text, "info", "none", f"correctable errors under load: {corrected}")


def throttled(looks: Looks) -> Optional[Outcome]:
    """Reasons for low clocks that the load brought. A reason that was there before is not the load's."""
    if not listed_gpus(looks.before):
        return None
    table: Mapping[str, Mapping[str, str]] = looks.rules["throttle_reasons"]
    before = listed_gpus(looks.before)
    active: Dict[str, List[Gpu]] = {}
    for look in [*looks.during, looks.after]:
        for address, gpu in listed_gpus(look).items():
            reasons = set(gpu.get("throttle_reasons") or []) & set(table)
            reasons -= set((before.get(address) or {}).get("throttle_reasons") or [])
            # The general reason is set whenever one of the particular ones is.
            if len(reasons) > 1:
                reasons.discard("hw_slowdown")
            for reason in reasons:
                if address not in [str(one["pci_address"]) for one in active.get(reason, [])]:
                    active.setdefault(reason, []).append(gpu)
    hits = []
    for reason in [name for name in table if name in active]:
        gpus = active[reason]
        names = listed(gpu["pci_address"] for gpu in gpus)
        proof: Proof = [
            ("nvidia_smi_xml", f"{gpu['pci_address']} {reason} is active, {_state(gpu)}") for gpu in gpus[:8]
        ]
        severity = table[reason]["severity"]
        hits.append(Hit("throttled", f"slowed down under load ({table[reason]['title']}): {names}", proof, severity))
    return Outcome(hits, seen="not slowed down", unknown=not_loaded(looks))


def _state(gpu: Gpu) -> str:
    """What belongs to a low clock, as far as the GPU said it."""
    said = {"temperature_c": "{} C", "power_w": "{} W", "clock_sm_mhz": "{} MHz", "clock_sm_max_mhz": "of {} MHz"}
    return ", ".join(form.format(gpu[name]) for name, form in said.items() if gpu.get(name) is not None)


def temperature(looks: Looks) -> Optional[Outcome]:
    """Against the GPU's own limit: no two models have the same."""
    if not listed_gpus(looks.before):
        return None
    hits: List[Hit] = []
    hottest: Optional[int] = None
    silent = []
    for address, gpus in under_load(looks).items():
        known = [gpu for gpu in gpus if gpu.get("temperature_c") is not None]
        if not known:
            silent.append(address)
            continue
        top = max(known, key=lambda gpu: int(gpu["temperature_c"]))
        hottest = max(hottest or 0, int(top["temperature_c"]))
        limit, margin = top.get("temperature_slowdown_c"), top.get("temperature_margin_c")
        if (limit is not None and top["temperature_c"] >= limit) or (margin is not None and margin <= 0):
            shown = (
                f"{address} {top['temperature_c']} C, slows down from {limit} C"
                if limit is not None
                else f"{address} {top['temperature_c']} C, margin {margin} C"
            )
            hits.append(
                Hit("temperature", f"GPU {address}: {top['temperature_c']} C under load", [("nvidia_smi_xml", shown)])
            )
    seen = f"at most {hottest} C" if hottest is not None else "no temperature"
    unknown = not_loaded(looks) or (f"{listed(silent)} say no temperature" if silent else None)
    return Outcome(hits, seen=seen, unknown=unknown)
