"""`nvidia-smi -q -x` of every driver generation: GPUs, or the sentence it printed instead."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import io
import re
from typing import Any, Iterator
from xml.etree import ElementTree

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import (
    Facts,
    Reading,
    boolean,
    integer,
    number,
    pci_address,
    present,
    raw,
)

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_DECLARATIONS = re.compile(r"<!DOCTYPE[^>\[]*>|<\?xml[^>]*\?>")
_GONE = re.compile(r"^\s*(?:GPU is lost|GPU has fallen off the bus)", re.I)
_ERROR = re.compile(r"^\s*(?:ERR!|\[?Unknown Error\]?|GPU is lost|GPU has fallen off the bus)", re.I)
_ERRORS_KEPT = 40
_TROUBLE = re.compile(r"ERR!|Unknown Error|GPU is lost|GPU has fallen", re.I)
_WHERE = re.compile(r"(?:device handle for GPU|GPU)\s*([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.I)
_REASON = re.compile(r"^clocks_(?:event|throttle)_reason_")
#: Values that only a GPU that answers can give. When all of them are errors, it does not.
_VITAL = ("fb_memory_usage/total", "fb_memory_usage/used", "temperature/gpu_temp", "clocks/sm_clock")


def nvidia_smi_xml(reading: Reading) -> Facts:
    start = reading.text.find("<nvidia_smi_log")
    before = [raw(line) for line in reading.text[: max(start, 0)].split("\n") if line.strip()[:1] not in ("", "<")]
    if start < 0:
        return _sentence(reading)
    for line in before[:5]:
        reading.note(line)
    end = reading.text.find("</nvidia_smi_log>", start)
    for line in reading.text[end + 17 :].split("\n")[:3] if end >= 0 else ():
        if line.strip():
            reading.note(raw(line))
    text = _without_clocks(_CONTROL.sub("", reading.text[start : end + 17 if end >= 0 else None]))
    text = _DECLARATIONS.sub("", text)
    if "<!" in text.replace("<!--", ""):
        reading.unreadable("XML with declarations is not nvidia-smi's")
        return {}
    gpus, values, whole = _elements(text)
    if not whole:
        reading.unreadable(f"the XML is cut or damaged; {len(gpus)} whole GPUs could be read")
    troubled = _TROUBLE.search(text) is not None
    parsed = [_gpu(position, element, troubled) for position, element in enumerate(gpus)]
    announced = integer(values.get("attached_gpus"))
    if whole and announced is not None and announced != len(parsed):
        reading.note(f"attached_gpus is {announced}, but {len(parsed)} are described")
    facts: Facts = {
        "join.smi_gpus": [gpu for gpu in parsed if gpu["pci_address"]],
        "join.smi_whole": whole,
        "join.smi_driver": present(values.get("driver_version")),
        "join.smi_processes": [process for gpu in gpus for process in _processes(gpu, compute=True)] if whole else None,
        "join.smi_lost": _lost_addresses(before),
    }
    if whole:
        drawing = [process for gpu in gpus for process in _processes(gpu, compute=False)]
        facts["nvidia.graphics_processes"] = drawing
    cuda = present(values.get("cuda_version"))
    if cuda:
        facts["nvidia.driver.cuda"] = cuda
    return facts


def _sentence(reading: Reading) -> Facts:
    """nvidia-smi said why it cannot answer."""
    lines = [line.strip() for line in reading.lines + reading.err.splitlines() if line.strip()]
    if not lines:
        reading.unreadable("empty") if reading.rc == 0 else reading.note("no output")
        return {}
    if not any(re.search(r"NVIDIA|NVML|GPU|device", line, re.I) for line in lines):
        reading.unreadable("neither XML nor a sentence of nvidia-smi")
        return {}
    reading.rc = reading.rc or 1
    for line in lines[:3]:
        reading.note(raw(line))
    facts: Facts = {"nvidia.smi_error": raw(" ".join(lines)), "join.smi_lost": _lost_addresses(lines)}
    for line in lines:
        if line.startswith("NVML library version:"):
            # It prints two of the three numbers, so this is evidence and not the version.
            facts["join.smi_library_raw"] = raw(line)
    if any("no devices were found" in line.lower() for line in lines):
        facts.update({"join.smi_gpus": [], "join.smi_whole": True})
    return facts


def _lost_addresses(lines: list[str]) -> list[str]:
    found = []
    for line in lines:
        match = _WHERE.search(line)
        if match and re.search(r"is lost|Unknown Error|fallen off|Unable to determine the device handle", line):
            found.append(pci_address(match[1]) or "")
    return [address for address in found if address]


def _without_clocks(text: str) -> str:
    """The tables of supported clocks are most of a report and nothing here is read from them."""
    kept: list[str] = []
    at = 0
    while True:
        begin = text.find("<supported_clocks>", at)
        end = text.find("</supported_clocks>", begin) if begin >= 0 else -1
        if end < 0:
            return "".join([*kept, text[at:]])
        kept.append(text[at:begin])
        at = end + len("</supported_clocks>")


def _elements(text: str) -> tuple[list[ElementTree.Element], dict[str, str], bool]:
    """The whole GPU elements, the values beside them, and whether the document was whole."""
    gpus: list[ElementTree.Element] = []
    values: dict[str, str] = {}
    whole = True
    # iterparse hands out each element as it ends, so that a cut document still gives those before the cut.
    try:
        for _event, element in ElementTree.iterparse(io.BytesIO(text.encode("utf-8", "replace"))):
            if element.tag == "gpu":
                gpus.append(element)
            elif element.tag in ("driver_version", "cuda_version", "attached_gpus"):
                values[element.tag] = element.text or ""
    except ElementTree.ParseError:
        whole = False
    return gpus, values, whole


class _Values:
    """Text of elements by path; the first that holds a value counts."""

    def __init__(self, element: ElementTree.Element) -> None:
        self.element = element

    def text(self, *paths: str) -> str | None:
        for path in paths:
            value = present(self.element.findtext(path))
            if value is not None and not _ERROR.match(value) and "has been deprecated" not in value:
                return value
        return None

    def whole(self, *paths: str) -> int | None:
        return next((value for value in (integer(self.text(path)) for path in paths) if value is not None), None)

    def real(self, *paths: str) -> float | None:
        return next((value for value in (number(self.text(path)) for path in paths) if value is not None), None)

    def flag(self, *paths: str) -> bool | None:
        return next((value for value in (boolean(self.text(path)) for path in paths) if value is not None), None)

    def total(self, *paths: str) -> int | None:
        """The sum of those that have a value; none when none has."""
        known = [value for value in (self.whole(path) for path in paths) if value is not None]
        return sum(known) if known else None


def _pci_id(text: str | None) -> str | None:
    match = re.fullmatch(r"(?:0x)?([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})", text or "")
    return f"{match[2]}:{match[1]}".lower() if match else None


def _errors(values: _Values, period: str, corrected: bool) -> int | None:
    """ECC counts: by SRAM and DRAM since Turing, by bits with a total before."""
    base = f"ecc_errors/{period}/"
    if corrected:
        newer = values.total(base + "sram_correctable", base + "dram_correctable")
        bits = "single_bit"
    else:
        kinds = ("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable")
        newer = values.total(*(base + kind for kind in kinds))
        bits = "double_bit"
    if newer is not None:
        return newer
    older = values.whole(f"{base}{bits}/total")
    if older is not None:
        return older
    places = ("device_memory", "register_file", "l1_cache", "l2_cache", "texture_memory", "texture_shm", "cbu")
    return values.total(*(f"{base}{bits}/{place}" for place in places))


def _gpu(position: int, element: ElementTree.Element, troubled: bool) -> dict[str, Any]:
    """One GPU. ``troubled``: somewhere in the report an error stands for a value, so this one is searched for it."""
    values = _Values(element)
    texts = [item.text or "" for item in element.iter()] if troubled else []
    wrong = [path for path, text in _leaves(element) if _ERROR.match(text)] if troubled else []
    vital = [text for text in (element.findtext(path) for path in _VITAL) if text and text.strip()]
    power = ("gpu_power_readings", "power_readings")
    gpu = {
        "index": position,
        "pci_address": pci_address(element.findtext("pci/pci_bus_id") or element.get("id")),
        "pci_id": _pci_id(values.text("pci/pci_device_id")),
        "name": values.text("product_name"),
        "model": None,
        "uuid": values.text("uuid"),
        "serial": values.text("serial"),
        "vbios": values.text("vbios_version"),
        "memory_mib": values.whole("fb_memory_usage/total"),
        "memory_used_mib": values.whole("fb_memory_usage/used"),
        "mig_enabled": values.flag("mig_mode/current_mig"),
        "mig_devices": [_mig(device) for device in element.findall("mig_devices/mig_device")],
        "ecc": {
            "enabled": values.flag("ecc_mode/current_ecc"),
            "uncorrected_volatile": _errors(values, "volatile", corrected=False),
            "uncorrected_aggregate": _errors(values, "aggregate", corrected=False),
            "corrected_volatile": _errors(values, "volatile", corrected=True),
            "corrected_aggregate": _errors(values, "aggregate", corrected=True),
            "sram_threshold_exceeded": values.flag("ecc_errors/aggregate/sram_threshold_exceeded"),
            "remap_pending": values.flag("remapped_rows/remapped_row_pending"),
            "remap_failed": values.flag("remapped_rows/remapped_row_failure"),
            "remapped_uncorrectable": values.whole("remapped_rows/remapped_row_unc"),
            "remapped_correctable": values.whole("remapped_rows/remapped_row_corr"),
            "retired_pending": values.flag("retired_pages/pending_retirement", "retired_pages/pending_blacklist"),
        },
        "pcie": {
            "gen": values.whole("pci/pci_gpu_link_info/pcie_gen/current_link_gen"),
            "gen_max": values.whole("pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
            "gen_max_device": values.whole("pci/pci_gpu_link_info/pcie_gen/max_device_link_gen"),
            # 0 is how some drivers say that they do not know.
            "gen_max_host": values.whole("pci/pci_gpu_link_info/pcie_gen/max_host_link_gen") or None,
            "width": values.whole("pci/pci_gpu_link_info/link_widths/current_link_width"),
            "width_max": values.whole("pci/pci_gpu_link_info/link_widths/max_link_width"),
            "replays": values.whole("pci/replay_counter"),
        },
        "nvlink": {"links": None, "links_active": None, "link_gb_s": None, "errors": None},
        "fabric": {
            "state": values.text("fabric/state"),
            "status": values.text("fabric/status"),
            "clique_id": values.text("fabric/cliqueId", "fabric/clique_id"),
            "cluster_uuid": values.text("fabric/clusterUuid", "fabric/cluster_uuid"),
            "health": values.text("fabric/health/summary", "fabric/health/bandwidth"),
        },
        "throttle_reasons": _reasons(element),
        "temperature_c": values.whole("temperature/gpu_temp"),
        "temperature_slowdown_c": values.whole("temperature/gpu_temp_slow_threshold"),
        "temperature_margin_c": values.whole("temperature/gpu_temp_tlimit"),
        "power_w": values.real(
            *(
                f"{group}/{name}"
                for group in power
                for name in ("power_draw", "average_power_draw", "instant_power_draw")
            )
        ),
        "power_limit_w": values.real(
            *(
                f"{group}/{name}"
                for group in power
                for name in ("current_power_limit", "enforced_power_limit", "power_limit")
            )
        ),
        "power_limit_max_w": values.real(*(f"{group}/max_power_limit" for group in power)),
        "power_limit_default_w": values.real(*(f"{group}/default_power_limit" for group in power)),
        "utilization_percent": values.whole("utilization/gpu_util"),
        "clock_sm_mhz": values.whole("clocks/sm_clock"),
        "clock_sm_max_mhz": values.whole("max_clocks/sm_clock"),
        "clock_application_sm_mhz": values.whole("applications_clocks/graphics_clock"),
        "clock_application_default_sm_mhz": values.whole("default_applications_clocks/graphics_clock"),
        "persistence_mode": values.flag("persistence_mode"),
        "compute_mode": values.text("compute_mode"),
        "virtualization_mode": _word(element.findtext("gpu_virtualization_mode/virtualization_mode")),
        "recovery_action": _word(element.findtext("gpu_recovery_action")),
        # Values for which an error stands: not the same as a value that this GPU does not have.
        "query_errors": wrong[:_ERRORS_KEPT],
        "lost": any(_GONE.match(text) for text in texts) or bool(vital and all(_ERROR.match(text) for text in vital)),
        "hidden": False,
    }
    gone = next((text for text in texts if _ERROR.match(text)), None)
    shown = f"{gpu['pci_address']} {gpu['name']}"
    gpu["raw"] = raw(f"{shown}: {gone.strip()}" if gpu["lost"] and gone else shown)
    return gpu


def _leaves(element: ElementTree.Element, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, text) of each element that holds a text and no further element."""
    for item in element:
        place = f"{path}/{item.tag}" if path else item.tag
        if len(item) == 0:
            yield place, item.text or ""
        elif place.count("/") < 8:
            yield from _leaves(item, place)


