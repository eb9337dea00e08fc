"""Logs of nccl-tests as programs, launchers and NCCL print them, made up from a seed: healthy ones, and sick twins.

Written from the programs' own print statements and on purpose without anything of plugins/module_utils/nccl, so that
it can be the reference for it. Every line knows which run it belongs to.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

FACTORS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "sendrecv": lambda n: 1.0,
}
SPREAD = ("all_gather", "reduce_scatter", "alltoall")
ELEMENT = {"float": 4, "half": 2, "double": 8, "bfloat16": 2, "int8": 1}
#: (name of the style, what it prints)
STYLES = ("new", "middle", "old", "rccl")
SICK = (
    "wrong_elements",
    "wrong_and_ok",
    "out_of_bounds",
    "factor_of_other_ranks",
    "busbw_is_algbw_twice",
    "algbw_of_other_size",
    "died_then_well",
    "died_at_start",
    "launcher_only",
    "each_alone",
    "mean_failed",
    "launcher_says_failed",
    "table_of_other_job",
)


@dataclass
class Log:
    """A made-up log. ``runs``: the lines of each run that is well, for whoever must know what a whole one is."""

    lines: list[str]
    ranks: int
    hosts: list[str]
    runs: list[list[str]] = field(default_factory=list)
    by_lines: bool = False  # what is wrong with it is whole lines that no healthy log has
    collectives: list[str] = field(default_factory=list)
    document: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def column(value: float, width: int, old: bool) -> str:
    """A number as the program fits it into a column."""
    if old:
        if width == 7:
            return f"{value:7.0f}" if value > 10000 else f"{value:7.1f}" if value > 100 else f"{value:7.2f}"
        return f"{value:6.2f}"
    for digits in (2, 1, 0):
        text = f"{value:{width}.{digits}f}"
        if len(text) <= width:
            return text
    return f"{value:{width}.{1 if width >= 7 else 0}e}"


@dataclass
class Job:
    """What one log is about."""

    chance: random.Random
    style: str
    ranks: int
    hosts: list[str]
    dtype: str
    sizes: list[int]
    validated: bool
    speed: float

    def device_lines(self, ranks: int | None = None, hosts: list[str] | None = None) -> list[str]:
        names = hosts or self.hosts
        total = ranks or self.ranks
        each = max(1, total // len(names))
        lines = []
        for rank in range(total):
            host = names[min(rank // each, len(names) - 1)]
            group = "Group  0 " if self.style in ("new", "middle") else ""
            lines.append(
                f"#  Rank {rank:2d} {group}Pid {self.chance.randrange(1000, 999999):6d} on {host:>10s} "
                f"device {rank % each:2d} [0x{rank % each:02x}] Simulated GPU"
            )
        return lines

    def header(self) -> list[str]:
        wrong = {"new": "#wrong", "middle": "#wrong", "old": "error", "rccl": "#wrong"}[self.style]
        old = self.style == "old"
        left = ["size", "count", "type", "redop"] + ([] if old else ["root"])
        right = ["time", "algbw", "busbw", wrong] * 2
        return [
            "#",
            "#" + " " * 50 + "out-of-place" + " " * 23 + "in-place",
            "#  " + "  ".join(left + right),
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)",
        ]

    def start(self, collective: str, hosts: list[str] | None = None, ranks: int | None = None) -> list[str]:
        lines = []
        if self.style == "new":
            lines += ["# nccl-tests version 2.17.9 nccl-headers=22903 nccl-library=22903"]
            lines += [f"# Collective test starting: {collective}_perf"]
        valid = int(self.validated)
        graph = "" if self.style == "old" else " graph: 0"
        sweep = f"minBytes {self.sizes[0]} maxBytes {self.sizes[-1]} step: 2(factor)"
        lines += [
            f"# nThread 1 nGpus 1 {sweep} warmup iters: 5 iters: 20 agg iters: 1 validation: {valid}{graph}",
            "#",
            "# Using devices",
            *self.device_lines(ranks, hosts),
        ]
        if self.style == "middle":
            lines.append("NCCL version 2.21.5+cuda12.4")
        if self.style == "rccl":
            lines.append("RCCL version : 2.22.3-HEAD:0a1b2c3")
        return lines

    def figures(self, collective: str) -> list[dict[str, Any]]:
        """The numbers of a healthy table."""
        rows = []
        for size in self.sizes:
            spread = self.ranks if collective in SPREAD else 1
            count = size // ELEMENT[self.dtype] // spread
            for place in ("out_of_place", "in_place"):
                micros = 20 + size / (self.speed * 1e3) * self.chance.uniform(0.97, 1.03)
                algbw = size / (micros * 1e3)
                unchecked = not self.validated or (place == "in_place" and collective in ("sendrecv", "alltoall"))
                rows.append(
                    {
                        "size": size,
                        "count": count,
                        "place": place,
                        "time": micros,
                        "algbw": algbw,
                        "busbw": algbw * FACTORS[collective](self.ranks),
                        "wrong": None if unchecked else 0,
                    }
                )
        return rows

    def table(self, collective: str, rows: list[dict[str, Any]]) -> list[str]:
        old = self.style == "old"
        lines = []
        for first, second in zip(rows[::2], rows[1::2]):
            redop = "none" if collective in ("all_gather", "alltoall", "broadcast") else "sum"
            root = 0 if collective in ("broadcast", "reduce") else -1
            head = f"{first['size']:12d}  {first['count']:12d}  {self.dtype:>8s}  {redop:>6s}"
            line = head if old else head + f"  {root:6d}"
            for row in (first, second):
                if row["wrong"] is None:
                    wrong = "N/A"
                elif old:
                    wrong = "2e-07" if not row["wrong"] else "1e+00"
                else:
                    wrong = f"{row['wrong']:g}"
                line += f"  {column(row['time'], 7, old)}  {column(row['algbw'], 6, old)}"
                line += f"  {column(row['busbw'], 6, old)}  {wrong:>6s}"
            lines.append(line)
        return lines

    def footer(self, collective: str, rows: list[dict[str, Any]], bad: int = 0, mean: str = "") -> list[str]:
        average = sum(row["busbw"] for row in rows) / len(rows)
        lines = [
            f"# Out of bounds values : {bad} {'FAILED' if bad else 'OK'}",
            f"# Avg bus bandwidth    : {average:g} {mean}".rstrip() + (" " if self.chance.random() < 0.5 else ""),
            "#",
        ]
        if self.style == "new":
            lines += [f"# Collective test concluded: {collective}_perf", "#"]
        return lines

    def run(self, collective: str) -> list[str]:
        rows = self.figures(collective)
        return [
            *self.start(collective),
            *self.header(),
            *self.table(collective, rows),
            *self.footer(collective, rows),
        ]


def job(chance: random.Random, collective: str = "all_reduce") -> Job:
    style = chance.choice(STYLES)
    if style == "old" and collective not in ("all_reduce", "reduce_scatter"):
        style = "middle"
    hosts = [f"node-{chance.randrange(100, 999)}{letter}" for letter in "abcd"[: chance.choice((1, 2, 2, 4))]]
    each = chance.choice((1, 2, 4, 8))
    ranks = max(2, each * len(hosts))
    if ranks < len(hosts) * 1 or ranks % len(hosts):
        ranks = 2 * len(hosts)
    low = chance.randrange(20, 27)
    sizes = [1 << power for power in range(low, low + chance.randrange(3, 8))]
    return Job(
        chance,
        style,
        ranks,
        hosts,
        chance.choice(tuple(ELEMENT)),
        sizes,
        chance.random() < 0.85,
        chance.choice((0.9, 12.0, 96.0, 250.0, 412.0)),
    )


def noise(chance: random.Random, one: Job) -> list[str]:
    """Lines that a healthy job also has."""
    host = chance.choice(one.hosts)
    gpu, pid = chance.randrange(8), chance.randrange(1000, 99999)
    lead = f"{host}:{pid}:{pid + 40} [{gpu}] NCCL "
    return chance.choice(
        (
            [f"Warning: Permanently added '{host}' (ED25519) to the list of known hosts."],
            [lead + "INFO Connected all rings"],
            [lead + "INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"],
            [lead + "INFO 24 coll channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer"],
            [lead + "WARN NET/IB : a port went up again", lead + "INFO comm 0x1 rank 0 nranks 8 - Init COMPLETE"],
            [""],
        )
    )


def tagged(lines: list[str], kind: str) -> list[str]:
    """As a launcher prints them."""
    lead = {"mpirun": "[1,0]<stdout>:", "prte": "[prterun-node-a-77@1,0]<stdout>: ", "srun": "0: ", "none": ""}[kind]
    return [lead + line for line in lines]


def with_noise(chance: random.Random, one: Job, lines: list[str]) -> list[str]:
    found = list(lines)
    for _ in range(chance.choice((0, 0, 1, 3))):
        at = chance.randrange(len(found) + 1)
        found[at:at] = noise(chance, one)
    return found


def healthy(seed: str) -> Log:
    """One to three runs, one after the other."""
    chance = random.Random(seed)
    names = chance.sample(sorted(FACTORS), chance.choice((1, 1, 2, 3)))
    one = job(chance, names[0])
    if one.style != "new":
        names = names[:1]
        # Nothing but an unchecked place tells these from others where no line names them.
        one.validated = one.validated or names[0] in ("sendrecv", "alltoall")
    runs = [one.run(name) for name in names]
    lines = [line for run in runs for line in run]
    return Log(with_noise(chance, one, lines), one.ranks, one.hosts, runs, collectives=names)


def sick(seed: str, kind: str | None = None) -> tuple[Log, str]:
    """A log that must not pass, and what is wrong with it."""
    chance = random.Random(seed)
    kind = kind or chance.choice(SICK)
    collective = chance.choice(sorted(FACTORS))
    if kind == "factor_of_other_ranks":
        collective = chance.choice(("all_reduce", "all_gather", "reduce_scatter"))
    one = job(chance, collective)
    if kind in ("wrong_elements", "wrong_and_ok", "out_of_bounds"):
        one.validated = True
        if kind != "out_of_bounds" and one.style == "old":
            one.style = "middle"
    if kind == "factor_of_other_ranks":
        one.ranks = chance.choice((4, 8, 16)) * len(one.hosts)
        one.speed = 250.0
    lines, runs = _sick(chance, one, kind, collective)
    hosts = one.hosts if kind != "each_alone" else ["node-x", "node-y"]
    by_lines = kind in ("launcher_says_failed", "launcher_only", "each_alone", "died_then_well")
    return Log(with_noise(chance, one, lines), one.ranks, hosts, runs, by_lines, [collective]), kind


def _sick(chance: random.Random, one: Job, kind: str, collective: str) -> tuple[list[str], list[list[str]]]:
    rows = one.figures(collective)
    head = [*one.start(collective), *one.header()]
    bad, mean, after = 0, "", []
    twin = [*head, *one.table(collective, rows), *one.footer(collective, rows)]
    if kind in ("wrong_elements", "wrong_and_ok"):
        checked = [row for row in rows if row["wrong"] is not None]
        for row in chance.sample(checked, min(len(checked), chance.choice((1, 1, 2)))):
            row["wrong"] = chance.choice((1, 7, 992, 4832, 1250000))
        bad = sum(1 for row in rows if row["wrong"]) if kind == "wrong_elements" else 0
    elif kind == "out_of_bounds":
        bad = chance.randrange(1, 9)
    elif kind == "factor_of_other_ranks":
        other = one.ranks // 2 if chance.random() < 0.5 else one.ranks * 2
        for row in rows:
            row["busbw"] = row["algbw"] * FACTORS[collective](other)
    elif kind == "busbw_is_algbw_twice":
        for row in rows:
            row["busbw"] = row["algbw"] * 2.02
    elif kind == "algbw_of_other_size":
        for row in rows:
            row["algbw"] *= 2
            row["busbw"] *= 2
    elif kind == "mean_failed":
        mean = "FAILED"
    elif kind == "launcher_says_failed":
        after = [chance.choice(LAUNCHER_SAYS).format(host=one.hosts[0])]
    elif kind == "table_of_other_job":
        # The table of devices is another job's: rows of more or fewer ranks. Only where the factor shows it.
        names = [name for name in ("all_reduce", "all_gather") if name != collective]
        collective = names[0]
        one.speed, one.ranks = 250.0, 8
        rows = one.figures(collective)
        head = [*one.start(collective, ranks=4), *one.header()]
    elif kind in ("died_then_well", "died_at_start", "launcher_only", "each_alone"):
        return _broken(chance, one, kind, collective)
    lines = [*head, *one.table(collective, rows), *one.footer(collective, rows, bad, mean), *after]
    return lines, [twin]


def _broken(chance: random.Random, one: Job, kind: str, collective: str) -> tuple[list[str], list[list[str]]]:
    host, pid = one.hosts[-1], chance.randrange(1000, 99999)
    trace = [
        f"{host}: Test NCCL failure common.cu:{chance.randrange(300, 999)} 'unhandled system error / '",
        *[f" .. {host} pid {pid}: Test failure common.cu:{chance.randrange(300, 999)}" for _ in range(4)],
    ]
    if kind == "launcher_only":
        return [chance.choice(LAUNCHER_SAYS).format(host=host)], []
    if kind == "died_at_start":
        return [*one.start(collective), *trace], []
    if kind == "each_alone":
        one.style = "new" if one.style == "new" else "middle"
        rows = one.figures(collective)
        first = [*one.start(collective, ["node-x"]), *one.header(), *one.table(collective, rows)]
        second = [*one.start(collective, ["node-y"]), *one.header(), *one.table(collective, rows)]
        first += one.footer(collective, rows)
        second += one.footer(collective, rows)
        return [*first, *second], [first, second]
    rows = one.figures(collective)
    half = one.table(collective, rows)[: chance.choice((0, 1, 2))]
    other = chance.choice([name for name in FACTORS if name != collective])
    if one.style == "old":
        one.style = "middle"
    one.validated = True
    good = one.run(other)
    return [*one.start(collective), *one.header(), *half, *trace, *good], [good]


LAUNCHER_SAYS = (
    "launch failed on {host}: Couldn't allocate a port for PMI to use",
    "srun: error: {host}: tasks 0-3: Exited with exit code 1",
    "mpirun detected that one or more processes exited with non-zero status, thus causing the job to be terminated.",
    "Host key verification failed.",
    "ssh: connect to host {host} port 22: No route to host",
    "bash: line 1: all_reduce_perf: command not found",
    "slurmstepd: error: *** STEP 1.0 ON {host} CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
)


def document(seed: str, wrong: bool = False) -> Log:
    """What -J writes."""
    chance = random.Random(seed)
    collective = chance.choice(sorted(FACTORS))
    one = job(chance, collective)
    one.validated = True
    rows = one.figures(collective)
    if wrong:
        chance.choice([row for row in rows if row["wrong"] is not None])["wrong"] = chance.choice((1, 64, 4832))
    bad = sum(1 for row in rows if row["wrong"])

    def place(row: dict[str, Any]) -> dict[str, Any]:
        told = {"time": round(row["time"], 6), "alg_bw": round(row["algbw"], 6), "bus_bw": round(row["busbw"], 6)}
        return {**told, "nwrong": None if row["wrong"] is None else float(row["wrong"])}

    results = [
        {
            "size": first["size"],
            "count": first["count"],
            "type": one.dtype,
            "redop": "none" if collective in ("all_gather", "alltoall", "broadcast") else "sum",
            "root": "    -1",
            "out_of_place": place(first),
            "in_place": place(second),
            "actual_iterations": 20,
            "experiment_name": "",
        }
        for first, second in zip(rows[::2], rows[1::2])
    ]
    each = one.ranks // len(one.hosts)
    told = {
        "version": 3,
        "start_time": "2026-11-30 10:00:00",
        "args": [f"/opt/tests/{collective}_perf", "-J", "out.json"],
        "env": ["PATH=/usr/bin"],
        "nccl_version": 22903,
        "config": {
            "nthreads": 1,
            "ngpus": 1,
            "minimum_bytes": one.sizes[0],
            "maximum_bytes": one.sizes[-1],
            "step_factor": 2,
            "validation": 1,
            "devices": [
                {
                    "rank": rank,
                    "group": 0,
                    "pid": 100 + rank,
                    "hostname": one.hosts[min(rank // each, len(one.hosts) - 1)],
                    "device": rank % each,
                    "device_hex": "0000:1b:00",
                    "device_info": "Simulated GPU",
                }
                for rank in range(one.ranks)
            ],
        },
        "results": results,
        "out_of_bounds": {"count": bad, "okay": "false" if bad else "true"},
        "average_bus_bandwidth": {
            "bandwidth": round(sum(row["busbw"] for row in rows) / len(rows), 6),
            "okay": "unchecked",
        },
        "errors": [],
        "end_time": "2026-11-30 10:05:00",
    }
    return Log([json.dumps(told)], one.ranks, one.hosts, collectives=[collective], document=told)
