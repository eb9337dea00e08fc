"""This node's part of a measurement by a group of nodes; says on standard output, in one line of JSON, how it went.

    python group_run.py --seconds 60 --host 10.0.0.11 --address 10.0.0.12 --interface eth1 --nodes 2 --nproc 8 \\
        --id round-1 --name node-2 -- --collectives all_reduce --min-bytes 1G --max-bytes 1G

The same line on every node of the group at about the same time, but for `--address`, `--interface` and `--name`.
Behind `--` are options of collectives.py, which torchrun starts on all of them. With `--launcher mpi` the node whose
address is `--host` has mpirun start the programs behind `--` on all (see mpi_access.py); the others look after them.

Beside the result it says what tells the one who is to blame: what each rank of this node was doing when it was last
seen, whether that process was stopped, and whether the node that keeps the store could be reached at all.
Standard library only. Nothing is left running.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import contextlib
import errno
import json
import math
import os
import select
import shlex
import socket
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import bounded

HERE = Path(__file__).resolve().parent
LOOK_EVERY_S = 0.5
KNOCK_S = 3.0  # an answer takes no longer on a network that is any good
#: Parts of the time: until a silent rank is given up, until a node is whose kernel does not even refuse.
SILENT_RANK, SILENT_NODE = 0.6, 0.3
KEPT_TEXT = 256 * 1024
#: What the launcher may take to end everything, and from the end of one program to the start of the next.
TO_END_S, BETWEEN_PROGRAMS_S = 10.0, 8.0


class Door:
    """Tries whether the node that keeps the store lets this one in, until it once did; called while the job runs."""

    def __init__(self, host: str, port: int, patience_s: float) -> None:
        self.target, self.end = (host, port), time.monotonic() + patience_s
        self.state, self.error = "silent", "no answer"
        self.socket: socket.socket | None = None
        self.since = 0.0

    def knock(self) -> None:
        family = socket.AF_INET6 if ":" in self.target[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.since = time.monotonic()
        self.socket.connect_ex(self.target)

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def __call__(self) -> None:
        if self.state == "reached":
            return
        if self.socket is None:
            if time.monotonic() - self.since >= LOOK_EVERY_S:
                self.knock()
            return
        if select.select([], [self.socket], [], 0)[1]:
            code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            self.state = "reached" if code == 0 else "refused" if code == errno.ECONNREFUSED else "silent"
            self.error = os.strerror(code) if code else ""
            self.close()
        elif time.monotonic() - self.since > KNOCK_S:
            self.state, self.error = "silent", "no answer"
            self.close()
        if self.state == "silent" and time.monotonic() > self.end:
            raise TimeoutError(f"{self.target[0]} port {self.target[1]}: {self.error}")


class Watch:
    """Keeps what each rank of this node says it is doing, and the state of its process."""

    def __init__(self, directory: Path, name: str, mark: str) -> None:
        self.directory, self.name, self.mark = directory, name, mark
        self.ranks_now = 0
        self.ranks: dict[int, dict[str, Any]] = {}
        self.next_look = 0.0

    def look(self) -> None:
        for path in self.directory.glob("rank-*.json"):
            with contextlib.suppress(OSError, ValueError):
                fact = json.loads(path.read_text(encoding="utf-8"))
                known = self.ranks.get(fact["rank"], {})
                self.ranks[fact["rank"]] = {**fact, "state": state_of(fact["pid"]) or known.get("state")}

    def look_for(self, mark: str) -> None:
        """Find the ranks of an MPI job, which write nothing down, by what they carry."""
        self.ranks_now = 0
        for pid in bounded.members(mark):
            rank = rank_of(pid)
            if rank is not None:
                self.ranks_now += 1
                fact = {"rank": rank, "host": self.name, "pid": pid, "step": 1, "doing": "running"}
                self.ranks[rank] = {**fact, "state": state_of(pid)}

    def __call__(self) -> None:
        if time.monotonic() >= self.next_look:
            self.next_look = time.monotonic() + LOOK_EVERY_S
            if self.mark:
                self.look_for(self.mark)
            self.look()


def rank_of(pid: int) -> int | None:
    """The rank of an MPI process, as its launcher told it."""
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name in (b"OMPI_COMM_WORLD_RANK", b"PMIX_RANK") and value.isdigit():
                return int(value)
    return None


def state_of(pid: int) -> str | None:
    """The kernel's letter for the state of a process: T is stopped, D waits for a device."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return None


