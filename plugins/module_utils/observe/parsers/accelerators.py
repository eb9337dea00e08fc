"""Accelerators of other vendors: that they are there, their model, and the health their tool reports."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import (
    Facts,
    Reading,
    pci_address,
    present,
    raw,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.schema import Accelerator

#: The tables are narrow; a longer line is none of theirs.
_WIDTH = 400
_BUS = re.compile(r"\b((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b", re.IGNORECASE)


def _made(vendor: str, index: int | None, name: str | None, health: str | None, line: str) -> Accelerator:
    return {"vendor": vendor, "index": index, "name": name, "health": health, "pci_address": None, "raw": raw(line)}


# npu-smi

# `| 0     910B3   | OK   | 101.8 ...`, in old releases without the bars between the columns.
_NPU = re.compile(r"\|\s*([0-9]{1,4})\s+([A-Za-z0-9][A-Za-z0-9_-]{1,40})\s*(?:\|\s*|\s{2,})([A-Za-z]{2,20})\b")
# `| 0   | 0000:C1:00.0 | ...`, with a device or physical id as second number in some releases.
_CHIP = re.compile(r"\|\s*([0-9]{1,4})(?:\s+([0-9]{1,4}))?\s*(?:\|\s*|\s{2,})([0-9a-fA-F:.]{7,16}|NA|N/A)\s")


def npu_smi(reading: Reading) -> Facts:
    """`npu-smi info`: one entry a chip; the row of the chip gives the PCI address."""
    found: list[Accelerator] = []
    card: tuple[int, str, str, str] | None = None
    for line in (line.strip()[:_WIDTH] for line in reading.lines):
        if re.search(r"Process (?:id|name)|processes found", line):
            # The table of processes follows; its rows look alike.
            break
        npu, chip = _NPU.match(line), _CHIP.match(line)
        if chip and card:
            one = _made("huawei", card[0], card[1], card[2], re.sub(r"\s+", " ", f"{card[3]} {line}"))
            one["pci_address"] = pci_address(chip[3])
            found.append(one)
            card = None
        elif npu:
            card = (int(npu[1]), npu[2], npu[3], line)
    return _answer(reading, found, r"\bnpu-smi [0-9]", "npu_smi")


# cnmon

_CARD = re.compile(r"\|\s*([0-9]{1,4})\s+(?:/|[0-9]{1,3})\s+(MLU\S{1,40}|[A-Z][A-Za-z0-9-]{2,40})\s")
_CARD_HEAD = re.compile(r"Card (?:ID\s*:\s*)?([0-9]{1,4})$")
_CARD_FIELD = re.compile(r"([A-Z][A-Za-z -]{2,40}?)\s*:\s*(\S.*)$")


def cnmon(reading: Reading) -> Facts:
    """The table of `cnmon`, or the list of `cnmon info`."""
    found: list[Accelerator] = []
    for line in (line.strip()[:_WIDTH] for line in reading.lines):
        card, head, field = _CARD.match(line), _CARD_HEAD.match(line), _CARD_FIELD.match(line)
        bus = _BUS.search(line)
        if card:
            found.append(_made("cambricon", int(card[1]), card[2], None, re.sub(r"\s+", " ", line)))
            found[-1]["pci_address"] = pci_address(bus[1]) if bus else None
        elif head:
            found.append(_made("cambricon", int(head[1]), None, None, line))
        elif field and found and not line.startswith("|"):
            if field[1] == "Product Name":
                found[-1]["name"] = present(field[2])
                found[-1]["raw"] = raw(f"{found[-1]['raw']} | {line}")
            elif field[1] in ("Health", "Card Health", "Health State"):
                found[-1]["health"] = present(field[2])
                found[-1]["raw"] = raw(f"{found[-1]['raw']} | {line}")
            elif bus and found[-1]["pci_address"] is None:
                found[-1]["pci_address"] = pci_address(bus[1])
    return _answer(reading, found, r"\bCNMON v?[0-9]", "cnmon")


# rocm-smi

_ROCM_LINE = re.compile(r"GPU\[([0-9]{1,4})\]\s*:\s*([^:]{1,80}):\s*(.*)$")
_ROCM_IDS = ("device id", "gpu id", "pci bus", "bdf")
_ROCM_NAMES = ("card series", "card model", "market_name", "device name", "product name")
_AMD_HEAD = re.compile(r"GPU: ([0-9]{1,4})$")
_AMD_FIELD = re.compile(r"\s+(MARKET_NAME|BDF): (\S.*)$")


def rocm_smi(reading: Reading) -> Facts:
    """`rocm-smi -a`, as JSON or text; `amd-smi static` is understood too. ROCm reports no health word."""
    cards = _rocm_json(reading.text)
    if cards is None:
        cards = _rocm_text(reading.lines)
    found: list[Accelerator] = []
    for index, fields in sorted(cards.items()):
        names = [present(fields[key]) for key in _ROCM_NAMES if key in fields]
        # Where the name database of the node is old, ids stand in the place of names.
        name = next((name for name in names if name and not re.match(r"0x[0-9a-fA-F]+$", name)), None)
        shown = [f"{key}: {fields[key]}" for key in (*_ROCM_NAMES, *_ROCM_IDS) if key in fields]
        one = _made("amd", index, name, None, f"GPU[{index}] {'; '.join(shown)}")
        one["pci_address"] = pci_address(fields.get("pci bus") or fields.get("bdf"))
        found.append(one)
    return _answer(reading, found, r"ROCm System Management", "rocm_smi")


def _rocm_json(text: str) -> dict[int, dict[str, str]] | None:
    # Warnings stand before the JSON.
    start = text.find("{")
    if start < 0:
        return None
    try:
        parsed: Any = json.JSONDecoder().raw_decode(text[start:])[0]
    except (ValueError, RecursionError):
        return None
    found: dict[int, dict[str, str]] = {}
    for name, fields in parsed.items():
        card = re.match(r"card([0-9]{1,4})$", name)
        if card and isinstance(fields, dict):
            found[int(card[1])] = {key.strip().lower(): str(value).strip() for key, value in fields.items()}
    return found


def _rocm_text(lines: list[str]) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    index: int | None = None
    for line in (line[:_WIDTH] for line in lines):
        rocm, head, field = _ROCM_LINE.match(line), _AMD_HEAD.match(line), _AMD_FIELD.match(line)
        if rocm:
            found.setdefault(int(rocm[1]), {}).setdefault(rocm[2].strip().lower(), rocm[3].strip())
        elif head:
            index = int(head[1])
            found.setdefault(index, {})
        elif field and index is not None:
            found[index].setdefault(field[1].lower(), field[2].strip())
    return found


def _answer(reading: Reading, found: list[Accelerator], banner: str, name: str) -> Facts:
    if not found and reading.text.strip() and not re.search(banner, reading.text):
        reading.unreadable("no device and no banner of the tool")
    if not found and (reading.rc or not reading.readable or not reading.text.strip()):
        return {}
    return {f"join.{name}": found}


def accelerators(seen: Facts, _observation: dict[str, Any]) -> Facts:
    """All of them in one list; None when no tool answered."""
    answered = [seen[name] for name in ("npu_smi", "cnmon", "rocm_smi") if name in seen]
    return {"accelerators": [one for some in answered for one in some]} if answered else {}
