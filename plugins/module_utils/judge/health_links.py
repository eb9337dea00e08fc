"""What the load changed on the links: NVLink, NVSwitch, PCIe and RDMA ports."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import count, listed
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.changes import Looks, at, exceeds, gravest, rise
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.health_gpu import (
    Gpu,
    Hit,
    Outcome,
    Proof,
    listed_gpus,
    not_loaded,
    pairs,
    under_load,
)

_LOG = "the kernel log could not be read"
#: First digits of the PCI classes of network adapters, display controllers (GPUs) and bridges.
_DISPLAY_AND_NETWORK = ("02", "03", "06")


def nvlinks(looks: Looks) -> Optional[Outcome]:
    """Links that went down, and errors that links counted. A link that was down before is not the load's."""
    rows = [row for row in pairs(looks) if at(row[1], "nvlink", "links_active") or at(row[2], "nvlink", "links_active")]
    if not rows:
        return None
    hits: List[Hit] = []
    uncounted = False
    for address, was, now in rows:
        later = [*(gpu for look in looks.during for name, gpu in listed_gpus(look).items() if name == address), now]
        hits += _down(address, was, later)
        old, new = at(was, "nvlink", "errors"), at(now, "nvlink", "errors")
        uncounted = uncounted or new is None or (old is None and not looks.rebooted)
        hits += _link_errors(address, old or {}, new or {}, looks) if new and (old or looks.rebooted) else []
    return Outcome(
        hits, seen="none went down, none counted an error", unknown="their error counts" if uncounted else None
    )


def _down(address: str, was: Gpu, later: List[Gpu]) -> List[Hit]:
    up = at(was, "nvlink", "links_active")
    fewest = min(
        (gpu for gpu in later if at(gpu, "nvlink", "links_active") is not None),
        key=lambda gpu: gpu["nvlink"]["links_active"],
        default=None,
    )
    if up is None or fewest is None or fewest["nvlink"]["links_active"] >= up:
        return []
    old, new = at(was, "nvlink", "link_gb_s") or [], fewest["nvlink"].get("link_gb_s") or []
    which = [number for number, (one, two) in enumerate(zip(old, new)) if one is not None and two is None]
    text = f"GPU {address}: {fewest['nvlink']['links_active']} of {up} NVLinks left under load"
    proof: Proof = [("nvidia_smi_nvlink", f"{address} links {listed(which) if which else '?'} went down")]
    return [Hit("nvlink_down", text, proof)]


def _link_errors(address: str, old: Mapping[str, Any], new: Mapping[str, Any], looks: Looks) -> List[Hit]:
    risen: Dict[str, Dict[str, int]] = {}
    for kind, links in new.items():
        for link, value in links.items():
            more = rise(at(old, kind, link), value, looks.rebooted)
            if more:
                risen.setdefault(kind, {})[link] = more
    broken = [
        row
        for row in looks.health["nvlink"]
        if exceeds(max(risen.get(row["counter"], {"": 0}).values()), row, looks.seconds)
    ]
    worst = gravest(broken)
    if worst is None:
        return []
    proof: Proof = [
        ("nvidia_smi_nvlink_errors", f"{address} Link {link}: {kind} errors rose by {more} under load")
        for kind, links in risen.items()
        for link, more in sorted(links.items(), key=lambda item: int(item[0]))
    ]
    links = sorted({link for links in risen.values() for link in links}, key=int)
    text = f"GPU {address}: NVLink {listed(links)} counted errors under load ({worst['title']})"
    return [Hit("nvlink_errors", text, proof[:8], worst["severity"])]


def sxids(looks: Looks) -> Optional[Outcome]:
    if not (
        at(looks.before, "nvidia", "nvswitches")
        or at(looks.before, "kernel_log", "sxids")
        or at(looks.after, "kernel_log", "sxids")
    ):
        return None
    new = looks.fresh("sxids", ("xid", "pci_address"))
    if new is None:
        return Outcome(unknown=_LOG)
    hits = []
    for fatal in (True, False):
        found = [event for event, _times in new if bool(event.get("fatal")) is fatal]
        if found:
            kind = looks.xids["sxid"]["fatal" if fatal else "nonfatal"]
            numbers = listed(sorted({f"SXid {event['xid']}" for event in found}))
            where = listed(sorted({str(event.get("pci_address")) for event in found}))
            proof: Proof = [("dmesg", event.get("raw")) for event in found[:4]]
            text = f"{numbers} of NVSwitch {where} under load{', fatal' if fatal else ''}"
            hits.append(Hit("sxid", text, proof, kind["severity"], kind["action"]))
    return Outcome(hits, seen="no new one")


def pcie_errors(looks: Looks) -> Optional[Outcome]:
    """Uncorrected errors always count; corrected ones when there are many."""
    if not listed_gpus(looks.before) and not at(looks.before, "rdma", "devices"):
        return None
    new = looks.fresh("aer", ("pci_address", "severity"))
    if new is None:
        return Outcome(unknown=_LOG)
    names = {str(device["address"]): device for device in at(looks.after, "pci") or at(looks.before, "pci") or []}
    hits = []
    for event, times in new:
        address, kind = str(event.get("pci_address")), str(event.get("severity"))
        # A disk's or console's link is worth knowing, but no GPU or network waits for it.
        part = str((names.get(address) or {}).get("pci_class") or "03").startswith(_DISPLAY_AND_NETWORK)
        if kind == "corrected" and not exceeds(times, looks.health["pcie_corrected"], looks.seconds):
            continue
        severity = looks.health["pcie_corrected"]["severity"] if kind == "corrected" else "fail" if part else "warn"
        word = {"corrected": "corrected", "fatal": "fatal"}.get(kind, "uncorrected")
        name = (names.get(address) or {}).get("name")
        text = f"{count(times, f'{word} PCIe error')} at {address}{f' ({name})' if name else ''} under load"
        hits.append(Hit("pcie_errors", text, [("dmesg", event.get("raw"))], severity))
    return Outcome(hits, seen="no new one")


