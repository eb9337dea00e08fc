"""A small, complete DDP training job: sharded data, fixed seeds, atomic checkpoints, resume.

    torchrun --standalone --nproc-per-node 8 --max-restarts 3 ddp_smoke.py --checkpoint /tmp/smoke.pt

It is meant to be read and copied. ddp_check.py runs it several times and compares the runs.

- Data: `SyntheticDataset`, made from the seed: inputs are random, targets come from a fixed random
  "teacher" network without noise, so a student network really learns and the loss really falls.
- Sharding: DistributedSampler deals a shuffled list out to the ranks, rank r gets every n-th sample.
  Where the data set does not divide by n it repeats the first samples of the list, so that every rank
  has equally many; ranks therefore always have batches of equal size, and the mean over ranks of the
  ranks' mean gradients (what DDP computes) is the mean over the global batch.
- One process can stand in for n (`--emulate-ranks n`): it takes the batches that the n ranks would
  have taken and joins them. Its steps must equal those of n ranks but for rounding.
- Arithmetic is float64 by default: rounding is then about 1e-16, and any real fault stands out.
- A group that torchrun starts again gets its own names in torchrun's store (see `join`).
- Checkpoints hold model, optimizer and step. They are written beside the old one and renamed: a kill at
  any moment leaves a whole file. Each node's first rank writes one, because after a restart rank 0 may be
  on another node and there need be no directory that all see; rank 0 reads its own and broadcasts it.
  The order of samples follows from seed and epoch alone, and the steps draw no random number, so no
  generator state has to be kept; with dropout it would have to.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

FEATURES, HIDDEN = 16, 32


class SyntheticDataset(Dataset):  # type: ignore[type-arg]
    """Random inputs, targets from a teacher network; each item knows its index."""

    def __init__(self, size: int, seed: int, dtype: torch.dtype) -> None:
        # float64 on the CPU first: the same numbers on every device and for every dtype.
        generator = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(size, FEATURES, generator=generator, dtype=torch.float64)
        first = torch.randn(FEATURES, 8, generator=generator, dtype=torch.float64) / FEATURES**0.5
        second = torch.randn(8, 1, generator=generator, dtype=torch.float64)
        self.targets = torch.tanh(self.inputs @ first) @ second
        self.inputs, self.targets = self.inputs.to(dtype), self.targets.to(dtype)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        return self.inputs[index], self.targets[index], index


class Recorder:
    """Appends what happens to one file a rank, line by line, so that a kill loses nothing."""

    def __init__(self, directory: Path | None, rank: int) -> None:
        self.stream = None
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            self.stream = (directory / f"rank-{rank}.jsonl").open("a", encoding="utf-8")

    def write(self, **fact: Any) -> None:
        if self.stream is not None:
            self.stream.write(json.dumps(fact) + "\n")
            self.stream.flush()


def make_model(seed: int, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """Every rank builds the same weights from the seed (DDP would broadcast rank 0's anyway)."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)).to(device=device, dtype=dtype)


def save(path: Path, state: dict[str, Any]) -> None:
    """Replace the checkpoint in one step; what is on disk is always whole."""
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as stream:
        torch.save(state, stream)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)


def load(path: Path | None, rank: int) -> dict[str, Any] | None:
    """Rank 0 reads the checkpoint, all ranks get it; None where there is none yet."""
    content = [path.read_bytes() if rank == 0 and path is not None and path.exists() else None]
    dist.broadcast_object_list(content, src=0)
    if content[0] is None:
        return None
    state: dict[str, Any] = torch.load(io.BytesIO(content[0]), map_location="cpu", weights_only=True)
    return state


def flat(tensors: Iterator[torch.Tensor]) -> list[float]:
    return torch.cat([tensor.detach().reshape(-1).to("cpu", torch.float64) for tensor in tensors]).tolist()  # type: ignore[no-any-return]


def gradients(model: nn.Module) -> list[float]:
    return flat(parameter.grad for parameter in model.parameters() if parameter.grad is not None)


