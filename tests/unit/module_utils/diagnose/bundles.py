"""Makes fleets for tests: a simulated healthy machine, and the differences that a case names.

A case changes the text of probes as a tool would have printed it, so the parsers are always part of the test:
    base      a machine of tests/support/simulated_bases.py, or `nothing`: no probe at all
    probes    {id: text}: the probe's whole output; {id: {text, rc, err}} when it failed; null: it could not run
    replace   {id: [[old, new], ...]}: every occurrence; `old` must be there
    append    {id: text}
    section   {id: {NAME: text}}: one section of a probe that has several; null takes it out
    gpu       {index: {path/of/element: text}}: of this GPU in nvidia-smi's XML
    python    {key: value}: of the JSON of python_env; `packages` and `torch` are merged
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import dataclasses
import json
import pickle
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any

from ansible_collections.trainrig.gpu.plugins.action.diagnose import facts
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, enrich, registry, sections
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Parser, Reading
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.source import Output

from tests.support.simulated_bases import BASES
from tests.support.simulated_machine import probes, section

TODAY = "2026-11-30"
DATA = facts({})
EDITS = {"base", "probes", "replace", "append", "section", "gpu", "python", "pool", "stack", "number"}


def outputs(case: Mapping[str, Any]) -> dict[str, Output]:
    """The raw outputs of one simulated machine with the case's differences."""
    assert set(case) <= EDITS, f"unknown keys: {set(case) - EDITS}"
    made = {}
    if case["base"] != "nothing":
        machine = dataclasses.replace(BASES[case["base"]], number=int(case.get("number", 1)))
        made = {name: Output(text) for name, text in probes(machine).items()}
    for name, value in (case.get("probes") or {}).items():
        if value is None:
            made.pop(name, None)
        elif isinstance(value, Mapping):
            made[name] = Output(value.get("text", ""), value.get("rc", 0), value.get("err", ""))
        else:
            made[name] = Output(value)
    for name, pairs in (case.get("replace") or {}).items():
        for old, new in pairs:
            assert old in made[name].text, f"{name} does not hold {old!r}"
            made[name] = Output(made[name].text.replace(old, new), made[name].rc)
    for name, text in (case.get("append") or {}).items():
        made[name] = Output((made[name].text if name in made else "") + text)
    for name, parts in (case.get("section") or {}).items():
        made[name] = Output(_sections(made[name].text if name in made else "", parts))
    for index, changes in (case.get("gpu") or {}).items():
        made["nvidia_smi_xml"] = Output(_gpu(made["nvidia_smi_xml"].text, int(index), changes))
    if case.get("python"):
        made["python_env"] = Output(json.dumps(_python(json.loads(made["python_env"].text), case["python"])))
    return made


#: What a parser made of a text, so that hundreds of cases do not parse the same healthy output again.
_PARSED: dict[tuple[str, str, int, str], bytes] = {}


def _remembering(name: str, parser: Parser) -> Parser:
    def parse(reading: Reading) -> Facts:
        key = (name, reading.text, reading.rc, reading.err)
        if key not in _PARSED:
            facts = parser(reading)
            _PARSED[key] = pickle.dumps((facts, reading.rc, reading.readable, reading.notes))
        facts, reading.rc, reading.readable, reading.notes = pickle.loads(_PARSED[key])
        return dict(facts)

    return parse


def observation(case: Mapping[str, Any]) -> dict[str, Any]:
    parsers = dict(registry.PARSERS)
    registry.PARSERS.update({name: _remembering(name, parser) for name, parser in parsers.items()})
    try:
        return enrich.enrich(dict(build.build(outputs(case))), DATA["gpus"])
    finally:
        registry.PARSERS.update(parsers)


def fleet(case: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The hosts of a case: `hosts: {name: edits}`, or one host from the edits themselves."""
    hosts = case.get("hosts")
    if hosts is None:
        hosts = {"node-1": {key: value for key, value in case.items() if key in EDITS - {"stack", "pool"}}}
    common = {key: case[key] for key in ("base",) if key in case}
    made = {}
    for number, (name, edits) in enumerate(hosts.items(), start=1):
        edits = {**common, "number": number, **(edits or {})}
        if edits.get("base") is None:
            made[name] = {"observation": None, "pool": edits.get("pool", "default")}
        else:
            made[name] = {
                "observation": observation(edits),
                "stack": edits.get("stack"),
                "pool": edits.get("pool", "default"),
            }
    return made


def _sections(text: str, changes: Mapping[str, Any]) -> str:
    parts = {name: part.text for name, part in sections.split(text).items()}
    for name, value in changes.items():
        if value is None:
            parts.pop(name, None)
        else:
            parts[name] = value
    return "".join(section(name, value) for name, value in parts.items())


def _gpu(text: str, index: int, changes: Mapping[str, str]) -> str:
    head, start, rest = text.partition("<nvidia_smi_log>")
    root = ET.fromstring(start + rest)
    gpu = root.findall("gpu")[index]
    for path, value in changes.items():
        if path == "remove":
            root.remove(gpu)
            continue
        element = gpu.find(path)
        assert element is not None, path
        for child in list(element):
            element.remove(child)
        element.text = str(value)
    return head + ET.tostring(root, encoding="unicode")


def _python(document: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in changes.items():
        if key == "packages":
            rows = {row["name"]: row["version"] for row in document["packages"]}
            rows.update(value)
            document["packages"] = [{"name": name, "version": one} for name, one in rows.items() if one is not None]
        elif key in ("torch", "env", "pip_config") and isinstance(value, Mapping):
            document[key] = {**(document[key] or {}), **value}
        else:
            document[key] = value
    return document