def pcie_replays(looks: Looks) -> Optional[Outcome]:
    rows = list(pairs(looks))
    if not rows:
        return None
    row = looks.health["pcie_replays"]
    hits, silent, most = [], [], 0
    for address, was, now in rows:
        old, new = at(was, "pcie", "replays"), at(now, "pcie", "replays")
        more = rise(old, new, looks.rebooted)
        if more is None:
            silent.append(address)
            continue
        most = max(most, more)
        if exceeds(more, row, looks.seconds):
            proof: Proof = [("nvidia_smi_xml", f"{address} replay counter {old} before the load, {new} after it")]
            text = f"GPU {address}: {more} PCIe replays under load"
            hits.append(Hit("pcie_replays", text, proof, row["severity"]))
    unknown = f"{listed(silent)} count none" if silent else None
    return Outcome(hits, seen=f"at most {most} a GPU" if most else "none", unknown=unknown)


def pcie_link(looks: Looks) -> Optional[Outcome]:
    """Speed only shows while a GPU is busy; lanes are compared with those it had before."""
    rows = list(pairs(looks))
    if not rows:
        return None
    busy = under_load(looks)
    slow: List[Tuple[str, str]] = []
    for address, was, now in rows:
        links = [at(gpu, "pcie") or {} for gpu in busy.get(address, [])]
        most = min(
            (value for value in (at(was, "pcie", "gen_max"), at(was, "pcie", "gen_max_host")) if value), default=None
        )
        # A link may still be on its way up in one look; in all of them it is not.
        best = max((link["gen"] for link in links if link.get("gen")), default=None)
        if best is not None and most is not None and best < most:
            slow.append((address, f"generation {best} of {most}"))
        width = at(was, "pcie", "width")
        fewest = min((link["width"] for link in [*links, at(now, "pcie") or {}] if link.get("width")), default=None)
        if width and fewest and fewest < width:
            slow.append((address, f"x{fewest}, before the load x{width}"))
    hits = [
        Hit("pcie_link", f"GPU {address}: PCIe {text} under load", [("nvidia_smi_xml", f"{address} PCIe {text}")])
        for address, text in slow
    ]
    return Outcome(hits, seen="full speed, no lane lost", unknown=not_loaded(looks))


def _ports(look: Mapping[str, Any]) -> Optional[Dict[str, Mapping[str, Any]]]:
    devices = at(look, "rdma", "devices")
    if devices is None:
        return None
    return {
        f"{device['name']}/{port['port']}": {**port, "pci_address": device.get("pci_address")}
        for device in devices
        for port in device["ports"]
    }


def rdma_links(looks: Looks) -> Optional[Outcome]:
    """Ports that were up before: gone, down or slower in any later look."""
    before = {name: port for name, port in (_ports(looks.before) or {}).items() if port.get("state") == "Active"}
    if not before:
        return None
    after = _ports(looks.after)
    if after is None:
        return Outcome(unknown="no tool that lists RDMA devices answered after the load")
    hits = []
    for name, was in before.items():
        where = f"RDMA port {name}" + (f" ({was['pci_address']})" if was.get("pci_address") else "")
        for look in [*(seen for seen in map(_ports, looks.during) if seen is not None), after]:
            now = look.get(name)
            text = _port_change(was, now)
            if text:
                proof: Proof = [
                    ("ibstat", f"before: {was.get('raw')}"),
                    ("ibstat", f"after: {(now or {}).get('raw') or 'not listed'}"),
                ]
                hits.append(Hit("rdma_link", f"{where} {text} under load", proof))
                break
    return Outcome(hits, seen=f"all {len(before)} stayed up")


def _port_change(was: Mapping[str, Any], now: Optional[Mapping[str, Any]]) -> Optional[str]:
    if now is None:
        return "disappeared"
    if now.get("state") not in (None, "Active"):
        return f"went {now['state']}"
    old, new = was.get("rate_gbit_s"), now.get("rate_gbit_s")
    return f"went from {old:g} to {new:g} Gbit/s" if old and new and new < old else None


def rdma_errors(looks: Looks) -> Optional[Outcome]:
    if not _ports(looks.before):
        return None
    before, after = at(looks.before, "rdma", "counters"), at(looks.after, "rdma", "counters")
    if not after or (not before and not looks.rebooted):
        return Outcome(unknown="the counters of the ports could not be read")
    hits = []
    for port, counters in after.items():
        risen: Dict[str, int] = {}
        for name, value in counters.items():
            risen[name] = rise(at(before, port, name), value, looks.rebooted) or 0
        broken = [row for row in looks.health["rdma"] if exceeds(risen.get(row["counter"], 0), row, looks.seconds)]
        worst = gravest(broken)
        if worst is not None:
            names = list(dict.fromkeys(row["counter"] for row in broken))
            proof: Proof = [
                ("rdma_counters", f"{port} {name}: {at(before, port, name)} before the load, {counters[name]} after it")
                for name in names
            ]
            text = (
                f"RDMA port {port}: {worst['title']} ({worst['counter']} rose by {risen[worst['counter']]} under load)"
            )
            hits.append(Hit("rdma_errors", text, proof, worst["severity"]))
    return Outcome(hits, seen="no more than a sound link makes")
