"""Prove that distributed training on this machine is right: run ddp_smoke.py three times and compare.

1. one:      one process takes the full global batch of n ranks
2. unbroken: n ranks                                             -> same losses, gradients, parameters as 1;
                                                                    every sample is visited; the loss falls
3. killed:   n ranks, one worker is killed (SIGKILL) at a random step; torchrun starts the group again,
             it resumes from its checkpoint                      -> same losses and parameters as 2

Over several nodes (`--nodes`) each of them runs 1 by itself, then 2 and 3 with the others. The seed says which rank is
killed, and the node that has it does it.

Runs 1 and 2 also time a larger model, for samples/s and scaling. This program measures and writes one
JSON document; what is good enough is judged elsewhere (the differences stand beside their scale).

    python ddp_check.py --nproc 8 --output ddp.json

Standard library only; the ranks need torch. Nothing is left running, whatever happens.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import bounded

HERE = Path(__file__).resolve().parent
GLOBAL_BATCH = 64  # shared out to the ranks; at least one sample each
EPOCHS = 4
CHECKPOINT_EVERY = 5  # steps
KILL_STEP_SECONDS = 0.05  # the run to be killed takes steps this long, so that the kill can fall anywhere in one


class Run:
    """What the ranks of one run recorded."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ranks: dict[int, list[dict[str, Any]]] = {}

    def read(self) -> Run:
        for path in sorted(self.directory.glob("rank-*.jsonl")):
            events = []
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    events.append(json.loads(line))
                except json.JSONDecodeError:
                    continue  # the last line of a killed worker, or one being written right now
            self.ranks[int(path.stem.rpartition("-")[2])] = events
        return self

    def events(self, kind: str, rank: int = 0) -> list[dict[str, Any]]:
        return [event for event in self.ranks.get(rank, []) if event["event"] == kind]

    def steps(self, rank: int = 0) -> dict[int, dict[str, Any]]:
        """Return the steps by number; after a restart the later account counts."""
        return {event["step"]: event for event in self.events("step", rank)}

    def losses(self) -> list[float]:
        steps = self.steps()
        return [steps[step]["loss"] for step in sorted(steps)]

    def last(self, kind: str, rank: int = 0) -> dict[str, Any]:
        return (self.events(kind, rank) or [{}])[-1]


class Killer:
    """Kills one worker from outside as soon as it has done the planned step; called while the run goes on.

    It also writes that down with what the worker recorded, so that every node learns it. Where the rank is another
    node's it does nothing.
    """

    def __init__(self, directory: Path, rank: int, step: int) -> None:
        self.directory, self.rank, self.step = directory, rank, step
        self.killed: dict[str, Any] | None = None

    def __call__(self) -> None:
        if self.killed is not None:
            return
        run = Run(self.directory).read()
        done, start = run.last("step", self.rank), run.last("start", self.rank)
        if start and done.get("step", 0) >= self.step and self.is_ours(start["pid"]):
            os.kill(start["pid"], signal.SIGKILL)
            # On a busy machine it did more steps between the look and the kill.
            done = Run(self.directory).read().last("step", self.rank)
            self.killed = {"rank": self.rank, "pid": start["pid"], "after_step": done["step"]}
            with (self.directory / f"rank-{self.rank}.jsonl").open("a", encoding="utf-8") as stream:
                # The worker may have died in the middle of a line.
                stream.write("\n" + json.dumps({"event": "killed", **self.killed}) + "\n")

    def is_ours(self, pid: int) -> bool:
        """Whether a process records into this run's directory: the number may be one of another node's."""
        try:
            return str(self.directory).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False


def finite(number: float) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return number if math.isfinite(number) else None


def difference(left: list[float], right: list[float]) -> dict[str, float | None]:
    """Return the largest difference between two vectors, and how large their elements are."""
    if not left or len(left) != len(right):
        return {"max_difference": None, "scale": None, "relative": None}
    largest = max(abs(a - b) for a, b in zip(left, right))
    scale = max(abs(a) for a in left)
    if finite(largest) is None or finite(scale) is None:  # nothing is known to be equal
        return {"max_difference": None, "scale": None, "relative": None}
    return {"max_difference": largest, "scale": scale, "relative": largest / scale if scale else largest}


