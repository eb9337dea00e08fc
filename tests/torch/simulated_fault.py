"""Runs one of the role's torchrun scripts with a planted fault: simulated_fault.py SCRIPT ARGUMENTS...

SIMULATED_FAULT names it. Each is something that really happens: a flipped bit in a collective's result, a rank that
hangs, a rank whose gradient is off, optimizer steps without effect, two ranks that train on the same shard, a
checkpoint with the wrong step.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

FAULT = os.environ["SIMULATED_FAULT"]
RANK = int(os.environ["RANK"])


def load(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def corrupt(module):
    """Rank 1 finds one bit of one element flipped, once a collective: at the first call of the second size."""
    healthy, seen = module.Case.call, {}

    def call(case):
        healthy(case)
        sizes = seen.setdefault(case.name, [])
        if case.size_bytes not in sizes:
            sizes.append(case.size_bytes)
            if RANK == 1 and len(sizes) == 2:
                case.receive.view(torch.int32)[case.count // 2] ^= 1  # the lowest bit of the mantissa

    module.Case.call = call


def hang(module):
    """Rank 1 never comes to the third collective."""
    healthy = module.Case.call

    def call(case):
        if RANK == 1 and case.name == "reduce_scatter":
            time.sleep(3600)
        healthy(case)

    module.Case.call = call


def gradient(module):
    """Rank 1's gradient of one parameter tensor is off by a thousandth."""
    healthy = module.make_model

    def make_model(*arguments):
        model = healthy(*arguments)
        if RANK == 1:
            next(model.parameters()).register_hook(lambda grad: grad * 1.001)
        return model

    module.make_model = make_model


def drift(module):
    """Rank 1's optimizer adds a little of its own."""
    healthy = torch.optim.SGD.step

    def step(optimizer, *arguments, **options):
        healthy(optimizer, *arguments, **options)
        if RANK == 1:
            with torch.no_grad():
                optimizer.param_groups[0]["params"][0].add_(1e-6)

    torch.optim.SGD.step = step


def still(module):
    """The optimizer's steps have no effect."""
    torch.optim.SGD.step = lambda optimizer, *arguments, **options: None


def same_shard(module):
    """Every rank takes rank 0's samples."""
    healthy = module.DistributedSampler
    module.DistributedSampler = lambda *arguments, **options: healthy(*arguments, **{**options, "rank": 0})


def wrong_step(module):
    """The checkpoint says it is three steps further than its weights are."""
    healthy = module.load

    def load_later(*arguments):
        state = healthy(*arguments)
        return state and {**state, "step": state["step"] + 3}

    module.load = load_later


def no_momentum(module):
    """The checkpoint is loaded without the optimizer's state."""
    torch.optim.SGD.load_state_dict = lambda optimizer, state: None


def forgets(module):
    """The checkpoint is not read."""
    module.load = lambda *arguments: None


def main():
    path = sys.argv[1]
    # ddp_check.py hands over its own arguments only, so the script may also be named in the environment.
    if not path.endswith(".py"):
        path = os.environ["SIMULATED_FAULT_SCRIPT"]
    else:
        del sys.argv[1]
    module = load(path)
    globals()[FAULT](module)
    assert dist.is_available()
    return module.main()


if __name__ == "__main__":
    sys.exit(main())
