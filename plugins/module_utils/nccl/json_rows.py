"""Reads the document that nccl-tests write with -J, also one that ends early."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.collectives import Row
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.numbers import Printed, fixed, whole
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.rows import Device, Run, numbered

_PLACEMENTS = ("out_of_place", "in_place")
_LIST = re.compile(r'"results"\s*:\s*\[')
#: Nothing that the program writes is nested this deep.
_DEEPEST = 40


class Document(NamedTuple):
    """What the file says."""

    runs: List[Run]
    errors: List[str]
    missing: List[str]
    versions: List[str]
    notes: List[str]


class _Text(str):
    """A number as it is written."""


def read(text: str) -> Document:
    """Read the document. The numbers stay as they are written, for their digits count."""
    try:
        content = json.loads(text, parse_float=_Text, parse_int=_Text) if _shallow(text) else None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        run = Run()
        run.rows = [row for one in _torn(text) for row in _rows(one, run)]
        run.columns = ["size"] if run.rows else []
        return Document([run] if run.rows else [], [], ["the JSON document is not whole"], [], [])
    missing: List[str] = []
    run = _run(content, missing)
    code = _whole(content.get("nccl_version"))
    versions = [numbered(code)] if code else []
    listed = content.get("errors")
    notes = [f"error: {one}" for one in listed] if isinstance(listed, list) else []
    return Document([run], [], missing, versions, notes)


def _shallow(text: str) -> bool:
    """Whether it can be parsed without running into Python's bound of recursion."""
    depth = 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if depth > _DEEPEST:
            return False
    return True


def _run(content: Mapping[str, Any], missing: List[str]) -> Run:
    run = Run()
    arguments = content.get("args")
    if isinstance(arguments, list) and arguments and isinstance(arguments[0], str):
        run.started = run.concluded = arguments[0]
    config = _dict(content.get("config"))
    least, most = _whole(config.get("minimum_bytes")), _whole(config.get("maximum_bytes"))
    factor, step = _whole(config.get("step_factor")), _whole(config.get("step_bytes"))
    if least is not None and most is not None and (factor or step):
        run.sweep = (least, most, factor or step or 0, bool(factor))
    validation = _whole(config.get("validation"))
    run.validation = validation != 0 if validation is not None else None
    _devices(run, config, content, missing)
    results = content.get("results")
    run.columns = ["size"] if isinstance(results, list) else []
    for one in results if isinstance(results, list) else []:
        found = _rows(_dict(one), run)
        run.rows += found
        if not found:
            run.broken.append(json.dumps(one)[:100])
    bounds, average = _dict(content.get("out_of_bounds")), _dict(content.get("average_bus_bandwidth"))
    count = _whole(bounds.get("count"))
    if count is not None:
        run.bounds = (count, _yes(bounds.get("okay")))
    run.average = _printed(average.get("bandwidth"))
    run.average_failed = average.get("okay") in ("false", False)
    if not isinstance(content.get("end_time"), str):
        missing.append("there is no end_time")
    return run


def _devices(run: Run, config: Mapping[str, Any], content: Mapping[str, Any], missing: List[str]) -> None:
    """The document has one device a process, however many the process has."""
    each = (_whole(config.get("nthreads")) or 1) * (_whole(config.get("ngpus")) or 1)
    listed = config.get("devices", content.get("devices"))
    for one in listed if isinstance(listed, list) else []:
        device = _dict(one)
        rank, pid = _whole(device.get("rank")), _whole(device.get("pid"))
        host = device.get("hostname")
        if rank is not None and isinstance(host, str):
            run.devices.append(Device(rank, host, pid or 0, str(device.get("device_info"))))
    if not run.devices:
        return
    run.ranks = len(run.devices) * each
    if [device.rank for device in run.devices] != list(range(0, run.ranks, each)):
        missing.append("the ranks of the devices are not one job's")


def _rows(one: Mapping[str, Any], run: Run) -> List[Row]:
    """The measurements of one size; empty where one of them is not whole."""
    size, count, dtype = _whole(one.get("size")), _whole(one.get("count")), one.get("type")
    root = str(one.get("root", "-1")).strip()
    if size is None or count is None or not isinstance(dtype, str) or not re.match(r"-?\d{1,7}\Z", root):
        return []
    redop = one.get("redop")
    found: List[Row] = []
    for placement in _PLACEMENTS:
        told = one.get(placement)
        if told is None:
            continue
        figures = _dict(told)
        time = _printed(figures.get("time", figures.get("cpu_time")))
        algbw, busbw = _printed(figures.get("alg_bw")), _printed(figures.get("bus_bw"))
        said = figures.get("nwrong")
        wrong = _printed(said)
        bad = said is not None and (wrong is None or wrong.value.denominator != 1)
        if time is None or algbw is None or busbw is None or bad:
            return []
        found.append(
            Row(
                size,
                count,
                dtype,
                redop if isinstance(redop, str) else None,
                int(root),
                placement,
                time,
                algbw,
                busbw,
                int(wrong.value) if wrong else None,
                None,
                "cpu_time" in figures,
            )
        )
    return found


def _torn(text: str) -> List[Dict[str, Any]]:
    """The rows that a document has before it ends early."""
    begun = _LIST.search(text)
    decoder = json.JSONDecoder(parse_float=_Text, parse_int=_Text)
    found: List[Dict[str, Any]] = []
    at = begun.end() if begun else len(text)
    while at < len(text):
        try:
            one, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        if isinstance(one, dict):
            found.append(one)
        while at < len(text) and text[at] in ", \t\r\n":
            at += 1
    return found


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _whole(value: Any) -> Optional[int]:
    return whole(value) if isinstance(value, _Text) else None


def _printed(value: Any) -> Optional[Printed]:
    return fixed(str(value)) if isinstance(value, _Text) else None


def _yes(value: Any) -> bool:
    return value in ("true", True)
