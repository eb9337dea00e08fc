"""A lab as a whole: up brings it to what was asked for, from whatever is there; clean removes it and only it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.environment import pip_settings
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.installer_settings import read_all

from tools.lab import bases, cache, disk, inventory, machine, network, node, pip, seed
from tools.lab.machine import LABS, STATE, run
from tools.lab.names import LabError, NodeSpec, check_name, free_number
from tools.lab.node import Node

ROOT = Path(__file__).resolve().parents[2]
DECLARATION = ROOT / "inventories" / "node"
INVENTORY = ROOT / "inventories" / "lab"

Step = Callable[[str], AbstractContextManager[None]]

#: Each node's service manager watches files: more nodes than this need more watchers than Linux allows at first.
_NODES_WITHOUT_HELP = 16
_WATCHERS = Path("/proc/sys/fs/inotify/max_user_instances")
_WATCHERS_BEFORE = STATE / "max_user_instances"


@contextlib.contextmanager
def quiet(_text: str) -> Iterator[None]:
    """Steps that nobody watches."""
    yield


class Lab:
    """One lab by its name. What is true of it is on disk: two objects of one lab are the same lab."""

    def __init__(self, name: str = "lab", step: Step = quiet) -> None:
        self.name = check_name(name)
        self.directory = LABS / name
        self.ssh = self.directory / "ssh"
        self._step = step

    # What there is

    @property
    def exists(self) -> bool:
        return self.directory.is_dir()

    @property
    def inventory(self) -> Path | None:
        """Where it was written; None before that."""
        written = self._record().get("inventory")
        return Path(written) if written else None

    @property
    def nodes(self) -> list[Node]:
        """Every node that was begun."""
        number = int(self._record().get("number", 0))
        directories = (self.directory / "nodes").glob("node-*")
        return [self._node(number, int(path.name.partition("-")[2])) for path in sorted(directories, key=_by_number)]

    def node(self, name: str) -> Node:
        found = {node.name: node for node in self.nodes}
        if name not in found:
            there = ", ".join(found) or "none"
            raise LabError(f"there is no {name} in the lab {self.name}. To fix it: take of {there}.")
        return found[name]

    def _node(self, lab_number: int, number: int) -> Node:
        directory = self.directory / "nodes" / f"node-{number}"
        made = _read(directory / "node.json")
        spec = NodeSpec(number, made.get("base", ""))
        address = str(network.addresses().node(lab_number, number))
        return Node(self.name, spec, address, directory, Path(made.get("root", "")), tuple(made.get("directories", ())))

    def _record(self) -> dict[str, Any]:
        return _read(self.directory / "lab.json")

    # Up

    def up(self, specs: Sequence[NodeSpec], into: Path = INVENTORY, rebuild: bool = False) -> None:
        """The nodes that were asked for, running, and their inventory. What is there and fits stays as it is."""
        if reason := machine.missing():
            raise LabError(reason)
        with machine.only_one():
            STATE.mkdir(mode=0o755, exist_ok=True)
            self._ground()
            self._begin(into)
            roots = self._bases(sorted({spec.base for spec in specs}), rebuild)
            for there in self.nodes:
                if there.spec not in specs or (rebuild and there.base != roots[there.spec.base]):
                    with self._step(f"Remove {there.name}"):
                        node.remove(there)
            around = self._surroundings(specs)
            for spec in specs:
                self._lay(spec, around, roots[spec.base])
            bases.prune(one.base for lab in labs() for one in lab.nodes)
            self._raise_watchers()
            with self._step(f"Start {len(specs)} node{'s' if len(specs) > 1 else ''}"):
                node.start_all(self.nodes)
            self._write_inventory(into)

    def _ground(self) -> None:
        """Disk, network, cache. Nodes in a network that is not whole are switched off before it is made anew."""
        if not disk.is_up():
            with self._step("Make the nodes' disk"):
                disk.up()
        if not network.is_up():
            with self._step("Make the network"):
                for lab in labs():
                    for one in lab.nodes:
                        one.kill()
                network.up()
        if not cache.is_up(network.addresses()):
            with self._step("Start the package cache"):
                cache.up(network.addresses())

    def _begin(self, into: Path) -> None:
        others = [lab for lab in labs() if lab.name != self.name]
        for lab in others:
            if lab.inventory == into.resolve():
                raise LabError(f"{into} is the lab {lab.name}'s. To fix it: name another directory with --inventory.")
        inventory.check(into)
        number = self._record().get("number") or free_number(lab._record().get("number", 0) for lab in others)
        self.ssh.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.inventory and self.inventory != into.resolve():
            inventory.remove(self.inventory)
        _write(self.directory / "lab.json", {"number": number, "inventory": str(into.resolve())})
        if not (self.ssh / "key.pub").exists():
            (self.ssh / "key").unlink(missing_ok=True)
            comment = f"trainrig lab {self.name}"
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", self.ssh / "key")

    def _bases(self, names: Sequence[str], rebuild: bool) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for name in names:
            recipe = bases.recipe(name)
            there = None if rebuild else bases.newest(recipe)
            if there is None:
                with self._step(f"Build the base system {name} (once, a minute or two)"):
                    there = bases.build(recipe, cache.url(network.addresses()))
            found[name] = there
        return found

    def _surroundings(self, specs: Sequence[NodeSpec]) -> seed.Surroundings:
        url = cache.url(network.addresses())
        texts, _warnings = read_all(pip_settings.config_files(os.environ, os.environ.get("HOME"), None))
        settings, _more = pip_settings.read(texts, os.environ)
        own = pip.for_nodes(settings, url, lambda path: Path(path).is_dir())
        files = {path: Path(path).read_bytes() for path in own.files if Path(path).is_file()}
        return seed.Surroundings(
            lab=self.name,
            number=self._record()["number"],
            addresses=network.addresses(),
            cache_url=url,
            nodes=tuple(specs),
            authorized_key=(self.ssh / "key.pub").read_text("ascii").strip(),
            apt_settings=bases.date_settings(),
            files={**files, pip.CONFIGURATION: own.text.encode()},
            directories=tuple(path for path in own.directories if Path(path).is_dir()),
        )

    def _lay(self, spec: NodeSpec, around: seed.Surroundings, root: Path) -> None:
        """Make the node that was asked for out of what is there; one that is as it should be is not touched."""
        directory = self.directory / "nodes" / spec.name
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = _read(directory / "node.json")
        root = Path(made.get("root", root))
        files = seed.seed(spec, around, *node.host_key(directory))
        digest = seed.digest(files, around.directories)
        if made.get("seed") == digest and (directory / "seed").is_dir() and root.is_dir():
            return
        wanted = {"base": spec.base, "root": str(root), "directories": around.directories}
        _write(directory / "node.json", wanted)
        one = self._node(around.number, spec.number)
        with self._step(f"Make {spec.name} ({spec.base})"):
            one.stop()
            one.write_seed(files, around.directories)
        _write(directory / "node.json", {**wanted, "seed": digest})

    def _write_inventory(self, into: Path) -> None:
        keys = {one: (one.directory / "host_key.pub").read_text("ascii").split()[:2] for one in self.nodes}
        lines = [f"{one.name},{one.address} {' '.join(key)}\n" for one, key in keys.items()]
        (self.ssh / "known_hosts").write_text("".join(lines), "ascii")
        addresses = {one.name: one.address for one in self.nodes}
        specs = [one.spec for one in self.nodes]
        (self.ssh / "config").write_text(inventory.ssh_config(specs, addresses, self.ssh), "utf-8")
        inventory.write(into, inventory.text(specs, addresses, self.ssh), DECLARATION)
        # Whoever called sudo goes on without it.
        owner, group = (int(os.environ.get(f"SUDO_{key}", 0)) for key in ("UID", "GID"))
        for path in [self.ssh, *self.ssh.iterdir(), into, *inventory.written(into)]:
            os.chown(path, owner, group, follow_symlinks=False)

    def _raise_watchers(self) -> None:
        allowed = int(_WATCHERS.read_text("ascii"))
        if sum(len(lab.nodes) for lab in labs()) > _NODES_WITHOUT_HELP and allowed < 1024:
            _WATCHERS_BEFORE.write_text(str(allowed), "ascii")
            _WATCHERS.write_text("1024", "ascii")

    # Clean

    def clean(self) -> bool:
        """Remove the nodes, and with the last lab what all of them shared. Whether there was anything."""
        if os.geteuid():
            raise LabError("the lab needs root. To fix it: sudo make lab-clean.")
        if not STATE.exists():
            return False
        with machine.only_one():
            if not disk.is_up():  # after a reboot of this machine
                disk.up()
            there = self.exists
            if there:
                with self._step(f"Remove the lab {self.name}"):
                    for one in self.nodes:
                        node.remove(one)
                    if self.inventory:
                        inventory.remove(self.inventory)
                    shutil.rmtree(self.directory)
            bases.prune(one.base for lab in labs() for one in lab.nodes)
            if not labs():
                with self._step("Remove the labs' network and package cache"):
                    _remove_shared()
        return there


def _remove_shared() -> None:
    cache.down()
    network.down()
    node.forget_runtime()
    disk.down()
    if _WATCHERS_BEFORE.exists():
        _WATCHERS.write_text(_WATCHERS_BEFORE.read_text("ascii"), "ascii")
    shutil.rmtree(STATE)


def labs() -> list[Lab]:
    """Every lab of this machine."""
    return [Lab(path.name) for path in sorted(LABS.glob("*")) if path.is_dir() and path.name != "lost+found"]


def _by_number(path: Path) -> int:
    return int(path.name.partition("-")[2])


def _read(path: Path) -> dict[str, Any]:
    """What was written, or nothing: a command that was killed before it wrote has told nothing."""
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (FileNotFoundError, ValueError):
        return {}


def _write(path: Path, content: dict[str, Any]) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(content), "utf-8")
    temporary.replace(path)
