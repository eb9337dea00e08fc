"""Turns what nccl-tests printed into the document that collectives.py writes, so that both are judged alike."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.judge.collectives import BUS_FACTOR
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl import log, result
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.lines import split

#: nccl-tests' names of collectives that torch calls otherwise.
_NAMES = {"alltoall": "all_to_all"}
_SUFFIX = "_perf"


def read(told: Optional[Mapping[str, Any]]) -> Optional[Mapping[str, Any]]:
    """An account of group_run.py with `document` where it holds texts of programs, and what NCCL's own lines show."""
    if not told:
        return told
    if told.get("texts"):
        parsed = [_named(result.parse(str(one["text"])), str(one["program"])) for one in told["texts"]]
        seen = next((one["evidence"] for one in parsed if one["nccl_versions"]), None)
        return {**told, "document": document(parsed), "texts": [], "evidence": seen}
    if told.get("nccl_log"):
        _lines, messages = split(str(told["nccl_log"]))
        return {**told, "nccl_log": None, "evidence": log.evidence(messages)}
    return told


def _named(parsed: Mapping[str, Any], program: str) -> Dict[str, Any]:
    """A log that names no collective is of the program that was started; one that names another is an error."""
    own = program[: -len(_SUFFIX)] if program.endswith(_SUFFIX) else program
    others = {run["collective"] for run in parsed["runs"] if run["collective_stated"] and run["collective"] != own}
    errors = [f"{program} was started, and the log is of {name}" for name in sorted(map(str, others))]
    rows = [{**row, "collective": own} for row in parsed["rows"]]
    return {**parsed, "rows": rows, "errors": [*parsed["errors"], *errors]}


def document(parsed: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    """One document of all programs that ran one after the other. They must agree on ranks and hosts."""
    ranks = {one["ranks"] for one in parsed}
    hosts = {tuple(one["host_names"] or ()) for one in parsed}
    versions = sorted({version for one in parsed for version in one["nccl_versions"]})
    errors = [str(text) for one in parsed for text in one["errors"]]
    if not errors:
        errors = [str(text) for one in parsed for text in one["missing"]]
    if len(ranks) > 1 or len(hosts) > 1:
        errors.append("the programs did not run on the same ranks and hosts")
    many = ranks.pop() if len(ranks) == 1 else None
    names = list(hosts.pop()) if len(hosts) == 1 else []
    return {
        "script": "nccl-tests",
        # Without NCCL it is a program of another kind, and its speed says nothing of a GPU.
        "backend": "nccl" if versions else "mpi",
        "ranks": many or 0,
        "nodes": len(names),
        "hosts": names,
        "devices": names,
        "versions": {"nccl": ", ".join(versions) or None},
        "seed": None,
        "rows": [_row(row, many) for one in parsed for row in one["rows"]],
        "skipped": [],
        "left_out": [],
        "errors": errors,
        "complete": all(one["complete"] for one in parsed),
    }


def _row(row: Mapping[str, Any], ranks: Optional[int]) -> Dict[str, Any]:
    """Bandwidths anew, of size and time: the printed ones have two decimals, and were held against these already."""
    name = _NAMES.get(str(row["collective"]), str(row["collective"]))
    algbw = float(row["size_bytes"]) / float(row["time_us"]) / 1e3 if row["time_us"] else float(row["algbw_gb_s"])
    known = name in BUS_FACTOR and ranks
    return {
        **row,
        "collective": name,
        "algbw_gb_s": algbw,
        "busbw_gb_s": algbw * BUS_FACTOR[name](int(ranks or 1)) if known else float(row["busbw_gb_s"]),
    }
