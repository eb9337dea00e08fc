"""What was ordered against what is there: one row a thing, for each host. Unknown stays unknown, it is never 0."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Union

from ansible_collections.trainrig.gpu.plugins.module_utils.report.summary import part, usable_gpus
from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import listed

Value = Union[int, float, str, None]
Row = Dict[str, Any]
#: Rows of these states are what a provider has to answer for.
MISSING = ("short", "differs")


class Order(NamedTuple):
    """What a host is held against, and the data that says what a model has."""

    expected: Mapping[str, Any]
    gpus: Mapping[str, Any]  # data/gpus.yml, gpus
    tolerances: Mapping[str, Any]  # data/acceptance.yml, tolerances


def rows(observation: Mapping[str, Any], order: Order) -> List[Row]:
    """``{what, expected, delivered, unit, status, by, detail}`` of one host.

    status: met, short, differs (another thing), unknown (declared, and nothing tells), not_declared.
    by: inventory, or model where the model alone says how much it has.
    """
    gpus = _accelerators(observation, order)
    nominal = [_nominal_gib(gpu, order.gpus) for gpu in gpus or []]
    found = [_model(gpus, order), _count(observation, gpus, order)]
    if gpus or order.expected.get("gpus"):
        found += [
            _row("GPU memory", "GiB", _declared(order, "gpus", "memory_gib"), _least(nominal)),
            _each("GPU PCIe generation", gpus, ("pcie", "gen_max"), order, "pcie_gen", observation),
            _each("GPU PCIe lanes", gpus, ("pcie", "width"), order, "pcie_width", observation),
            _each("NVLinks of a GPU", gpus, ("nvlink", "links_active"), order, "nvlinks", observation),
        ]
    found += _nics(observation, order)
    cpu = part(observation, "machine", "cpu") or {}
    found.append(_row("CPU threads", "", _declared(order, "cpus"), cpu.get("threads"), detail=_cpu(cpu)))
    memory, disk = part(observation, "machine", "memory_mib"), disk_gib(observation)
    share = {name: float(row["share"]) for name, row in order.tolerances.items()}
    memory_gib = None if memory is None else round(memory / 1024, 1)
    found.append(_row("memory", "GiB", _declared(order, "memory_gib"), memory_gib, share.get("memory", 0.0)))
    found.append(_row("disks", "GiB", _declared(order, "disk_gib"), disk, share.get("disk", 0.0)))
    return [row for row in found if row["status"] != "not_declared" or row["delivered"] is not None]


def _accelerators(observation: Mapping[str, Any], order: Order) -> Optional[List[Mapping[str, Any]]]:
    """The GPUs a job can use: NVIDIA's; else those of other vendors by their PCI id, else as their tool lists them."""
    gpus = usable_gpus(observation)
    if gpus:
        return gpus
    models = {
        str(one["id"]): name
        for name, row in order.gpus.items()
        for one in row.get("pci") or []
        if row.get("vendor") != "nvidia"
    }
    on_bus: List[Mapping[str, Any]] = [
        {"pci_address": one.get("address"), "pci_id": one.get("id"), "model": models[str(one.get("id"))]}
        for one in observation.get("pci") or []
        if str(one.get("id")) in models
    ]
    return on_bus or observation.get("accelerators") or gpus


def disk_gib(observation: Mapping[str, Any]) -> Optional[float]:
    """All disks together; None where one of them does not say its size."""
    devices = part(observation, "machine", "block_devices")
    if devices is None:
        return None
    disks = [one for one in devices if one.get("type") == "disk" and not one.get("read_only") and not _unreal(one)]
    sizes = [one.get("size_mib") for one in disks]
    return None if None in sizes else round(sum(size for size in sizes if size) / 1024, 1)


def _unreal(device: Mapping[str, Any]) -> bool:
    return str(device.get("name")).startswith(("zram", "ram", "loop", "nbd"))


def _declared(order: Order, *names: str) -> Value:
    value: Value = part(order.expected, *names)
    return value