class Training:
    """Model, data and optimizer of one rank, and the loop over them."""

    def __init__(self, options: argparse.Namespace, device: torch.device, recorder: Recorder) -> None:
        self.options, self.device, self.recorder = options, device, recorder
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        dtype = getattr(torch, options.dtype)
        dataset = SyntheticDataset(options.dataset_size, options.seed, dtype)
        # The ranks whose batches this process takes: its own, or all of them when it stands in for them.
        shards = range(options.emulate_ranks) if options.emulate_ranks else [self.rank]
        replicas = options.emulate_ranks or self.world
        self.loaders = [
            DataLoader(
                dataset,
                batch_size=options.batch_per_rank,
                sampler=DistributedSampler(dataset, num_replicas=replicas, rank=shard, shuffle=True, seed=options.seed),
            )
            for shard in shards
        ]
        self.steps_per_epoch = len(self.loaders[0])
        local = make_model(options.seed, device, dtype)
        self.model = DistributedDataParallel(local, device_ids=[device.index] if device.type == "cuda" else None)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=options.learning_rate, momentum=0.9)
        self.step = 0

    def resume(self) -> None:
        state = load(self.options.checkpoint, self.rank)
        if state is not None:
            self.model.module.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step = state["step"]
        self.recorder.write(
            event="start",
            pid=os.getpid(),
            host=socket.gethostname(),
            restart=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
            resumed_at_step=self.step,
            steps_per_epoch=self.steps_per_epoch,
        )

    def checkpoint(self) -> None:
        if self.options.checkpoint is None or self.step % self.options.checkpoint_every:
            return
        if os.environ.get("LOCAL_RANK", "0") == "0":
            model, optimizer = self.model.module.state_dict(), self.optimizer.state_dict()
            save(self.options.checkpoint, {"model": model, "optimizer": optimizer, "step": self.step})
        dist.barrier()  # nobody trains past a checkpoint that may not exist yet

    def batches(self, epoch: int, skip: int) -> Iterator[list[torch.Tensor]]:
        """Yield this epoch's batches from the given one on."""
        for loader in self.loaders:
            loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]  # else every epoch has the same order
        for parts in itertools.islice(zip(*self.loaders), skip, None):
            yield [torch.cat(column) for column in zip(*parts)]

    def train_step(self, batch: list[torch.Tensor], epoch: int) -> None:
        inputs, targets, indices = batch
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(inputs.to(self.device)), targets.to(self.device))
        loss.backward()  # DDP averages the gradients over the ranks in here
        mean_loss = loss.detach().clone()
        dist.all_reduce(mean_loss)
        facts: dict[str, Any] = {"loss": mean_loss.item() / self.world, "indices": indices.tolist()}
        if self.step == 0 or self.step + 1 == self.options.epochs * self.steps_per_epoch:
            facts["gradients"] = gradients(self.model)
        self.optimizer.step()
        self.step += 1
        self.recorder.write(event="step", step=self.step, epoch=epoch, **facts)

    def run(self) -> None:
        self.resume()
        for epoch in range(self.step // self.steps_per_epoch, self.options.epochs):
            for batch in self.batches(epoch, skip=self.step % self.steps_per_epoch):
                begin = time.perf_counter()
                self.train_step(batch, epoch)
                self.checkpoint()
                time.sleep(max(0.0, self.options.step_seconds - (time.perf_counter() - begin)))
        self.recorder.write(event="trained", step=self.step, parameters=flat(self.model.parameters()))


def throughput(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Time steps of a model large enough that arithmetic and gradient exchange both count (weak scaling)."""
    torch.manual_seed(options.seed)
    width = options.throughput_width
    layers = [layer for _ in range(3) for layer in (nn.Linear(width, width), nn.ReLU())]
    model = DistributedDataParallel(
        nn.Sequential(*layers).to(device), device_ids=[device.index] if device.type == "cuda" else None
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(options.throughput_batch, width, device=device)

    def steps(count: int) -> float:
        """Return the seconds that the slowest rank needed."""
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = torch.tensor(time.perf_counter() - begin, device=device)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        return float(seconds.item())

    steps(3)
    # Every rank computes the same number from the same shared time.
    count = max(3, min(1000, int(options.throughput_seconds / max(steps(2) / 2, 1e-6))))
    seconds = steps(count)
    return {
        "samples_per_s": count * options.throughput_batch * dist.get_world_size() / seconds,
        "steps": count,
        "seconds": seconds,
        "batch_per_rank": options.throughput_batch,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def share(directory: Path) -> None:
    """Give every node what all ranks recorded: there is no directory that all of them see."""
    files: list[Any] = [None] * dist.get_world_size()
    node = os.environ["GROUP_RANK"]
    own = (directory / f"rank-{dist.get_rank()}.jsonl").read_text(encoding="utf-8")
    dist.all_gather_object(files, (node, own))
    if os.environ["LOCAL_RANK"] == "0":
        for rank, (its_node, text) in enumerate(files):
            if its_node != node:
                # Appended: before a restart that rank may have been on this node.
                with (directory / f"rank-{rank}.jsonl").open("a", encoding="utf-8") as stream:
                    stream.write(text)


def versions() -> dict[str, Any]:
    nccl = torch.cuda.nccl.version() if torch.cuda.is_available() else None
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": ".".join(map(str, nccl)) if isinstance(nccl, tuple) else nccl,
    }


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    # A prime: it divides by no number of ranks, so the sampler's padding is always exercised.
    parser.add_argument("--dataset-size", type=int, default=1009)
    parser.add_argument("--batch-per-rank", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint", type=Path, help="resume from here if it exists, and keep it up to date")
    parser.add_argument("--checkpoint-every", type=int, default=5, metavar="STEPS")
    parser.add_argument(
        "--emulate-ranks", type=int, default=0, metavar="N", help="one process takes the batches of N ranks"
    )
    parser.add_argument(
        "--record", type=Path, metavar="DIRECTORY", help="write rank-<r>.jsonl: losses, sample indices, parameters"
    )
    parser.add_argument("--share", action="store_true", help="afterwards give every node the record of all ranks")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="let a step take at least this long")
    parser.add_argument(
        "--throughput-seconds", type=float, default=0.0, help="afterwards time a larger model for about this long"
    )
    parser.add_argument("--throughput-width", type=int, default=512)
    parser.add_argument("--throughput-batch", type=int, default=128, metavar="PER_RANK")
    parser.add_argument("--backend", choices=["auto", "nccl", "gloo"], default="auto")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds until a silent rank is given up")
    return parser.parse_args(arguments)


def own_store(rank: int, world: int, timeout: timedelta) -> dist.Store:
    """The store of a job whose ranks make it themselves: torch's own would listen on every address of rank 0's node."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank:
        return dist.TCPStore(address, port, world, is_master=False, timeout=timeout)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, port), family=family, backlog=1024)
    # The store owns the socket from here on.
    return dist.TCPStore(
        address,
        port,
        world,
        is_master=True,
        timeout=timeout,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )


