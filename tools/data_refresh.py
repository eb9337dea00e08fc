"""Reads again what package metadata tells of the releases in data/torch.yml, and shows where the data says otherwise.

tools/data_refresh.py          show the differences
tools/data_refresh.py --write  write those that metadata alone decides

The index is that of the user's own settings (PIP_*, pip.conf, UV_*, uv.toml). No wheel is downloaded, no row is ever
removed, and nothing is written that metadata does not tell.
Exit status: 0 nothing differs, 1 something does (after --write: something is left for a person), 2 something could not
be read; then nothing is written.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "collections")]

from ansible_collections.trainrig.gpu.plugins.module_utils.node.files import write_atomically  # noqa: E402
from ansible_collections.trainrig.gpu.plugins.plugin_utils.index_client import ReadError  # noqa: E402

from tools.refresh import report, torch_facts, yaml_edit  # noqa: E402
from tools.refresh.reading import Reading, package_names  # noqa: E402


def refresh(data: Path, env: Mapping[str, str], write: bool) -> int:
    """Compare, show, write where asked; the exit status."""
    torch, nccl, cudnn = (
        yaml.safe_load((data / f"{name}.yml").read_text("utf-8")) for name in ("torch", "nccl", "cudnn")
    )
    started = time.monotonic()
    reading = Reading(env)
    for warning in reading.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    reading.read_pages()
    reading.read_metadata(torch["releases"], torch["lines"], package_names(nccl, cudnn))
    found = findings(torch, nccl, reading)
    new = torch_facts.new_releases(torch["releases"], reading.offered)
    lines = [*report.how(reading, time.monotonic() - started), *report.not_compared(list(torch["releases"]), reading)]
    lines += report.differences(found)
    if new:
        lines.append("\nReleases that data/torch.yml lacks; never written, since a row says more than metadata:")
    for version in new:
        lines += report.new_release(version, reading, list(next(iter(torch["releases"].values()))["python"]))
    print("\n".join(lines))
    if reading.unread:
        raise ReadError(
            f"pins of {len(reading.unread)} wheels could not be read, {reading.unread[0].name} among them: "
            f"{reading.unread[0].place} has neither metadata files (PEP 658) nor byte ranges. To fix it: set "
            "PIP_INDEX_URL (or UV_DEFAULT_INDEX) to an index that has one of them"
        )
    changes = [(finding.path, finding.new) for finding in found if finding.writable]
    left = len(found) + len(new)
    if write and changes:
        _write(data, changes)
        left -= len(changes)
        print(f"\nWritten: {len(changes)}; left for a person: {left}.")
    elif left:
        print(f"\nDifferent: {left}; make data-refresh ARGS=--write would write {len(changes)} of them.")
    else:
        print("\nNothing differs.")
    return 1 if left else 0


def findings(torch: Mapping[str, Any], nccl: Mapping[str, Any], reading: Reading) -> list[torch_facts.Finding]:
    """Where the data says otherwise than the metadata."""
    found: list[torch_facts.Finding] = []
    for version, row in torch["releases"].items():
        if files := reading.offered.get((version, "")):
            found += torch_facts.of_release(version, row, files, reading.builds.get((version, "")), reading.files)
    for (line, variant), build in torch_facts.newest_builds(reading.builds).items():
        if variant in torch["lines"].get(line, {}):
            found += torch_facts.of_line(line, torch["lines"][line], variant, build)
    return found + torch_facts.unknown_nccl(nccl["releases"], reading.builds.values())


def _write(data: Path, changes: Sequence[tuple[tuple[str, ...], Any]]) -> None:
    """All of it or nothing, and only what the schema takes."""
    path = data / "torch.yml"
    text = yaml_edit.edited(path.read_text("utf-8"), changes)
    schema = json.loads((data / "schemas" / "torch.schema.json").read_text("utf-8"))
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(yaml.safe_load(text)))
    if error:
        where = ".".join(str(part) for part in error.absolute_path)
        raise yaml_edit.EditError(f"{path}: {where} would not fit its schema ({error.message}); change it by hand")
    write_atomically(path, text)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write what metadata alone decides")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="the directory of the data")
    options = parser.parse_args(arguments)
    try:
        return refresh(options.data, os.environ, options.write)
    except (ReadError, yaml_edit.EditError) as error:
        print(f"data-refresh: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