def _row(
    what: str,
    unit: str,
    expected: Value,
    delivered: Value,
    tolerance: float = 0.0,
    by: Optional[str] = None,
    detail: str = "",
) -> Row:
    status = "not_declared"
    if expected is not None:
        status = _status(expected, delivered, tolerance)
        by = by or "inventory"
    made = {"what": what, "expected": expected, "delivered": delivered, "unit": unit, "status": status}
    return {**made, "by": by, "detail": detail}


def _status(expected: Value, delivered: Value, tolerance: float) -> str:
    if delivered is None:
        return "unknown"
    if isinstance(expected, str) or isinstance(delivered, str):
        return "met" if expected == delivered else "differs"
    return "met" if delivered >= float(expected or 0) * (1 - tolerance) else "short"


def _least(values: Iterable[Any]) -> Any:
    """The smallest; None where one is not known or there is none."""
    found = list(values)
    return None if not found or None in found else min(found)


def _model(gpus: Optional[List[Mapping[str, Any]]], order: Order) -> Row:
    expected = _declared(order, "gpus", "model")
    names = [str(gpu.get("model") or gpu.get("name") or gpu.get("pci_id") or "unknown model") for gpu in gpus or []]
    kinds = list(dict.fromkeys(names))
    shown = ", ".join(kinds if len(kinds) < 2 else (f"{names.count(kind)} x {kind}" for kind in kinds))
    if expected and not all(gpu.get("model") for gpu in gpus or []):
        # What is in no table may be what was ordered, under an id that is too new.
        return _row("GPU model", "", expected, None, detail=f"shows as {shown}, which is not in data/gpus.yml")
    return _row("GPU model", "", expected, shown or None)


def _count(observation: Mapping[str, Any], gpus: Optional[List[Mapping[str, Any]]], order: Order) -> Row:
    lost = [str(gpu.get("pci_address")) for gpu in part(observation, "nvidia", "gpus") or [] if gpu.get("lost")]
    detail = f"does not answer: {listed(lost, 8)}" if lost else ""
    expected = _declared(order, "gpus", "count")
    return _row("GPUs", "", expected, None if gpus is None else len(gpus), detail=detail)


def _each(
    what: str,
    gpus: Optional[List[Mapping[str, Any]]],
    path: Any,
    order: Order,
    key: str,
    observation: Mapping[str, Any],
) -> Row:
    """A number that every GPU has; the one that has least counts, and which those are is the detail."""
    values = [part(gpu, *path) for gpu in gpus or []]
    expected, by = _declared(order, "gpus", key), None
    if expected is None:
        expected, by = _of_models(gpus or [], key, order, observation), "model"
    delivered = _least(values)
    odd = [str(gpu.get("pci_address")) for gpu, value in zip(gpus or [], values) if value == delivered]
    some = delivered is not None and len(odd) < len(values)
    return _row(
        what, "", expected, delivered, by=by if expected is not None else None, detail=listed(odd, 8) if some else ""
    )


def _of_models(gpus: List[Mapping[str, Any]], key: str, order: Order, observation: Mapping[str, Any]) -> Value:
    """What the delivered models themselves have. A virtual machine need not see the real PCIe link."""
    read: Dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "pcie_gen": lambda row: row.get("pcie_generation"),
        "nvlinks": _links,
    }
    if key not in read or (key == "pcie_gen" and part(observation, "machine", "virt") != "none"):
        return None
    values = {read[key](order.gpus.get(str(gpu.get("model"))) or {}) for gpu in gpus}
    return values.pop() if len(values) == 1 else None


def _links(row: Mapping[str, Any]) -> Optional[int]:
    """Bridges may be absent, so that their links are not missed."""
    nvlink = row.get("nvlink") or {}
    return nvlink.get("links") if nvlink.get("through") in ("nvswitch", "direct") else None


