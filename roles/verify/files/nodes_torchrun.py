"""torchrun on several nodes, with everything it opens bound to one private address of each node.

    python nodes_torchrun.py --host 10.0.0.11 --address 10.0.0.12 --interface eth1 -- \\
        --nnodes 2 --rdzv-id job1 --nproc-per-node 8 train.py

The same line on every node at about the same time, but for `--address`, the node's own. The node whose address is
`--host` keeps the rendezvous store. torchrun itself would open that store, and gloo its connections, on whatever
address the host name leads to, or on all of them. Behind `--` everything is torchrun's own.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import os

from loopback_torchrun import bind_store


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", required=True, help="private address of the node that keeps the store")
    parser.add_argument("--port", type=int, default=29400, help="port of the store; default: torchrun's own")
    parser.add_argument("--address", required=True, help="private address of this node")
    parser.add_argument("--interface", required=True, help="the interface that has it")
    parser.add_argument("--patience", type=int, default=300, help="seconds to wait for the other nodes")
    parser.add_argument("--one-start", action="store_true", help="no restart is meant: ranks use the rendezvous' store")
    parser.add_argument("torchrun", nargs="+", help="after --")
    return parser.parse_args()


def main() -> None:
    options = parse()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", options.interface)
    # NCCL takes a name for the beginning of one, unless it is told that it is whole.
    os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={options.interface}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # A new store for each start of the group: agents count restarts apart from each other (pytorch issue 135712).
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = str(int(not options.one_start))
    bind_store(options.address)
    from torch.distributed.run import main as torchrun

    keeps = str(options.host == options.address).lower()
    waiting = f"join_timeout={options.patience},read_timeout={options.patience}"
    endpoint = f"[{options.host}]:{options.port}" if ":" in options.host else f"{options.host}:{options.port}"
    place = ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-conf", f"is_host={keeps},{waiting}"]
    torchrun([*place, "--local-addr", options.address, *options.torchrun])


if __name__ == "__main__":
    main()
