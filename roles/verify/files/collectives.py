"""Measure and check torch.distributed collectives. Start it with torchrun; needs torch only.

    torchrun --standalone --nproc-per-node 8 collectives.py --max-bytes 8G --output collectives.json

NCCL on GPUs, gloo without. A wrong result does not stop it: it is counted and reported (`wrong`).

Bandwidth is defined as in nccl-tests (NVIDIA/nccl-tests, doc/PERFORMANCE.md), n = ranks:

    algbw = size_bytes / time          busbw = algbw * factor
    factor: all_reduce 2(n-1)/n; all_gather, reduce_scatter, all_to_all (n-1)/n; broadcast 1

`size_bytes` is nccl-tests' S: the buffer of one rank for all_reduce and broadcast; the whole array
(n times the part that one rank contributes or keeps) for all_gather, reduce_scatter and all_to_all.
`count` is nccl-tests' count: elements a rank for the last three, of the whole buffer for the first two.
`time_us` is the mean of the timed calls on the slowest rank (nccl-tests averages over the ranks by
default, which can hide a slow one). 1 GB = 1e9 bytes.

Correctness. Inputs are random integers, made from (seed, rank, element) by a hash in integer
arithmetic that gives the same numbers on every device. Each rank makes the inputs of all ranks anew
and computes what it should have received in integers; nothing of that passes through a collective.
With |x| < 2**p / n, p = significand bits of the data type, every partial sum is an integer below 2**p,
so it is exact whatever the order of the additions: the bound on the error is zero, element by element.
Results are checked before and after the timed calls. Times and counts travel through the TCPStore,
because a broken collective must not be asked whether it is broken.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import re
import socket
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

SIGNIFICAND_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
# Elements made or compared at a time: bounds the memory of the check, and keeps a GPU busy.
CHUNK = {"cpu": 1 << 20, "cuda": 1 << 24}
LEAST_MAGNITUDE = 4  # fewer different values than this would prove little
ROOT = 0  # of the broadcast
UNSUPPORTED = re.compile(r"not support|unsupported|not implemented|no backend type|does not implement", re.IGNORECASE)

BUS_FACTOR = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "all_to_all": lambda n: (n - 1) / n,
}
WHOLE_BUFFER = {"all_reduce", "broadcast"}  # the others cut the array into n parts
REDUCING = {"all_reduce", "reduce_scatter"}


def bytes_of(text: str) -> int:
    """Read 4096, 64K, 16M, 8G (powers of 1024)."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip().upper())
    if not match:
        raise argparse.ArgumentTypeError(f"not a size: {text!r} (write 4096, 64K, 16M or 8G)")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def key_of(*parts: object) -> int:
    """Return 32 random-looking bits for (seed, collective, size, check, rank)."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big")


def values(key: int, start: int, length: int, magnitude: int, device: torch.device) -> torch.Tensor:
    """Return the integers [start, start+length) of an endless random sequence, in [-magnitude, magnitude)."""
    mask = 0xFFFFFFFF
    x = torch.arange(start, start + length, dtype=torch.int64, device=device)
    x.bitwise_xor_(key).bitwise_and_(mask)
    # An integer hash (xor-shift and multiply, modulo 2**32). int64 keeps the low 32 bits of each product.
    for shift, multiplier in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x.bitwise_xor_(x >> shift)
        x.mul_(multiplier).bitwise_and_(mask)
    x.bitwise_xor_(x >> 16)
    return x.remainder_(2 * magnitude).sub_(magnitude)


def either(name: str, older: str) -> Any:
    """Return a function of torch.distributed by its name today, or the one it had before."""
    return getattr(dist, name, None) or getattr(dist, older)


class Case:
    """One collective at one size: its buffers, its call, and what must come out."""

    def __init__(
        self, name: str, size: int, world: int, rank: int, device: torch.device, options: argparse.Namespace
    ) -> None:
        self.name, self.world, self.rank, self.device, self.options = name, world, rank, device, options
        self.dtype = getattr(torch, options.dtype)
        self.chunk = CHUNK[device.type]
        element = torch.empty((), dtype=self.dtype).element_size()
        parts = 1 if name in WHOLE_BUFFER else world
        self.count = max(1, size // (element * parts))
        self.size_bytes = self.count * parts * element
        self.magnitude = (1 << SIGNIFICAND_BITS[options.dtype]) // world
        send = self.count if name in {"all_reduce", "broadcast", "all_gather"} else self.count * world
        receive = self.count * world if name in {"all_gather", "all_to_all"} else self.count
        self.send = torch.empty(send, dtype=self.dtype, device=device)
        self.in_place = name in WHOLE_BUFFER  # as torch offers them
        self.receive = self.send if self.in_place else torch.empty(receive, dtype=self.dtype, device=device)

    def key(self, check: int, rank: int) -> int:
        return key_of(self.options.seed, self.name, self.size_bytes, check, rank)

    def fill(self, check: int) -> None:
        """Put this rank's input in place, and something that is never right where the result goes."""
        self.receive.fill_(float("nan"))
        if self.name == "broadcast" and self.rank != ROOT:
            return
        for start in range(0, self.send.numel(), self.chunk):
            length = min(self.chunk, self.send.numel() - start)
            self.send[start : start + length] = values(
                self.key(check, self.rank), start, length, self.magnitude, self.device
            )

    def call(self) -> None:
        if self.name == "all_reduce":
            dist.all_reduce(self.send)
        elif self.name == "broadcast":
            dist.broadcast(self.send, src=ROOT)
        elif self.name == "all_gather":
            either("all_gather_single", "all_gather_into_tensor")(self.receive, self.send)
        elif self.name == "reduce_scatter":
            either("reduce_scatter_single", "reduce_scatter_tensor")(self.receive, self.send)
        else:
            dist.all_to_all_single(self.receive, self.send)

    def origins(self) -> Iterator[tuple[int, list[int], int]]:
        """Say for each part of the result: where it begins, which ranks' inputs it is made of, from where in them."""
        everyone = list(range(self.world))
        if self.name == "all_reduce":
            yield 0, everyone, 0
        elif self.name == "broadcast":
            yield 0, [ROOT], 0
        elif self.name == "reduce_scatter":
            yield 0, everyone, self.rank * self.count
        else:
            offset = 0 if self.name == "all_gather" else self.rank * self.count
            for source in everyone:
                yield source * self.count, [source], offset

    def wrong(self, check: int) -> int:
        """Count the elements of this rank's result that are not exactly what the inputs give."""
        bad = torch.zeros((), dtype=torch.int64, device=self.device)
        for begin, sources, origin in self.origins():
            for start in range(0, self.count, self.chunk):
                length = min(self.chunk, self.count - start)
                expected = torch.zeros(length, dtype=torch.int64, device=self.device)
                for source in sources:
                    expected += values(self.key(check, source), origin + start, length, self.magnitude, self.device)
                got = self.receive[begin + start : begin + start + length]
                # In float64 both sides are exact, and a NaN is unequal to everything.
                bad += (got.to(torch.float64) != expected.to(torch.float64)).sum()
        return int(bad.item())