def equality(one: Run, many: Run) -> dict[str, Any]:
    """Compare n ranks with one process over the same global batches."""
    first, last = min(many.steps(), default=0), max(many.steps(), default=0)

    def gradient(run: Run, step: int, rank: int = 0) -> list[float]:
        return run.steps(rank).get(step, {}).get("gradients", [])

    parameters = many.last("trained").get("parameters", [])
    among = [difference(parameters, many.last("trained", rank).get("parameters", [])) for rank in sorted(many.ranks)]
    worst = max(
        among, key=lambda item: math.inf if item["relative"] is None else item["relative"], default=difference([], [])
    )
    return {
        "losses": difference(one.losses(), many.losses()),
        "gradients_first_step": difference(gradient(one, first), gradient(many, first)),
        "gradients_last_step": difference(gradient(one, last), gradient(many, last)),
        "parameters": difference(one.last("trained").get("parameters", []), parameters),
        "parameters_between_ranks": worst,
    }


def indices(run: Run, ranks: int, dataset_size: int) -> list[dict[str, Any]]:
    """Count, epoch by epoch, how often each sample was visited by any rank.

    DistributedSampler pads to the next multiple of the ranks by repeating samples from the start of
    the shuffled list: so many visits are repeats by rule, and none twice over.
    """
    visits: dict[int, Counter[int]] = {}
    for rank in run.ranks:
        for step in run.steps(rank).values():
            visits.setdefault(step["epoch"], Counter()).update(step["indices"])
    padding = math.ceil(dataset_size / ranks) * ranks - dataset_size
    rows = []
    for epoch in sorted(visits):
        missing = sorted(set(range(dataset_size)) - set(visits[epoch]))
        rows.append(
            {
                "epoch": epoch,
                "visited": len(visits[epoch]),
                "missing": len(missing),
                "missing_examples": missing[:10],
                "repeats": sum(visits[epoch].values()) - len(visits[epoch]),
                "repeats_by_rule": padding,
            }
        )
    return rows


def resume(killed: dict[str, Any] | None, broken: Run, unbroken: Run, planned: int, every: int) -> dict[str, Any]:
    """Compare the run that lost a worker with the one that did not."""
    starts = broken.events("start")
    return {
        "planned_step": planned,
        "killed": killed,
        # A node whose workers are well counts none when it begins again with the others.
        "restarts": max([len(starts) - 1, *(start["restart"] for start in starts)]) if starts else 0,
        "resumed_at_step": starts[-1]["resumed_at_step"] if len(starts) > 1 else None,
        "checkpoint_every": every,
        "steps": len(broken.steps()),
        "steps_unbroken": len(unbroken.steps()),
        "losses": difference(unbroken.losses(), broken.losses()),
        "parameters": difference(
            unbroken.last("trained").get("parameters", []), broken.last("trained").get("parameters", [])
        ),
    }


def scaling(one: dict[str, Any], many: dict[str, Any], ranks: int) -> dict[str, Any]:
    """Say how much faster n ranks are than one, each with a batch of the same size (weak scaling)."""
    single, several = one.get("samples_per_s"), many.get("samples_per_s")
    return {
        "samples_per_s_one": single,
        "samples_per_s": several,
        "scaling_efficiency": several / (ranks * single) if single and several else None,
        "batch_per_rank": many.get("batch_per_rank"),
        "parameters": many.get("parameters"),
    }


def switches(options: dict[str, object]) -> list[str]:
    """Turn {name: value} into --name=value."""
    return [f"--{name}={value}" for name, value in options.items()]