def _nominal_gib(gpu: Mapping[str, Any], models: Mapping[str, Any]) -> Optional[float]:
    """The size on the label by the PCI id, not what the driver shows."""
    row = models.get(str(gpu.get("model"))) or {}
    sizes = [one.get("memory_gib") for one in row.get("pci") or [] if one["id"] == str(gpu.get("pci_id")).lower()]
    sizes = [size for size in sizes if size] or list(row.get("memory_gib") or [])
    return float(sizes[0]) if len(sizes) == 1 else None


def _nics(observation: Mapping[str, Any], order: Order) -> List[Row]:
    """RDMA ports that are up. A port counts when it has the declared rate."""
    devices = part(observation, "rdma", "devices")
    count, rate = _declared(order, "nics", "count"), _declared(order, "nics", "rate_gbit_s")
    if not devices and count is None and rate is None:
        return []
    ports = [(device["name"], port) for device in devices or [] for port in device.get("ports") or []]
    up = [port for _name, port in ports if port.get("state") == "Active"]
    rates = sorted((float(port["rate_gbit_s"]) for port in up if port.get("rate_gbit_s")), reverse=True)
    fast = [one for one in rates if one >= float(rate or 0)]
    down = [f"{name} port {port['port']}" for name, port in ports if port not in up]
    kinds = [_kind(port) for port in up]
    shown = [f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds)]
    detail = ", ".join(shown) + (f"; not up: {listed(down, 8)}" if down else "")
    delivered = None if devices is None else len(fast) if rate is not None else len(up)
    wanted = int(count) if isinstance(count, (int, float)) else len(rates)
    slowest = None if devices is None or not rates else rates[min(wanted, len(rates)) - 1]
    return [
        _row("RDMA ports", "", count, delivered, detail=detail),
        _row("rate of a port", "Gbit/s", rate, slowest),
    ]


def _kind(port: Mapping[str, Any]) -> str:
    rate = port.get("rate_gbit_s")
    return f"{f'{rate:g} Gbit/s' if rate else 'unknown rate'} {port.get('link_layer') or ''}".strip()


def _cpu(cpu: Mapping[str, Any]) -> str:
    words = [str(cpu["model"])] if cpu.get("model") else []
    if cpu.get("cores"):
        words.append(f"{cpu['cores']} cores")
    return ", ".join(words)


def text(value: Value, unit: str) -> str:
    """A value as people read it; unknown is said."""
    if value is None:
        return "unknown"
    number = value if isinstance(value, str) else f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
    return f"{number} {unit}".strip()


def findings(name: str, found: List[Row], phase: str) -> List[Dict[str, Any]]:
    """What was declared and is not there, or nothing tells. What the model alone says is shown, and accuses nobody."""
    made = []
    for row in found:
        if row["by"] != "inventory" or row["status"] in ("met", "not_declared"):
            continue
        missing = row["status"] in MISSING
        expected, delivered = text(row["expected"], row["unit"]), text(row["delivered"], row["unit"])
        made.append(
            {
                "rule": "acceptance.missing" if missing else "acceptance.unknown",
                "severity": "fail" if missing else "warn",
                "layer": "preflight",
                "host": name,
                "scope": "host",
                "summary": f"{row['what']}: {expected} ordered, {delivered} delivered"
                if missing
                else f"{row['what']}: {expected} ordered, and nothing tells what is there",
                "cause": "The node is not what trainrig_expected says was ordered."
                if missing
                else "The tool that shows it is missing, or needs root.",
                "action": {
                    "kind": "ask_provider" if missing else "configure",
                    "text": "Send the provider what stands under `What to send to the provider`, or correct "
                    "trainrig_expected in the inventory."
                    if missing
                    else "Run `ansible-playbook playbooks/observe.yml` as root, or take it out of trainrig_expected.",
                },
                "evidence": [{"probe": "observation", "text": row["detail"] or f"{row['what']}: {delivered}"}],
                "phase": phase,
                "expected": expected,
                "measured": delivered,
            }
        )
    return made