class Progress:
    """Says in a file of this rank's own what it is about to do, so that one can tell who keeps the others waiting."""

    def __init__(self, directory: Path | None, host: str) -> None:
        self.path = directory and directory / f"rank-{os.environ.get('RANK', '0')}.json"
        self.fact: dict[str, Any] = {
            "rank": int(os.environ.get("RANK", "0")),
            "host": host,
            "pid": os.getpid(),
            "step": 0,
        }

    def __call__(self, doing: str) -> None:
        self.fact.update(step=self.fact["step"] + 1, doing=doing)
        if self.path is not None:
            write(self.fact, self.path)


class Board:
    """What the ranks tell each other, through the store: who said what, and who said nothing."""

    def __init__(self, store: Any, rank: int, world: int, patience_s: float, progress: Progress) -> None:
        self.store, self.rank, self.world = dist.PrefixStore("trainrig", store), rank, world
        self.progress = progress
        self.patience = timedelta(seconds=patience_s)
        self.turn = 0

    def tell(self, fact: dict[str, Any]) -> list[dict[str, Any]]:
        """Hand in this rank's fact; rank 0 gets everybody's, in the order of the ranks."""
        self.turn += 1
        self.store.set(f"{self.turn}/{self.rank}", json.dumps(fact))
        if self.rank != 0:
            return []
        silent, facts = [], []
        for rank in range(self.world):
            try:
                self.store.wait([f"{self.turn}/{rank}"], self.patience)
                facts.append(json.loads(self.store.get(f"{self.turn}/{rank}")))
            except Exception:  # torch raises DistStoreError or RuntimeError, by version
                silent.append(rank)
        if silent:
            raise RuntimeError(
                f"no answer from rank {', '.join(map(str, silent))} within {self.patience.total_seconds():.0f} s"
            )
        return facts

    def decide(self, decision: dict[str, Any] | None) -> dict[str, Any]:
        """Rank 0 decides, everybody learns it."""
        self.turn += 1
        if self.rank == 0:
            self.store.set(f"{self.turn}/plan", json.dumps(decision))
        self.store.wait([f"{self.turn}/plan"], self.patience)
        plan: dict[str, Any] = json.loads(self.store.get(f"{self.turn}/plan"))
        return plan


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed_calls(case: Case, iterations: int) -> float:
    """Return the seconds that one call takes on this rank."""
    dist.barrier()
    synchronize(case.device)
    start = time.perf_counter()
    for _ in range(iterations):
        case.call()
    synchronize(case.device)
    return (time.perf_counter() - start) / iterations