class Check:
    """The three runs, inside one time budget."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self.options, self.directory = options, directory
        self.end = time.monotonic() + options.budget
        self.ranks = options.all_ranks or options.nproc
        self.batch = max(1, GLOBAL_BATCH // self.ranks)
        self.document: dict[str, Any] = {
            "schema": 1,
            "script": "ddp_check",
            "backend": None,
            "nodes": options.nodes,
            "ranks": self.ranks,
            "seed": options.seed,
            "runs": {},
            "errors": [],
            "complete": False,
        }

    def launcher(self, together: bool, name: str) -> list[str]:
        """Return the launcher of one node or, for a run with the other nodes, the one that waits for them."""
        options = self.options
        if not together:
            return [str(HERE / "loopback_torchrun.py")]
        place: dict[str, object] = {
            "host": options.host,
            "port": options.port,
            "address": options.address,
            "interface": options.interface,
            "patience": math.ceil(options.budget),
        }
        job: dict[str, object] = {"nnodes": options.nodes, "rdzv-id": f"{options.seed}-{name}"}
        return [str(HERE / "nodes_torchrun.py"), *switches(place), "--", *switches(job)]

    def start(
        self, name: str, ranks: int, arguments: list[str], killer: Killer | None = None, together: bool = False
    ) -> Run:
        """Run ddp_smoke.py once under torchrun and read what it recorded; `ranks`: on this node."""
        options = self.options
        record = self.directory / name
        launcher = {"nproc-per-node": ranks, "monitor-interval": 0.1, "max-restarts": 3 if killer else 0}
        smoke = {
            "record": record,
            "seed": options.seed,
            "backend": options.backend,
            "epochs": EPOCHS,
            "batch-per-rank": self.batch,
            "dataset-size": options.dataset_size,
        }
        command = [options.python, *self.launcher(together, name), *switches(launcher)]
        command += [str(options.smoke), *switches(smoke), *arguments]
        seconds = self.end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError(f"{name}: the time budget of {options.budget:.0f} s was used up before it began")
        print(f"{name}: {ranks} rank{'s' if ranks > 1 else ''} ...", flush=True)
        outcome = bounded.run(command, seconds, self.directory / f"{name}.log", on_poll=killer)
        self.document["runs"][name] = asdict(outcome)
        print(f"{name}: {outcome.elapsed_s:.1f} s, exit status {outcome.rc}", flush=True)
        if outcome.timed_out:
            raise TimeoutError(f"{name}: not done within the time budget of {options.budget:.0f} s")
        if outcome.rc:
            raise RuntimeError(f"{name}: torchrun ended with exit status {outcome.rc}")
        return Run(record).read()

    def compare(self, one: Run, many: Run) -> None:
        """Write down what the unbroken runs say."""
        end, losses = many.last("end"), many.losses()
        self.document.update(
            backend=end.get("backend"),
            versions=end.get("versions"),
            hosts=[many.last("start", rank).get("host") for rank in sorted(many.ranks)],
            ranks=len(many.ranks),
            dataset_size=self.options.dataset_size,
            global_batch=self.batch * self.ranks,
            steps=len(losses),
            loss_first=finite(losses[0]) if losses else None,
            loss_last=finite(losses[-1]) if losses else None,
            equality=equality(one, many),
            indices=indices(many, self.ranks, self.options.dataset_size),
            scaling=scaling(one.last("throughput"), many.last("throughput"), self.ranks),
        )

    def kill_and_compare(self, unbroken: Run, together: bool = False) -> None:
        """Run once more, kill a worker on the way, and write down where the run arrives."""
        # Anywhere but in the first steps, before there is a checkpoint, and the last ones.
        chance = random.Random(self.options.seed)
        planned = chance.randrange(
            CHECKPOINT_EVERY + 1, max(CHECKPOINT_EVERY + 2, len(unbroken.steps()) - CHECKPOINT_EVERY)
        )
        victim = chance.randrange(self.ranks)
        print(f"killed: rank {victim} will be killed after step {planned}", flush=True)
        killer = Killer(self.directory / "killed", victim, planned)
        keep = {
            "checkpoint": self.directory / "checkpoint.pt",
            "checkpoint-every": CHECKPOINT_EVERY,
            "step-seconds": KILL_STEP_SECONDS,
        }
        shared = ["--share"] if together else []
        broken = self.start("killed", self.options.nproc, [*switches(keep), *shared], killer, together)
        told = {key: value for key, value in broken.last("killed", victim).items() if key != "event"}
        self.document["resume"] = resume(told or None, broken, unbroken, planned, CHECKPOINT_EVERY)

    def go(self) -> None:
        """Do all three runs."""
        options = self.options
        speed: dict[str, object] = {"throughput-seconds": options.throughput_seconds}
        if options.throughput_width:
            speed.update({"throughput-width": options.throughput_width, "throughput-batch": options.throughput_batch})
        several = options.nodes > 1
        one = self.start("one", 1, switches({"emulate-ranks": self.ranks, **speed}))
        shared = ["--share"] if several else []
        many = self.start("unbroken", options.nproc, [*switches(speed), *shared], together=several)
        self.compare(one, many)
        self.kill_and_compare(many, several)
        self.document["complete"] = True


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nproc", type=int, required=True, help="ranks: GPUs, or processes without")
    parser.add_argument("--budget", type=float, default=180.0, help="seconds for everything")
    parser.add_argument("--backend", choices=["auto", "nccl", "gloo"], default="auto")
    parser.add_argument("--seed", type=int, help="default: random; it is printed")
    parser.add_argument("--dataset-size", type=int, default=1009)
    parser.add_argument("--throughput-seconds", type=float, default=1.5)
    parser.add_argument("--throughput-width", type=int, default=0, help="default: ddp_smoke.py's own, right for CPUs")
    parser.add_argument(
        "--throughput-batch", type=int, default=4096, metavar="PER_RANK", help="with --throughput-width"
    )
    parser.add_argument("--python", default=sys.executable, help="interpreter of the ranks; default: this one")
    parser.add_argument("--smoke", type=Path, default=HERE / "ddp_smoke.py", help="the training script")
    parser.add_argument("--output", type=Path, help="write one JSON document here")
    nodes = parser.add_argument_group("over several nodes", "the same on each at about the same time, --seed too")
    nodes.add_argument("--nodes", type=int, default=1)
    nodes.add_argument("--all-ranks", type=int, default=0, help="ranks of all nodes together")
    nodes.add_argument("--host", help="private address of the node that keeps the rendezvous store")
    nodes.add_argument("--port", type=int, default=29400, help="port of that store")
    nodes.add_argument("--address", help="private address of this node")
    nodes.add_argument("--interface", help="the interface that has it")
    options = parser.parse_args()
    if options.nproc < 1:
        parser.error("--nproc must be 1 or more")
    needed = ("all_ranks", "host", "address", "interface", "seed")
    if options.nodes > 1 and None in [getattr(options, name) or None for name in needed]:
        parser.error("--nodes needs --all-ranks, --host, --address, --interface and --seed")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(2**31)
    return options


def main() -> int:
    options = parse()
    bounded.stop_on_signals()
    print(f"seed {options.seed}", flush=True)
    status = 0
    with tempfile.TemporaryDirectory(prefix="trainrig-ddp-") as directory:
        check = Check(options, Path(directory))
        try:
            check.go()
        except (TimeoutError, RuntimeError, OSError) as error:
            name = str(error).partition(":")[0]
            tail = check.document["runs"].get(name, {}).get("tail", [])
            kind = "timeout" if isinstance(error, TimeoutError) else "error"
            check.document["errors"].append({"run": name, "kind": kind, "text": str(error), "tail": tail})
            print(f"{error}", file=sys.stderr, flush=True)
            status = 1
    if options.output:
        beside = options.output.with_name(options.output.name + ".new")
        beside.write_text(json.dumps(check.document, indent=1), encoding="utf-8")
        beside.replace(options.output)
    return status


if __name__ == "__main__":
    sys.exit(main())
