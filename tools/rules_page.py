"""Writes docs/rules.md: every rule of diagnose as data/rules.yml words it.

tools/rules_page.py          write the page
tools/rules_page.py --check  say whether it is what would be written
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "rules.md"
OPENING = """\
# Rules

What [diagnose](diagnose.md) looks for. Written from `data/rules.yml` by `make docs`; change it there.

A rule fires only on what was observed: a probe that could not run is no fault. `refuse` stops a pool before any change
(unless `trainrig_force: ["rule@host"]` says otherwise), `fail` is broken, `warn` and `info` stop nothing. Names in
braces are filled with what was found; commands are those of the host's own system.
"""
#: What the first part of an id is about, in the order of the page.
SUBJECTS = {
    "observation": "The look itself",
    "driver": "Driver",
    "kernel": "Kernel and modules",
    "packages": "Packages",
    "sources": "Package sources",
    "stack": "The declaration against the node",
    "gpu": "Each GPU",
    "pcie": "PCIe",
    "fabric": "NVLink fabric",
    "paths": "Search paths and variables",
    "python": "Python environment",
    "nccl": "NCCL and Gloo",
    "rdma": "RDMA",
    "network": "Names and ports",
    "machine": "Machine",
    "containers": "Containers",
    "fleet": "Pools",
    "floor": "Floors of a site",
}


def page() -> str:
    """The whole page."""
    content = yaml.safe_load((ROOT / "data" / "rules.yml").read_text(encoding="utf-8"))
    rules: dict[str, dict[str, Any]] = content["rules"]
    unknown = {name.split(".")[0] for name in rules} - set(SUBJECTS)
    if unknown:
        raise SystemExit(f"tools/rules_page.py: SUBJECTS lacks {sorted(unknown)}")
    parts = [OPENING, *_contents(rules)]
    for subject, title in SUBJECTS.items():
        parts.append(f"\n## {title}\n")
        for name in sorted(rules):
            if name.split(".")[0] == subject:
                parts += _rule(name, rules[name])
    parts += _thresholds(content["thresholds"])
    return "\n".join(parts).rstrip() + "\n"


def _contents(rules: dict[str, dict[str, Any]]) -> Iterator[str]:
    for subject, title in SUBJECTS.items():
        number = sum(1 for name in rules if name.split(".")[0] == subject)
        yield f"- [{title}](#{title.lower().replace(' ', '-')}): {number}"


def _rule(name: str, row: dict[str, Any]) -> Iterator[str]:
    severity = f"**{row['severity']}**" + (f" ({_line(row['also'])})" if row.get("also") else "")
    yield f"### `{name}`\n"
    yield f"- {severity}; layer `{row['layer']}`, scope {row['scope']}, action `{row['action']}`"
    yield f"- why: {_line(row['cause'])}"
    yield f"- next: {_line(row['next'])}"
    for text in row.get("texts", {}).values():
        yield f"- or: {_line(text)}"
    if row.get("explains"):
        yield f"- explains {', '.join(f'`{one}`' for one in row['explains'])}"
    yield f"- source: {_line(row['source'])}\n"


def _thresholds(rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield "\n## Numbers that decide\n"
    yield "| threshold | value | why |"
    yield "| --- | --- | --- |"
    for name, row in sorted(rows.items()):
        yield f"| `{name}` | {row['value']} | {_line(row['why'])} |"


def _line(text: str) -> str:
    return " ".join(str(text).split()).replace("<", "&lt;")


def main() -> int:
    written = page()
    if "--check" in sys.argv[1:]:
        if PAGE.read_text(encoding="utf-8") == written:
            return 0
        print(f"{PAGE.relative_to(ROOT)} is not what data/rules.yml says; run make docs")
        return 1
    PAGE.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