def join(backend: str, timeout: timedelta) -> None:
    """Form the group of ranks, with names of its own in the store for each start of the group.

    torchrun keeps one store for all its restarts. What the killed group left in there (addresses, NCCL's id) would
    otherwise be taken for the new group's, and ranks would wait for processes that are gone (pytorch issue 135712,
    seen often with torchrun of torch 2.13). On several nodes the agents count restarts apart from each other, so
    there let torchrun make a new store each time: TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1.
    """
    one_node = os.environ.get("GROUP_WORLD_SIZE", "1") == "1"
    if not one_node and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "False":
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = own_store(rank, world, timeout)
    else:
        store, rank, world = next(dist.rendezvous("env://", timeout=timeout))
    if one_node:
        store = dist.PrefixStore(f"start-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timeout)


def main() -> int:
    options = parse()
    on_gpu = torch.cuda.is_available() and options.backend != "gloo"
    backend = ("nccl" if on_gpu else "gloo") if options.backend == "auto" else options.backend
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    join(backend, timedelta(seconds=options.timeout))
    if options.emulate_ranks and dist.get_world_size() != 1:
        sys.exit("--emulate-ranks is for a single process")
    recorder = Recorder(options.record, dist.get_rank())
    Training(options, device, recorder).run()
    if options.throughput_seconds:
        recorder.write(event="throughput", **throughput(options, device))
    recorder.write(event="end", backend=backend, ranks=dist.get_world_size(), versions=versions())
    if options.share and options.record:
        share(options.record)
    dist.barrier()  # nobody leaves while another still needs the store
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