def _word(text: str | None) -> str | None:
    """Where `None` is an answer (no action is needed, nothing is virtual) and not the absence of one."""
    return "None" if (text or "").strip() == "None" else present(text)


def _reasons(element: ElementTree.Element) -> list[str] | None:
    for name in ("clocks_event_reasons", "clocks_throttle_reasons"):
        group = element.find(name)
        states = {_REASON.sub("", item.tag): boolean(item.text) for item in group} if group is not None else {}
        if any(state is not None for state in states.values()):
            return [reason for reason, state in states.items() if state]
    return None


def _mig(element: ElementTree.Element) -> dict[str, Any]:
    values = _Values(element)
    return {
        "index": values.whole("index"),
        "gpu_instance": values.whole("gpu_instance_id"),
        "compute_instance": values.whole("compute_instance_id"),
        "memory_mib": values.whole("fb_memory_usage/total"),
        "memory_used_mib": values.whole("fb_memory_usage/used"),
    }


def _processes(element: ElementTree.Element, compute: bool) -> list[dict[str, Any]]:
    """Processes that compute (as --query-compute-apps lists them), or those that only draw."""
    found = []
    for item in element.findall("processes/process_info"):
        pid = integer(item.findtext("pid"))
        if pid is not None and ("C" in (item.findtext("type") or "")) is compute:
            found.append(
                {
                    "gpu_uuid": present(element.findtext("uuid")),
                    "pid": pid,
                    "name": present(item.findtext("process_name")),
                    "used_memory_mib": integer(item.findtext("used_memory")),
                }
            )
    return found
