"""Reads a log of nccl-tests, rccl-tests or hccl_test: its rows, what is wrong with it, and the verdict.

The verdict is about correctness, completeness and arithmetic. Whether a bandwidth is good is judged elsewhere.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Union

from ansible_collections.trainrig.gpu.plugins.module_utils.nccl import failures, hccl, json_rows, log, whole
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.collectives import (
    KNOWN,
    Row,
    arithmetic,
    factor,
    inferred,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.lines import Message, split
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.rows import Device, Run, read

#: Texts of each kind that a result carries.
_MOST_TEXTS = 50
_LONGEST_TEXT = 240
#: Hosts that a text names.
_MOST_HOSTS = 8


class Judged(NamedTuple):
    """What is known of one run."""

    collective: Optional[str]
    stated: bool  # a line names the collective
    ranks: Optional[int]
    hosts: List[str]
    rows: List[Row]
    validated: bool
    errors: List[str]
    missing: List[str]  # why it is not whole
    stream: Optional[str]
    parameters: Any
    ranks_of_rows: Optional[int]  # what the arithmetic says


def parse(text: str) -> Dict[str, Any]:
    """Read a log, or the document that nccl-tests write with -J."""
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        document = json_rows.read(text)
        judged = [_judged(run) for run in document.runs]
        return _result(judged, document.errors, document.missing, document.versions, [], document.notes)
    lines, messages = split(text)
    found = read(lines)
    judged = [_judged(run) for run in found.runs] + [_hccl(run) for run in hccl.read(lines)]
    whole_log = bool(judged) and not any(run.missing for run in judged)
    errors = failures.texts(lines, messages, whole_log)
    versions = [*found.versions, *log.versions(messages)]
    return _result(judged, errors, [], versions, messages, log.warnings(messages))


def as_asked(
    result: Mapping[str, Any], ranks: Optional[int], hosts: Union[int, Sequence[str], None] = None
) -> List[str]:
    """How a result differs from the job that was asked for; empty where it is that job. None: not asked for.

    ``hosts``: how many, or their names as the machines call themselves.
    """
    said: List[str] = []
    for run in result["runs"]:
        name = run["collective"] or "a run"
        if ranks is not None and run["ranks"] != ranks:
            said.append(f"{name}: {_known(run['ranks'])} ranks, {ranks} asked for")
        seen = run["host_names"]
        if hosts is None:
            continue
        if seen is None:
            said.append(f"{name}: hosts unknown, {hosts if isinstance(hosts, int) else ', '.join(hosts)} asked for")
        elif isinstance(hosts, int):
            if len(seen) != hosts:
                said.append(f"{name}: {len(seen)} hosts ({', '.join(seen[:_MOST_HOSTS])}), {hosts} asked for")
        elif {_short(one) for one in seen} != {_short(one) for one in hosts}:
            said.append(f"{name}: ran on {', '.join(seen[:_MOST_HOSTS])}, asked for {', '.join(hosts)}")
    return list(dict.fromkeys(said)) if result["runs"] else ["there is no run in it"]


def held_to(result: Mapping[str, Any], ranks: Optional[int], hosts: Optional[int]) -> Dict[str, Any]:
    """The result with what differs from the job that was asked for among its errors."""
    said = as_asked(result, ranks, hosts) if result["runs"] else []
    return {**result, "errors": [*result["errors"], *said], "verdict": "fail" if said else result["verdict"]}


def _known(number: Optional[int]) -> str:
    return "unknown" if number is None else str(number)


def _short(host: str) -> str:
    return host.split(".")[0]


def _judged(run: Run) -> Judged:
    named = next((name for name in (run.started, run.concluded) if name), None)
    stated = _bare(named) if named else run.named
    collective = stated or (inferred(run.rows) if run.rows else None)
    ranks = max(device.rank for device in run.devices) + 1 if run.devices else None
    if run.ranks is not None:
        ranks = run.ranks
    errors = _twice(run.devices)
    told = None
    unclear: List[str] = []
    if run.rows:
        problems, told = arithmetic(collective, run.rows, ranks)
        unnamed = problems and not stated and collective == "all_reduce" and not _validated(run)
        if unnamed and not arithmetic("sendrecv", run.rows, ranks)[0]:
            # Without validation it looks the same and can be that one.
            collective, problems = None, []
        errors += problems
        if factor(collective, 2) is None:
            unclear = [f"{collective}: no such collective is known" if collective else "no line names the collective"]
    wrong = [row for row in run.rows if row.wrong]
    errors += [f"{collective or 'collective'} {row.where()}: {row.wrong} elements are wrong" for row in wrong]
    errors += [
        f"{collective or 'collective'} {row.where()}: error {row.error} is above what rounding gives"
        for row in run.rows
        if row.error and row.error.endswith("*")
    ]
    if run.bounds and (run.bounds[0] or not run.bounds[1]):
        errors.append(f"Out of bounds values : {run.bounds[0]} {'OK' if run.bounds[1] else 'FAILED'}")
    if run.average_failed and run.average:
        errors.append(f"Avg bus bandwidth : {run.average.text} FAILED")
    return Judged(
        collective,
        bool(stated),
        ranks,
        _hosts(run.devices),
        run.rows,
        _validated(run),
        errors,
        [*unclear, *_missing(run, ranks or told)],
        run.stream,
        run.sweep,
        told,
    )


def _validated(run: Run) -> bool:
    return run.validation is not False and any(row.wrong is not None or row.error for row in run.rows)


def _missing(run: Run, ranks: Optional[int]) -> List[str]:
    said: List[Optional[str]] = []
    if run.started and run.concluded and run.started != run.concluded:
        said.append(f"{run.started} was started and {run.concluded} concluded")
    elif run.started and not run.concluded:
        said.append(f"{run.started} was started and not concluded")
    elif run.concluded and not run.started:
        said.append(f"the beginning of {run.concluded} is not there")
    if run.devices and run.sweep is None:
        said.append("the line with the parameters is not there")
    if run.devices and run.ranks is None:
        said.append(whole.ranked([device.rank for device in run.devices]))
    if not run.columns:
        said.append("there is no table of results" if not run.rows else "the head of the table is not there")
    elif not run.rows:
        said.append("the table of results is empty")
    said += [f"not a whole row: {text}" for text in run.broken[:3]]
    if run.elided:
        said.append("rows are left out (...)")
    if run.bounds is None:
        said.append("there is no line Out of bounds values")
    if run.average is None:
        said.append("there is no line Avg bus bandwidth")
    elif run.rows:
        said.append(whole.averaged(run.average, run.rows))
    if run.sweep and run.rows:
        said.append(whole.swept(run.sweep, run.rows, ranks))
    return [text for text in said if text]


def _hccl(run: hccl.Run) -> Judged:
    problems = [*run.errors]
    return Judged(
        run.collective,
        run.collective is not None,
        run.ranks,
        [],
        run.rows,
        any(row.wrong is not None for row in run.rows),
        problems,
        run.missing,
        run.stream,
        run.sweep,
        None,
    )


def _bare(name: str) -> str:
    base = name.rpartition("/")[2]
    for ending in ("_perf_mpi", "_perf"):
        if base.endswith(ending):
            base = base[: -len(ending)]
    return base if base in KNOWN else name


def _twice(devices: Sequence[Device]) -> List[str]:
    """Ranks that two processes have: the tables of several jobs in one."""
    first: Dict[int, Device] = {}
    for device in devices:
        known = first.setdefault(device.rank, device)
        if (known.host, known.pid) != (device.host, device.pid):
            where = f"process {known.pid} of {known.host} and {device.pid} of {device.host}"
            return [f"rank {device.rank} is both {where}: each ran alone"]
    return []


def _hosts(devices: Iterable[Device]) -> List[str]:
    return list(dict.fromkeys(device.host for device in devices))


def _alone(runs: Sequence[Judged]) -> List[str]:
    """Runs that should have been one: each process or node measured by itself."""
    said: List[str] = []
    by_name: Dict[Optional[str], List[Judged]] = {}
    for run in runs:
        by_name.setdefault(run.collective, []).append(run)
    for name, same in by_name.items():
        hosts: Set[str] = {run.hosts[0] for run in same if run.hosts}
        streams = {run.stream for run in same}
        single = [run.parameters for run in same if run.ranks == 1]
        what = name or "the same collective"
        if len(same) > 1 and len(hosts) > 1:
            said.append(f"{what} ran {len(same)} times, with rank 0 on {', '.join(sorted(hosts))}: each ran alone")
        elif len(same) > 1 and len(streams) > 1:
            said.append(f"{what} ran in {len(streams)} processes, each with a rank 0: each ran alone")
        elif len(single) > len(set(single)):
            said.append(f"{what} ran {len(single)} times with one rank: each process ran alone")
    return said


def _result(
    runs: Sequence[Judged],
    errors: Iterable[str],
    missing: Iterable[str],
    versions: Sequence[str],
    messages: Sequence[Message],
    warnings: Iterable[str],
) -> Dict[str, Any]:
    faults = [*errors, *_alone(runs)]
    for run in runs:
        faults += run.errors
    gaps = [*missing, *(f"{run.collective or 'a run'}: {text}" for run in runs for text in run.missing)]
    rows = [_as_dict(run, row) for run in runs for row in run.rows]
    complete = bool(rows) and not gaps
    counts = {run.ranks for run in runs}
    names = {tuple(run.hosts) for run in runs}
    hosts = list(names.pop()) if len(names) == 1 else []
    only = sorted(set(versions))
    evidence = log.evidence(messages)
    return {
        "rows": rows,
        "ranks": counts.pop() if len(counts) == 1 else None,
        "hosts": len(hosts) or None,
        "nccl_version": only[0] if len(only) == 1 else None,
        "errors": _texts(faults),
        "transports": evidence["transports"],
        "complete": complete,
        "verdict": "fail" if faults else "pass" if complete else "unreadable",
        # beside the contract
        "host_names": hosts or None,
        "nccl_versions": only,
        "missing": _texts(gaps),
        "warnings": _texts(warnings),
        "validated": bool(runs) and all(run.validated for run in runs),
        "runs": [
            {
                "collective": run.collective,
                "collective_stated": run.stated,
                "ranks": run.ranks,
                "ranks_of_rows": run.ranks_of_rows,
                "host_names": run.hosts or None,
                "rows": len(run.rows),
                "complete": bool(run.rows) and not run.missing,
                "validated": run.validated,
            }
            for run in runs
        ],
        "evidence": evidence,
    }


def _as_dict(run: Judged, row: Row) -> Dict[str, Any]:
    return {
        "collective": run.collective,
        "size_bytes": row.size,
        "count": row.elements if row.dtype else None,
        "dtype": row.dtype or None,
        "redop": row.redop,
        "placement": row.placement,
        "time_us": row.time.number,
        "algbw_gb_s": row.algbw.number,
        "busbw_gb_s": row.busbw.number if row.busbw is not None else None,
        "wrong": row.wrong,
    }


def _texts(texts: Iterable[str]) -> List[str]:
    found = list(dict.fromkeys(" ".join(text.split()) for text in texts))
    cut = [text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…" for text in found[:_MOST_TEXTS]]
    return cut if len(found) <= _MOST_TEXTS else [*cut, f"and {len(found) - _MOST_TEXTS} more"]
