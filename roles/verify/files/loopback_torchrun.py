"""torchrun for one node, with its rendezvous store bound to 127.0.0.1 only.

`torchrun --standalone` announces "localhost", but torch's TCPStore binds its port on every
address of the machine. On a rented node with a public address that is an open port. Here the
store is handed a socket that is already bound to the loopback address. Everything else is
torchrun's own: use it with torchrun's arguments.

    python loopback_torchrun.py --nproc-per-node 8 train.py

A torch that cannot take a bound socket falls back to its own and says so on standard error.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import socket
import sys
from typing import Any

LOOPBACK = "127.0.0.1"


def bind_store(address: str) -> None:
    """Replace the TCPStore that torchrun's agent creates by one that listens on this address only."""
    import torch.distributed as dist
    from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend

    store_class = dist.TCPStore

    class BoundStore(store_class):  # type: ignore[misc, valid-type]
        def __init__(
            self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False, **options: Any
        ) -> None:
            if is_master:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                listener = socket.create_server((address, port), family=family, backlog=1024)
                options.update(master_listen_fd=listener.fileno(), multi_tenant=False)
                try:
                    super().__init__(host_name, listener.getsockname()[1], world_size, is_master, **options)
                except TypeError:
                    listener.close()
                    print(
                        f"this torch cannot bind its store to {address}: the port is open on every address",
                        file=sys.stderr,
                    )
                    del options["master_listen_fd"]
                else:
                    listener.detach()  # the store owns the socket now
                    return
            super().__init__(host_name, port, world_size, is_master, **options)

    dist.TCPStore = BoundStore  # type: ignore[misc]
    c10d_rendezvous_backend.TCPStore = BoundStore  # type: ignore[attr-defined]


def main(arguments: list[str]) -> None:
    # Workers talk over loopback too. NCCL leaves loopback out unless it is told to use it.
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(name, "lo")
    # One compute thread a process is torchrun's own default; set here it comes without its warning.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    bind_store(LOOPBACK)
    from torch.distributed.run import main as torchrun

    place = ["--nnodes", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{LOOPBACK}:0", "--local-addr", LOOPBACK]
    torchrun([*place, *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
