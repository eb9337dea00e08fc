"""Throw-away nodes on this machine: `make lab ARGS="..."`, `make lab-clean`; or: .venv/bin/python -m tools.lab VERB."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "collections")]

from ansible_collections.trainrig.gpu.plugins.plugin_utils.ticker import Running, Ticker, seconds  # noqa: E402

from tools.lab import bases, names  # noqa: E402
from tools.lab.lab import INVENTORY, Lab, labs  # noqa: E402
from tools.lab.machine import cache_home  # noqa: E402
from tools.lab.names import LabError  # noqa: E402


@contextlib.contextmanager
def step(text: str) -> Iterator[None]:
    """One line a step with its time; a long one shows that it goes on."""
    ticker = Ticker(threading.RLock(), print, every_s=15)
    ticker.begin(Running(text, waiting=["this machine"]))
    ticker.start()
    started = time.monotonic()
    try:
        yield
    finally:
        ticker.stop()
    print(f"{text}: {seconds(time.monotonic() - started)}", flush=True)


def up(options: argparse.Namespace) -> None:
    wanted = [name for word in options.base or ["debian12"] for name in word.split(",")]
    specs = names.deal(wanted, options.nodes, bases.known())
    lab = Lab(options.name, step)
    lab.up(specs, options.inventory, options.rebuild)
    table([lab])
    path = options.inventory.resolve()
    where = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    first = specs[0].name
    print(f"\nssh -F {lab.ssh}/config {first}\nansible all -m ping -i {where}\nansible-playbook site.yml -i {where}")


def show(options: argparse.Namespace) -> None:
    table(labs())


def table(shown: Sequence[Lab]) -> None:
    for lab in shown:
        for node in lab.nodes:
            state = "running" if node.running else "off"
            old = f"base system {bases.age_days(node.base):.0f} days old"
            print(f"{lab.name:<8} {node.name:<8} {node.spec.base:<9} {node.address:<15} {state:<8} {old}")


def reset(options: argparse.Namespace) -> None:
    lab = Lab(options.name, step)
    for node in [lab.node(name) for name in options.nodes] or lab.nodes:
        with step(f"Reset {node.name}"):
            node.reset()
            node.start()
            node.wait_ready()


def clean(options: argparse.Namespace) -> None:
    for lab in [Lab(one.name, step) for one in labs()] if options.all else [Lab(options.name, step)]:
        if not lab.clean():
            print(f"There is no lab {lab.name}.")
    if options.cache:
        with step(f"Remove {cache_home()}"):
            if labs():
                raise LabError("other labs' nodes run on what is in the cache. To fix it: add --all.")
            shutil.rmtree(cache_home(), ignore_errors=True)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make lab", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default="lab", help="more than one lab can be there (default: lab)")
    verb = verbs.add_parser("up", parents=[common], help="make the nodes, or bring them to what is asked for")
    verb.add_argument("--nodes", type=int, help="how many (default: one a --base, at least 2)")
    verb.add_argument("--base", action="append", help=f"of {', '.join(sorted(bases.known()))}; several: node by node")
    verb.add_argument("--inventory", type=Path, default=INVENTORY, help="directory to write (default: inventories/lab)")
    verb.add_argument("--rebuild", action="store_true", help="build the base systems anew; their nodes start fresh")
    verb.set_defaults(act=up)
    verb = verbs.add_parser("clean", parents=[common], help="remove the nodes and all that was made for them")
    verb.add_argument("--all", action="store_true", help="all labs of this machine")
    verb.add_argument("--cache", action="store_true", help="base systems and packages too")
    verb.set_defaults(act=clean)
    verb = verbs.add_parser("reset", parents=[common], help="nodes back to fresh, in the time of a boot")
    verb.add_argument("nodes", nargs="*", metavar="NODE", help="default: all")
    verb.set_defaults(act=reset)
    verb = verbs.add_parser("show", help="list the nodes of all labs")
    verb.set_defaults(act=show)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    try:
        options.act(options)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; make lab and make lab-clean both go on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