class Part:
    """What this node does for its group."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self.options, self.directory = options, directory
        self.end = time.monotonic() + options.seconds
        self.watch = Watch(directory / "progress", options.name, options.id if options.launcher == "mpi" else "")
        self.watch.directory.mkdir()
        self.keeps = options.host == options.address
        self.door = Door(options.host, options.port, options.seconds * SILENT_NODE)
        self.follow = bounded.Follower() if options.follow else None
        self.document: dict[str, Any] = {
            "schema": 1, "script": "group_run", "name": options.name, "launcher": options.launcher,
            "run": None, "document": None, "texts": [], "progress": [], "door": None, "errors": [],
        }  # fmt: skip

    def poll(self) -> None:
        if self.follow:
            self.follow()
        self.watch()
        if not self.keeps:
            self.door()

    def torchrun(self) -> None:
        options, output = self.options, self.directory / "collectives.json"
        place = [f"--host={options.host}", f"--port={options.port}", f"--address={options.address}"]
        place += [f"--interface={options.interface}", f"--patience={math.ceil(options.seconds)}", "--one-start", "--"]
        job = [f"--nnodes={options.nodes}", f"--rdzv-id={options.id}", f"--nproc-per-node={options.nproc}"]
        told = [f"--name={options.name}", f"--progress={self.watch.directory}", f"--output={output}"]
        told += [f"--timeout={options.seconds * SILENT_RANK:.0f}"]
        command = [options.python, str(HERE / "nodes_torchrun.py"), *place, *job, "--monitor-interval=0.5"]
        log = self.run([*command, str(options.script), *told, *options.command], nccl_environment())
        with contextlib.suppress(OSError):
            lines = [
                line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if " NCCL " in line
            ]
            self.document["nccl_log"] = "\n".join(lines)[:KEPT_TEXT]
        with contextlib.suppress(OSError, ValueError):
            self.document["document"] = json.loads(output.read_text(encoding="utf-8"))

    def mpirun(self) -> None:
        """One program after the other: `all_reduce_perf,all_gather_perf` and then the options of each."""
        options = self.options
        if not self.keeps:
            self.attend()
            return
        names, *arguments = options.command
        for name in names.split(","):
            program = str(Path(options.programs) / name)
            command = [*mpirun(options, self.end - time.monotonic()), program, *arguments]
            log = self.run(command, mpi_environment(options), name)
            text = log.read_text(encoding="utf-8", errors="replace")[-KEPT_TEXT:] if log.exists() else ""
            self.document["texts"].append({"program": name, "rc": self.document["run"]["rc"], "text": text})
            if self.document["errors"]:
                break

    def attend(self) -> None:
        """Another node starts this node's ranks: see what they do, and that none of them stays."""
        ranks = self.watch
        begin = last = time.monotonic()
        while time.monotonic() < self.end + TO_END_S:
            if self.follow:
                self.follow()
            ranks.look_for(self.options.id)
            if ranks.ranks_now:
                last = time.monotonic()
            quiet = time.monotonic() - last
            patience = BETWEEN_PROGRAMS_S if ranks.ranks else self.options.seconds * SILENT_NODE
            if quiet > max(patience, BETWEEN_PROGRAMS_S):
                break
            time.sleep(LOOK_EVERY_S)
        left = bounded.stop(self.options.id, 3.0)
        self.document["run"] = {"command": [], "rc": 0, "tail": [], "listening": [], "left_running": left}
        self.document["waited_s"] = round(time.monotonic() - begin, 3)

    def run(self, command: list[str], env: dict[str, str] | None = None, name: str = "torchrun") -> Path:
        log = self.directory / f"{Path(name).name}.log"
        seconds = self.end - time.monotonic()
        if seconds <= 0:
            self.error("timeout", f"the time budget of {self.options.seconds:.0f} s was used up before {name} began")
            return log
        try:
            outcome = bounded.run(command, seconds, log, env=env, on_poll=self.poll)
        except TimeoutError as error:
            self.document["run"] = {"command": command, "rc": bounded.TIMED_OUT, "tail": bounded.last_lines(log)}
            self.error("unreachable", str(error))
            return log
        self.document["run"] = asdict(outcome)
        if outcome.timed_out:
            self.error("timeout", f"not done within {self.options.seconds:.0f} s")
        elif outcome.rc:
            self.error("exit", f"{Path(name).name} ended with exit status {outcome.rc}")
        return log

    def error(self, kind: str, text: str) -> None:
        self.document["errors"].append({"kind": kind, "text": text})

    def go(self) -> dict[str, Any]:
        begin = time.monotonic()
        (self.mpirun if self.options.launcher == "mpi" else self.torchrun)()
        self.door.close()
        self.watch.look()
        ranks = self.watch.ranks
        self.document["progress"] = [ranks[rank] for rank in sorted(ranks)]
        if not self.keeps and self.options.launcher != "mpi":
            self.document["door"] = self.door.state
            if self.door.state == "refused" and self.document["errors"]:
                self.error("unreachable", f"{self.options.host} port {self.options.port}: {self.door.error}")
        self.document["elapsed_s"] = round(time.monotonic() - begin, 3)
        return self.document