def checked_call(case: Case, check: int) -> tuple[float, int]:
    """Run once on fresh inputs; return its seconds and the number of wrong elements."""
    case.fill(check)
    seconds = timed_calls(case, 1)
    return seconds, case.wrong(check)


def measure(case: Case, board: Board, options: argparse.Namespace) -> dict[str, Any]:
    """Check, warm up, time, check again; rank 0 returns the row, the others an empty one."""
    board.progress(f"{case.name} of {case.size_bytes} bytes: first call")
    first_s, wrong = checked_call(case, check=1)
    # The first call of a kind also sets connections up; the second one says how fast it is.
    board.progress(f"{case.name} of {case.size_bytes} bytes: second call")
    second_s = timed_calls(case, 1)
    told = board.tell({"first_s": first_s, "second_s": second_s})
    first_s = max((fact["first_s"] for fact in told), default=0.0)
    # Enough calls for a steady mean, few enough for the budget: slow links get fewer.
    slowest = max((fact["second_s"] for fact in told), default=1.0)
    wanted = int(options.row_seconds / max(slowest, 1e-6))
    plan = board.decide({"iterations": max(2, min(options.iterations, wanted))} if told else None)
    board.progress(f"{case.name} of {case.size_bytes} bytes: {plan['iterations']} timed calls")
    for _ in range(min(options.warmup, plan["iterations"])):
        case.call()
    call_s = timed_calls(case, plan["iterations"])
    board.progress(f"{case.name} of {case.size_bytes} bytes: last check")
    wrong += checked_call(case, check=2)[1]
    told = board.tell({"call_s": call_s, "wrong": wrong})
    if not told:
        return {}
    call_s = max(fact["call_s"] for fact in told)
    algbw = case.size_bytes / call_s / 1e9
    return {
        "collective": case.name,
        "size_bytes": case.size_bytes,
        "count": case.count,
        "dtype": options.dtype,
        "redop": "sum" if case.name in REDUCING else "none",
        "placement": "in_place" if case.in_place else "out_of_place",
        "time_us": round(call_s * 1e6, 3),
        "first_call_us": round(first_s * 1e6, 3),
        "algbw_gb_s": algbw,
        "busbw_gb_s": algbw * BUS_FACTOR[case.name](case.world),
        "wrong": sum(fact["wrong"] for fact in told),
        "wrong_by_rank": [fact["wrong"] for fact in told],
        "iterations": plan["iterations"],
        "checks": 2,
    }


