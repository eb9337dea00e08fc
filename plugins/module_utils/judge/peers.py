"""Compares nodes of equal hardware with each other, which also works where nobody published a figure."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Hashable, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding, natural
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import POOL, finding
from ansible_collections.trainrig.gpu.plugins.module_utils.pairs.robust import Normal, normal

Measurement = Mapping[str, Any]
_What = Tuple[Any, ...]
#: What a measurement is fast by, and how people call it.
_SPEEDS = {"busbw_gb_s": "busbw {:.4g} GB/s", "samples_per_s": "{:.4g} samples/s"}
#: What must be equal in two measurements that are compared.
_SAME = ("stage", "collective", "backend", "ranks", "size_bytes", "dtype")


class Annotation(NamedTuple):
    """Where one measurement stands among its peers."""

    host: str
    stage: str
    collective: Optional[str]
    size_bytes: Optional[int]
    metric: str  # busbw_gb_s | samples_per_s
    value: float
    median: float
    percentile: int  # share of the peers, itself among them, that are not faster
    peers: int
    bound: Optional[float]  # below it a node stands out; None: not judged
    stands_out: bool


def judge(
    measurements: Iterable[Measurement],
    hardware: Mapping[str, Hashable],
    data: Mapping[str, Any],
    pool: str = POOL,
) -> Tuple[List[Finding], List[Annotation]]:
    """Return findings and annotations of the measurements that nodes of one pool took alone.

    ``hardware`` says what each host is made of (model, number and link of its GPUs); a host that is missing is
    compared with nobody. ``data`` is data/thresholds. Only the largest size of each collective is compared. gloo is
    annotated and not judged: its speed is the processor's of the moment.
    """
    findings, annotations = [], []
    for (what, metric, _hardware), values in _alike(measurements, hardware).items():
        key = dict(zip(_SAME, what))
        if len(values) < int(data["peers"]["least_hosts"]["value"]):
            continue
        found = normal(values.values(), list(values.values()), data["pairs"])
        judged = found if key["backend"] != "gloo" else None
        own = [_place(host, key, metric, values, found, judged) for host in sorted(values, key=natural)]
        annotations += own
        findings += [_finding(one, data, pool) for one in own if one.stands_out]
    return findings, annotations


def _alike(
    measurements: Iterable[Measurement], hardware: Mapping[str, Hashable]
) -> Dict[Tuple[_What, str, Hashable], Dict[str, float]]:
    """{(what, by what, hardware): {host: value}}, each collective at the largest size that a host has of it."""
    largest: Dict[Tuple[Any, ...], Measurement] = {}
    for one in measurements:
        hosts = list(one.get("hosts") or [])
        if len(hosts) != 1 or one.get("nodes", 1) != 1 or hosts[0] not in hardware or (one.get("ranks") or 0) < 2:
            continue
        place = (hosts[0], one.get("stage"), one.get("collective"), one.get("backend"), one.get("ranks"))
        if place not in largest or (one.get("size_bytes") or 0) > (largest[place].get("size_bytes") or 0):
            largest[place] = one
    groups: Dict[Tuple[_What, str, Hashable], Dict[str, float]] = {}
    for one in largest.values():
        host = one["hosts"][0]
        what = tuple(one.get(name) for name in _SAME)
        for metric in _SPEEDS:
            if isinstance(one.get(metric), (int, float)):
                groups.setdefault((what, metric, hardware[host]), {})[host] = float(one[metric])
    return groups


def _place(
    host: str,
    key: Mapping[str, Any],
    metric: str,
    values: Mapping[str, float],
    found: Optional[Normal],
    judged: Optional[Normal],
) -> Annotation:
    value = values[host]
    below = sum(1 for other in values.values() if other <= value)
    return Annotation(
        host=host,
        stage=str(key["stage"]),
        collective=key["collective"],
        size_bytes=key["size_bytes"],
        metric=metric,
        value=value,
        median=found.middle if found else value,
        percentile=round(100 * below / len(values)),
        peers=len(values),
        bound=judged.bound if judged else None,
        stands_out=judged is not None and value < judged.bound,
    )


def _finding(one: Annotation, data: Mapping[str, Any], pool: str) -> Finding:
    """Warn; fail where it is so slow that no pool is uneven enough to explain it."""
    share = one.value / one.median
    worst = share < 1 - float(data["pairs"]["most_gap"]["value"])
    what = one.collective or one.stage
    at = f" at {one.size_bytes} bytes" if one.size_bytes else ""
    summary = (
        f"{what}{at}: {_SPEEDS[one.metric].format(one.value)}, {share:.0%} of the median of its {one.peers - 1} peers"
    )
    proof = [
        (one.stage, f"{what}{at}: {_SPEEDS[one.metric].format(one.value)}"),
        ("peers", f"{one.peers} nodes of equal hardware: median {one.median:.4g}, bound {one.bound:.4g}"),
    ]
    return finding(
        "verify.slower_than_peers", one.host, summary, proof, severity="fail" if worst else "warn", pool=pool
    )
