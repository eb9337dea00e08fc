"""The kernel log and the journal of the NVIDIA services, in every style of time stamp they are printed with."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Iterator

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, pci_address, raw

_ISO = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_SYSLOG = r"[A-Z][a-z]{2} {1,2}[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_HUMAN = r"[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]+ [0-9:]+ [0-9]{4}"
_BRACKETS = rf"\[ *(?P<since>[0-9]+\.[0-9]+|\+[0-9. ]+|{_HUMAN}|{_ISO})\] ?"
#: What stands before the message, from the outside in; each part may be missing.
_PREFIXES = (
    re.compile(r"<[0-9]{1,3}>"),
    re.compile(r"[0-9]{1,3},[0-9]+,(?P<micro>[0-9]+),[^;]{0,40};"),
    re.compile(r"[a-z0-9]+ *:[a-z]+ *: "),
    re.compile(rf"(?P<time>{_ISO}|{_SYSLOG})(?: \S+ (?P<unit>[\w@./:-]+?)(?:\[[0-9]+\])?:)? "),
    re.compile(_BRACKETS),
)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<at>[0-9a-fA-F:.]+)[^)]{0,40}\): (?P<number>[0-9]{1,5})\b")
_SXID = re.compile(r"SXid \((?:PCI:)?(?P<at>[0-9a-fA-F:.]+)\): (?P<number>[0-9]{1,6})\b")
_FALLEN = re.compile(r"NVRM: (?:The NVIDIA )?GPU (?P<at>[0-9a-fA-F:.]+)")
_AT = r"(?P<at>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_BUS_ERROR = re.compile(_AT + r": (?:AER: )?PCIe Bus Error: severity=(?P<severity>[\w-]+(?: \([\w-]+\))?)")
_RECEIVED = re.compile(
    r"AER: (?:Multiple )?(?P<severity>(?:Uncorrect(?:ed|able)|Correct(?:ed|able))(?: \([\w-]+\))?) error "
    r"(?:message )?received(?: from|:)? " + _AT
)
_OOM = re.compile(
    r"(?P<kind>Memory cgroup out of memory|Out of memory)[^:]{0,40}: "
    r"Kill(?:ed)? process (?P<pid>[0-9]+),? \((?P<name>[^)]{1,64})\)"
)
_MISMATCH = re.compile(
    r"API mismatch: the client.{0,120}?has the version (?P<library>[0-9.]+[0-9]),? but "
    r"(?:this kernel module has the version|the kernel module (?:has|is) (?:the )?version) (?P<module>[0-9.]+[0-9])"
)
#: Lines kept as they are: of the drivers concerned, of the IOMMU, about heat and hardware errors.
_NOTABLE = re.compile(
    r"NVRM:|\bnvidia[\w-]*[ :]|nouveau|\bnova\b|NovaCore|nova_core|NVLink|nvlink|fabric"
    r"|mlx5_core.{0,200}(?:err|fail|timeout|timed out|health|fatal|assert|[Cc]able|High temp|[Ll]ink down)"
    r"|IO_PAGE_FAULT|DMAR:.{0,40}fault|AMD-Vi:.{0,40}(?:fault|error)"
    r"|disagrees about version of symbol|version magic|module is rejected|not signed with a trusted key"
    r"|thermal|[Tt]emperature above|clock throttled|Hardware Error"
)
#: A line without one of these is none of the above: a log is long, and a word is found faster than a pattern.
_WORDS = (
    *(
        "NVRM",
        "nvidia",
        "nouveau",
        "nova",
        "Nova",
        "NVLink",
        "nvlink",
        "fabric",
        "mlx5_core",
        "SXid",
        "AER: ",
        "PCIe Bus",
    ),
    *("ut of memory", "IO_PAGE_FAULT", "DMAR", "AMD-Vi", "thermal", "emperature above", "clock throttled"),
    *("Hardware Error", "disagrees about", "version magic", "module is rejected", "not signed with"),
)
_DUMP = re.compile(r"NVRM: (?: +|GPU[0-9]+ RPC)|NVRM: (?:GPU at PCI|GPU Board Serial)")
_LINES_KEPT = 200


def entries(
    reading: Reading, words: tuple[str, ...] | None = None
) -> Iterator[tuple[str | None, str | None, str, str]]:
    """(time, unit, message, whole line) of each line; with ``words``, of each that holds one of them."""
    for line in reading.lines:
        if not line or line.isspace() or line.startswith("-- ") or not (words is None or any(w in line for w in words)):
            continue
        rest, time, unit = line, None, None
        for prefix in _PREFIXES:
            match = prefix.match(rest)
            if not match:
                continue
            groups = match.groupdict()
            time = time or groups.get("time") or groups.get("since") or _seconds(groups.get("micro"))
            unit = groups.get("unit") or unit
            rest = rest[match.end() :]
        yield (time.strip() if time else None), unit, rest.strip(), line


def _seconds(microseconds: str | None) -> str | None:
    return f"{int(microseconds[:18]) / 1e6:.6f}" if microseconds else None


def _address(text: str) -> str | None:
    """`0000:38:00`, `000d:00:00.0`, and `0:3:0` of old drivers."""
    parts = text.split(":")
    if len(parts) == 3 and re.fullmatch("[0-9a-fA-F]{1,8}", parts[0]):
        return pci_address(f"{parts[0].zfill(4)}:{parts[1].zfill(2)}:{parts[2].zfill(2)}")
    return pci_address(text)


class _Counted:
    """Events by what and where, in order of the first, with how often and when last."""

    def __init__(self) -> None:
        self.events: dict[tuple[Any, str | None], dict[str, Any]] = {}

    def add(self, what: Any, where: str | None, time: str | None, line: str, telling: bool = True) -> dict[str, Any]:
        event = self.events.setdefault((what, where), {"count": 0, "last": None, "raw": raw(line)})
        event["count"] += 1
        event["last"] = time or event["last"]
        if telling:
            event["raw"] = raw(line)
        return event

    def listed(self, name: str) -> list[dict[str, Any]]:
        return [{name: what, "pci_address": where, **event} for (what, where), event in self.events.items()]


def _severity(text: str) -> str:
    text = text.lower()
    if text.startswith("correct"):
        return "corrected"
    return "fatal" if "(fatal)" in text else "nonfatal"


def dmesg(reading: Reading) -> Facts:
    xids, sxids, bus, received = _Counted(), _Counted(), _Counted(), _Counted()
    oom: list[dict[str, Any]] = []
    notable: dict[str, str] = {}
    driver: list[str] = []
    for time, _unit, message, line in entries(reading, _WORDS):
        if "NVRM:" in message:
            driver.append(message[message.index("NVRM:") + 5 :].strip())
        match = _XID.search(message)
        if match:
            xids.add(int(match["number"]), _address(match["at"]), time, line)
            continue
        match = _SXID.search(message)
        if match:
            # Further lines of the same fault carry registers, not words.
            event = sxids.add(int(match["number"]), _address(match["at"]), time, line, "atal" in message)
            event["fatal"] = event.get("fatal", False) or ", Fatal" in message
            continue
        match = _BUS_ERROR.search(message) or _RECEIVED.search(message)
        if match:
            counted = bus if "PCIe Bus Error" in message else received
            counted.add(_severity(match["severity"]), match["at"], time, line)
            continue
        match = _OOM.search(message)
        if match:
            cgroup = match["kind"].startswith("Memory")
            oom.append(
                {
                    "pid": int(match["pid"][:9]),
                    "process": match["name"],
                    "cgroup": cgroup,
                    "time": time,
                    "raw": raw(line),
                }
            )
            continue
        if _NOTABLE.search(message) and not _DUMP.search(message):
            notable.setdefault(message, raw(line))
    if not reading.text.strip():
        # An empty ring buffer is an answer; a refusal is not.
        if reading.rc != 0 or reading.err.strip():
            return {}
        reading.note("the kernel log is empty")
    fallen, mismatch = _driver_messages(driver)
    return {
        "kernel_log": {
            "xids": xids.listed("xid"),
            "sxids": sxids.listed("xid"),
            "aer": _pcie_errors(bus, received),
            "nvrm_mismatch": mismatch,
            "fallen_off": fallen,
            "oom": oom[-50:],
            "notable": list(notable.values())[-_LINES_KEPT:],
        }
    }


def _pcie_errors(bus: _Counted, received: _Counted) -> list[dict[str, Any]]:
    """The device names its error; where it could not, the port that received it does."""
    events = dict(bus.events)
    for key, event in received.events.items():
        events.setdefault(key, event)
    return [{"pci_address": where, "severity": severity, **event} for (severity, where), event in events.items()]


def _driver_messages(lines: list[str]) -> tuple[list[str], dict[str, str | None] | None]:
    """What the driver says over several lines: GPUs that fell off the bus, and a library of another version."""
    fallen: dict[str, None] = {}
    mismatch: dict[str, str | None] | None = None
    for position, line in enumerate(lines):
        if "API mismatch" in line:
            told = " ".join(" ".join(lines[position : position + 6]).split())
            match = _MISMATCH.search(told)
            # Both numbers or none: half a message is not read as a whole one.
            if match:
                mismatch = {"module": match["module"], "library": match["library"], "raw": raw("NVRM: " + told)}
        match = _FALLEN.match("NVRM: " + line)
        if match and "fallen off the bus" in " ".join(lines[position : position + 4]):
            address = _address(match["at"].rstrip(":."))
            if address:
                fallen[address] = None
    return list(fallen), mismatch


def journal_nvidia(reading: Reading) -> Facts:
    found = [{"time": time, "unit": unit, "text": raw(message)} for time, unit, message, _line in entries(reading)]
    if not found and "Failed to add filter for units" in reading.err:
        # No such unit ever ran on this node.
        reading.rc = 0
        return {"journal_nvidia": []}
    if not found and (reading.rc != 0 or reading.err.strip()):
        return {}
    return {"journal_nvidia": found[-200:]}