def sizes_of(options: argparse.Namespace, largest: int) -> list[int]:
    sizes, size = [], options.min_bytes
    while size <= min(options.max_bytes, largest):
        sizes.append(size)
        size *= options.factor
    return sizes


def largest_that_fits(device: torch.device) -> int:
    """Two buffers and the check must fit into what is free, with a good margin."""
    if device.type == "cuda":
        free, _total = torch.cuda.mem_get_info(device)
        return int(free * 0.4)
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(pages * 0.1)  # all ranks of this node share it


def loaded_library(name: str) -> str | None:
    """Return the file that this process really loaded a library from."""
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        path = line.split(maxsplit=5)[-1]
        if path.startswith("/") and Path(path).name.startswith(name + ".so"):
            return path
    return None


def describe(
    options: argparse.Namespace, device: torch.device, backend: str, told: list[dict[str, Any]]
) -> dict[str, Any]:
    """Say under which conditions the numbers were taken."""
    nccl = None
    if device.type == "cuda":
        version = torch.cuda.nccl.version()
        nccl = ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
    return {
        "schema": 1,
        "script": "collectives",
        "backend": backend,
        "ranks": len(told),
        "nodes": len({fact["host"] for fact in told}),
        "hosts": [fact["host"] for fact in told],
        "devices": [fact["device"] for fact in told],
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "nccl": nccl,
            "nccl_library": loaded_library("libnccl"),
        },
        "seed": options.seed,
        "definitions": "nccl-tests doc/PERFORMANCE.md; time = mean on the slowest rank",
        "rows": [],
        "skipped": [],
        "left_out": [],
        "errors": [],
        "complete": False,
    }


def write(document: dict[str, Any], path: Path | None) -> None:
    """Write the document whole or not at all, after every row: what was measured survives an abort."""
    if path is None:
        return
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(document, indent=1))
    beside.replace(path)


