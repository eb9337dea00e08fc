"""nvidia-smi's tables for people: topology, NVLink, peer-to-peer, processes."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import csv
import re
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import (
    Facts,
    Reading,
    integer,
    number,
    present,
    raw,
)

_DEVICE = re.compile(r"^(?:GPU|NIC)[0-9]+$|^(?:mlx[0-9]+_|bnxt_re|irdma|efa_?|roce|ibp|hns_)\w+$")
_GPU = re.compile(r"^GPU[0-9]+$")


def _matrix(reading: Reading) -> tuple[list[str], dict[str, list[str]]]:
    """Column names, and the cells of each row. Columns are parted by tabs, or by blanks in copies."""
    columns: list[str] = []
    rows: dict[str, list[str]] = {}
    for line in reading.lines:
        cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
        cells = cells[1:] if cells and not cells[0] else cells
        if not cells or not _DEVICE.match(cells[0]):
            if rows:
                break
            continue
        if not columns:
            columns = [cell for cell in cells if _DEVICE.match(cell)]
            # A header names devices only; a row's second cell is never the name of one.
            if len(cells) > 1 and len(columns) == 1 and not re.match("CPU|NUMA|GPU NUMA", cells[1]):
                columns = []
                break
            continue
        if cells[0] in rows:
            break
        rows[cells[0]] = cells[1:]
    return columns, rows


def _links(reading: Reading, columns: list[str], rows: dict[str, list[str]]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for label, cells in rows.items():
        if not _GPU.match(label):
            continue
        if len(cells) < len(columns) or any(
            not re.fullmatch(r"[A-Z][A-Z0-9]{0,5}", cell) for cell in cells[: len(columns)]
        ):
            reading.note(f"row {label} is not whole")
            continue
        found[label] = {name: cell for name, cell in zip(columns, cells) if name != label}
    return found


def nvidia_smi_topo(reading: Reading) -> Facts:
    columns, rows = _matrix(reading)
    links = _links(reading, columns, rows)
    if not links:
        _no_table(reading, "no topology matrix")
        return {}
    affinity: dict[str, str] = {}
    numa: dict[str, int | None] = {}
    for label in links:
        beyond = rows[label][len(columns) :]
        if beyond and re.fullmatch(r"[0-9]+(?:[-,][0-9]+)*", beyond[0]):
            affinity[label] = beyond[0]
        if len(beyond) > 1:
            numa[label] = int(beyond[1]) if re.fullmatch("[0-9]{1,4}", beyond[1]) else None
    nics = {match[1]: match[2] for match in re.finditer(r"^\s*(NIC[0-9]+): (\S+)\s*$", reading.text, re.M)}
    nics.update({name: name for name in columns if not re.match("GPU|NIC", name)})
    return {"join.topology": {"gpus": links, "nics": nics, "cpu_affinity": affinity, "numa": numa, "p2p": None}}


def nvidia_smi_p2p(reading: Reading) -> Facts:
    columns, rows = _matrix(reading)
    links = _links(reading, columns, rows)
    if not links:
        _no_table(reading, "no peer-to-peer matrix")
        return {}
    return {"join.p2p": links}


def _no_table(reading: Reading, why: str) -> None:
    for line in [line for line in reading.lines if line.strip()][:2]:
        reading.note(raw(line))
    reading.unreadable(why)


def nvidia_smi_nvlink(reading: Reading) -> Facts:
    found: list[dict[str, Any]] = []
    for line in reading.lines:
        header = re.match(r"\s*GPU ([0-9]{1,4}): (.*?)(?: \(UUID: ([^\s()]+)\))?\s*$", line)
        if header:
            found.append({"index": int(header[1]), "uuid": header[3], "links": {}, "none": False, "inactive": False})
            continue
        link = re.match(r"\s*Link ([0-9]{1,3}): (?:([0-9.]+) GB/s|<?inactive>?)\s*$", line, re.I)
        if link and found:
            found[-1]["links"][int(link[1])] = number(link[2]) if link[2] else None
        elif found and re.search(r"does not have or support Nvlink", line, re.I):
            found[-1]["none"] = True
        elif found and re.search(r"all links are inactive", line, re.I):
            found[-1]["inactive"] = True
        elif line.strip():
            reading.note(raw(line))
    if not found:
        reading.unreadable("no GPU line")
        return {}
    states = [_state(entry) for entry in found]
    return {"join.nvlink": states, "nvidia.nvlink_report": states}


def _state(entry: dict[str, Any]) -> dict[str, Any]:
    rates = [entry["links"][number_] for number_ in sorted(entry["links"])]
    known = bool(rates) or entry["none"]
    return {
        "index": entry["index"],
        "uuid": entry["uuid"],
        "links": len(rates) if known else None,
        "links_active": sum(rate is not None for rate in rates) if known or entry["inactive"] else None,
        "link_gb_s": rates if known else None,
    }


def nvidia_smi_nvlink_errors(reading: Reading) -> Facts:
    """`nvidia-smi nvlink -e`: what each link counted since the driver was loaded or the GPU reset."""
    found: list[dict[str, Any]] = []
    for line in reading.lines:
        header = re.match(r"\s*GPU ([0-9]{1,4}): (.*?)(?: \(UUID: ([^\s()]+)\))?\s*$", line)
        counted = re.match(r"\s*Link ([0-9]{1,3}): (Replay|Recovery|CRC) Errors: ([0-9]{1,18})\s*$", line, re.I)
        if header:
            found.append({"index": int(header[1]), "uuid": header[3], "errors": None})
        elif counted and found:
            errors = found[-1]["errors"] = found[-1]["errors"] or {}
            errors.setdefault(counted[2].lower(), {})[counted[1]] = int(counted[3])
        elif line.strip():
            reading.note(raw(line))
    if not found:
        if reading.text.strip():
            reading.unreadable("no GPU line")
        return {}
    return {"join.nvlink_errors": found}


def nvidia_processes(reading: Reading) -> Facts:
    lines = [line for line in reading.lines if line.strip()]
    start = next((number_ for number_, line in enumerate(lines) if re.search(r"\bpid\b", line)), None)
    names = [re.sub(r"\s*\[.*\]$", "", cell.strip()) for cell in lines[start].split(",")] if start is not None else []
    if start is None or "pid" not in names:
        if any(re.search("no running processes found", line, re.I) for line in lines):
            return {"nvidia.processes": []}
        _no_table(reading, "no header that names pid")
        return {}
    where = {name: position for position, name in enumerate(names)}
    memory = next((where[name] for name in ("used_memory", "used_gpu_memory") if name in where), None)
    found = []
    for row in csv.reader(lines[start + 1 :], skipinitialspace=True):
        # A process name may hold commas: what is too much belongs to it.
        if "process_name" in where and len(row) > len(names):
            at, more = where["process_name"], len(row) - len(names)
            row = [*row[:at], ", ".join(row[at : at + more + 1]), *row[at + more + 1 :]]
        pid = integer(row[where["pid"]]) if len(row) == len(names) else None
        if pid is None:
            reading.note(f"not a process: {', '.join(row)[:80]}")
            continue
        found.append(
            {
                "gpu_uuid": present(row[where["gpu_uuid"]]) if "gpu_uuid" in where else None,
                "pid": pid,
                "name": present(row[where["process_name"]]) if "process_name" in where else None,
                "used_memory_mib": integer(row[memory]) if memory is not None else None,
            }
        )
    return {"nvidia.processes": found}
