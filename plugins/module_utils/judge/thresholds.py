"""Finds the floors that fit a measurement; what the hardware can carry at most is beside it (ceiling.py)."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.judge.ceiling import ceiling
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.job import Job

__all__ = ["Fit", "ThresholdError", "ceiling", "check_site_rows", "fit"]

_FLOORS = ("operator_floor", "site_floor")


class Fit(NamedTuple):
    """The figures that fit one job at one message size."""

    fail_below: Optional[float]
    warn_below: Optional[float]
    source: Optional[str]
    shown: List[str]  # measured results and norms, for people
    from_bytes: Optional[int]  # smallest size at which a floor for this job holds


class ThresholdError(ValueError):
    """A site's own row that cannot be used."""


def fit(
    job: Job, nodes: int, ranks: int, size_bytes: int, data: Mapping[str, Any], site: Sequence[Mapping[str, Any]] = ()
) -> Fit:
    """Return the figures for an all_reduce of this job. A site's floors replace the published ones."""
    rows = [row for row in data["all_reduce"] if _same_job(row, job, nodes, ranks)]
    own = [row for row in site if _same_job(row, job, nodes, ranks)]
    large = data["large_bytes"]["value"]
    floors = own or [row for row in rows if row["kind"] in _FLOORS]
    holding = [row for row in floors if size_bytes >= (row.get("from_bytes") or (0 if own else large))]
    failing = sorted(
        (row for row in holding if row.get("severity", "fail") == "fail"), key=lambda row: float(row["busbw_gb_s"])
    )
    lowest = failing[0] if failing else None
    highest = max((float(row["busbw_gb_s"]) for row in holding), default=None)
    return Fit(
        fail_below=float(lowest["busbw_gb_s"]) if lowest else None,
        warn_below=highest
        if highest is not None and (lowest is None or highest > float(lowest["busbw_gb_s"]))
        else None,
        source=_source(lowest or (holding[0] if holding else None), data),
        shown=[_shown(row, data) for row in rows if row["kind"] not in _FLOORS],
        from_bytes=min((int(row.get("from_bytes") or large) for row in floors), default=None),
    )


def check_site_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Say what is wrong with a site's own rows before they decide anything."""
    known = {
        "models",
        "gpus_per_node",
        "nodes",
        "link",
        "from_bytes",
        "busbw_gb_s",
        "severity",
        "source",
        "conditions",
        "kind",
    }
    for number, row in enumerate(rows, start=1):
        where = f"verify_thresholds, row {number}"
        unknown = sorted(set(row) - known)
        if unknown:
            raise ThresholdError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")
        for key in ("models", "gpus_per_node", "busbw_gb_s"):
            if key not in row:
                raise ThresholdError(f"{where}: {key} is missing")
        if not isinstance(row["models"], (list, tuple)):
            raise ThresholdError(f"{where}: models must be a list of names as in data/gpus.yml")
        if (
            not isinstance(row["busbw_gb_s"], (int, float))
            or isinstance(row["busbw_gb_s"], bool)
            or row["busbw_gb_s"] <= 0
        ):
            raise ThresholdError(f"{where}: busbw_gb_s must be a number above 0, not {row['busbw_gb_s']!r}")
        if row.get("severity", "fail") not in ("fail", "warn"):
            raise ThresholdError(f"{where}: severity must be fail or warn, not {row['severity']!r}")


def _same_job(row: Mapping[str, Any], job: Job, nodes: int, ranks: int) -> bool:
    return (
        job.model is not None
        and job.model in row["models"]
        and int(row.get("nodes", 1)) == nodes
        and int(row["gpus_per_node"]) * nodes == ranks
        and row.get("link", job.link) == job.link
    )


def _source(row: Optional[Mapping[str, Any]], data: Mapping[str, Any]) -> Optional[str]:
    if row is None:
        return None
    name = str(row.get("source", "the inventory's verify_thresholds"))
    text = str(data["sources"].get(name, name))
    return f"{text} ({row['conditions']})" if row.get("conditions") else text


def _shown(row: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    size = row.get("from_bytes") or 0
    at = f" at {size / 2**30:g} GiB" if size else ""
    word = "measured" if row["kind"] == "measured" else "an operator's norm"
    return f"{row['busbw_gb_s']} GB/s{at}, {word}: {_source(row, data)}"