def sweep(
    options: argparse.Namespace, board: Board, device: torch.device, document: dict[str, Any], largest: int
) -> None:
    """Go through collectives and sizes as long as the budget lasts. All ranks take the same way."""
    begin = time.monotonic()
    leader = board.rank == 0
    for position, name in enumerate(options.collectives):
        share = (options.budget - (time.monotonic() - begin)) / (len(options.collectives) - position)
        collective_begin, last_s = time.monotonic(), 0.0
        for size in sizes_of(options, largest):
            # The next size takes up to `factor` times as long as the last one did.
            enough = time.monotonic() - collective_begin + last_s * options.factor < share
            if not board.decide({"go": enough} if leader else None)["go"]:
                document["left_out"].append({"collective": name, "from_bytes": size, "reason": "time budget"})
                break
            row_begin = time.monotonic()
            try:
                row = measure(Case(name, size, board.world, board.rank, device, options), board, options)
            except (RuntimeError, NotImplementedError, AttributeError) as error:
                # Every rank meets this before anything is sent, so all of them go on with the next collective.
                if not UNSUPPORTED.search(str(error)) and not isinstance(error, (NotImplementedError, AttributeError)):
                    raise
                document["skipped"].append({"collective": name, "reason": str(error).splitlines()[0][:240]})
                break
            if leader:
                # What setting connections up took is not paid again by the next size.
                last_s = max(0.0, time.monotonic() - row_begin - row["first_call_us"] / 1e6)
                document["rows"].append(row)
                write(document, options.output)
                print(
                    f"{name:15} {row['size_bytes']:>12} B {row['time_us']:>12.1f} us  algbw {row['algbw_gb_s']:8.3f}"
                    f"  busbw {row['busbw_gb_s']:8.3f} GB/s  wrong {row['wrong']}",
                    flush=True,
                )


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--min-bytes", type=bytes_of, default=bytes_of("4K"), metavar="SIZE")
    parser.add_argument("--max-bytes", type=bytes_of, default=bytes_of("64M"), metavar="SIZE")
    parser.add_argument("--factor", type=int, default=4, help="from one size to the next (default 4)")
    parser.add_argument("--collectives", type=lambda text: text.split(","), default=list(BUS_FACTOR), metavar="A,B")
    parser.add_argument("--dtype", choices=sorted(SIGNIFICAND_BITS), default="float32")
    parser.add_argument("--warmup", type=int, default=5, help="calls before the timed ones")
    parser.add_argument("--iterations", type=int, default=20, help="timed calls at most")
    parser.add_argument(
        "--row-seconds", type=float, default=1.0, help="about this long a size: fewer calls where they are slow"
    )
    parser.add_argument(
        "--budget", type=float, default=120.0, help="seconds for the whole sweep; what it leaves out is said"
    )
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds until a silent rank is given up")
    parser.add_argument("--backend", choices=["auto", "nccl", "gloo"], default="auto")
    parser.add_argument("--seed", type=int, default=None, help="default: random; it is printed")
    parser.add_argument("--output", type=Path, help="write one JSON document here")
    parser.add_argument("--name", default=socket.gethostname(), help="what to call this node; default: its host name")
    parser.add_argument("--progress", type=Path, metavar="DIRECTORY", help="keep there what each rank is doing")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.collectives) - set(BUS_FACTOR))
    if unknown:
        parser.error(f"unknown collective {', '.join(unknown)}; known: {', '.join(BUS_FACTOR)}")
    if options.factor < 2 or options.min_bytes < 1:
        parser.error("--factor must be 2 or more and --min-bytes 1 or more")
    return options


def main() -> int:
    options = parse()
    on_gpu = torch.cuda.is_available() and options.backend != "gloo"
    backend = ("nccl" if on_gpu else "gloo") if options.backend == "auto" else options.backend
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    progress = Progress(options.progress, options.name)
    progress("joining the group")
    patience = timedelta(seconds=options.timeout)
    store, rank, world = next(dist.rendezvous("env://", timeout=patience))
    if (1 << SIGNIFICAND_BITS[options.dtype]) // world < LEAST_MAGNITUDE:
        sys.exit(f"{world} ranks are too many for an exact check in {options.dtype}: use --dtype float32")
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=patience)
    board = Board(store, rank, world, options.timeout, progress)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    told = board.tell({"host": options.name, "device": name, "largest": largest_that_fits(device)})
    # One seed for all, chosen by rank 0; the smallest memory bounds the sizes of everybody.
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    plan = board.decide({"seed": seed, "largest": min(fact["largest"] for fact in told)} if told else None)
    options.seed = plan["seed"]
    document = describe(options, device, backend, told)
    if rank == 0:
        print(f"{backend}, {world} ranks, seed {options.seed}", flush=True)
        if plan["largest"] < options.max_bytes:
            document["left_out"].append({"collective": "all", "from_bytes": plan["largest"], "reason": "free memory"})
    status = 0
    try:
        sweep(options, board, device, document, plan["largest"])
        document["complete"] = True
    except Exception as error:
        document["errors"].append(f"rank {rank} on {options.name}: {type(error).__name__}: {str(error)[:400]}")
        print(document["errors"][-1], file=sys.stderr, flush=True)
        status = 1
    progress("failed" if status else "done")
    if rank == 0:
        write(document, options.output)
    if status == 0:
        dist.barrier()  # nobody leaves while another still needs the store
        dist.destroy_process_group()
    return status


if __name__ == "__main__":
    sys.exit(main())