def nccl_environment() -> dict[str, str]:
    """NCCL says which way the data goes; without NCCL nobody reads this."""
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,GRAPH", **os.environ}


def mpirun(options: argparse.Namespace, seconds: float) -> list[str]:
    """OpenMPI's launcher; --timeout makes it end the ranks on the other nodes too."""
    command = [options.mpirun, "--timeout", str(max(1, math.floor(seconds - 2))), "--bind-to", "none"]
    command += ["-np", str(options.nodes * options.nproc), "--host", options.members]
    for name in sorted(os.environ):
        if name.startswith("NCCL_"):
            command += ["-x", name]
    for name in ("LD_LIBRARY_PATH", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG", bounded.MARK):
        command += ["-x", name]
    return command


def mpi_environment(options: argparse.Namespace) -> dict[str, str]:
    """Settings of OpenMPI, 4 and 5 alike: who is reached how, and over which network."""
    ssh = f"ssh -F {options.ssh_config}"
    settings = {
        "OMPI_MCA_plm_rsh_agent": ssh, "PRTE_MCA_plm_ssh_agent": ssh,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1", "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "OMPI_MCA_oob_tcp_if_include": options.network, "PRTE_MCA_prte_if_include": options.network,
        "OMPI_MCA_btl_tcp_if_include": options.network, "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "^openib",
        "LD_LIBRARY_PATH": ":".join(filter(None, [options.libraries, os.environ.get("LD_LIBRARY_PATH")])),
        "NCCL_SOCKET_IFNAME": f"={options.interface}", "NCCL_DEBUG": os.environ.get("NCCL_DEBUG", "INFO"),
        # Marks the ranks of the other nodes too, for whoever looks after them there.
        bounded.MARK: ",".join(filter(None, [os.environ.get(bounded.MARK), options.id])),
    }  # fmt: skip
    return {**os.environ, **settings}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, required=True, help="time budget")
    parser.add_argument("--launcher", choices=["torchrun", "mpi"], default="torchrun")
    parser.add_argument("--host", required=True, help="private address of the node with the store, or mpirun")
    parser.add_argument("--port", type=int, default=29400, help="port of the store")
    parser.add_argument("--address", required=True, help="private address of this node")
    parser.add_argument("--interface", required=True, help="the interface that has it")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--nproc", type=int, required=True, help="ranks on each node")
    parser.add_argument("--id", required=True, help="the same for the whole group, and no other's")
    parser.add_argument("--name", default=socket.gethostname(), help="what to call this node")
    parser.add_argument("--rail", default="", help="RDMA device that NCCL is held to")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the ranks; default: this one")
    parser.add_argument("--script", type=Path, default=HERE / "collectives.py")
    parser.add_argument("--follow", action="store_true", help="end when a process that this one was started by ends")
    parser.add_argument("--output", type=Path, help="write the account here too")
    mpi = parser.add_argument_group("with --launcher mpi")
    mpi.add_argument("--mpirun", default="mpirun")
    mpi.add_argument("--programs", default="", help="directory of the programs")
    mpi.add_argument("--members", help="mpirun's --host: ADDRESS:RANKS,...")
    mpi.add_argument("--network", help="the private network, as 10.0.0.0/24")
    mpi.add_argument("--ssh-config", help="settings of ssh that lead to the others")
    mpi.add_argument("--libraries", default="", help="directories of libraries that the program loads, NCCL's first")
    parser.add_argument("--options", type=shlex.split, default=[], help="the same as behind --, in one word")
    parser.add_argument("command", nargs="*", help="after --")
    options = parser.parse_args()
    options.command += options.options
    return options


def main() -> int:
    options = parse()
    bounded.stop_on_signals()
    if options.rail:
        os.environ["NCCL_IB_HCA"] = f"={options.rail}"
    with tempfile.TemporaryDirectory(prefix="trainrig-group-") as directory:
        document = Part(options, Path(directory)).go()
    if options.output:
        options.output.write_text(json.dumps(document), encoding="utf-8")
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
