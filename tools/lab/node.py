"""One node: its disk in layers, start, stop, power cut, snapshot, reset.

On disk: `seed` (see seed.py), `layers/NN-NAME` (snapshots), `upper` (what was written since), `work` (overlayfs' own),
`root` (where the node sees all of it). A reset empties `upper`, so it takes as long as a boot.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
import signal
import socket
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.lab import machine, network, seed
from tools.lab.machine import run
from tools.lab.names import LabError, NodeSpec, machine_name

#: Where systemd-nspawn keeps a mount point for each machine. It never removes them.
_RUNTIME = Path("/run/systemd/nspawn")
_BOOT = Path(__file__).with_name("boot-node")
_OPAQUE = "trusted.overlay.opaque"
#: A node that is told to stop is usually gone in a second; a busy machine may take longer.
_STOP_SECONDS = 30
_BOOT_SECONDS = 120


@dataclass(frozen=True)
class Node:
    """`directory`: where the node is kept; `base`: the system it runs on; `directories`: seen read-only."""

    lab: str
    spec: NodeSpec
    address: str
    directory: Path
    base: Path
    directories: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def machine(self) -> str:
        return machine_name(self.lab, self.spec)

    @property
    def upper(self) -> Path:
        """overlayfs' own record of what was written since: files, and 0:0 devices for what was removed."""
        return self.directory / "upper"

    @property
    def log(self) -> Path:
        """What the node's console showed."""
        return self.directory / "console.log"

    # What runs

    def _nspawn(self) -> list[int]:
        return machine.processes(f"--directory={self.directory}/root", program="systemd-nspawn")

    def _all_processes(self) -> list[int]:
        """Of the node and of what runs it, a starter that was killed half-way included."""
        starters = machine.processes(str(_BOOT), str(self.directory))
        return sorted({*machine.group_members(self.machine), *starters, *self._nspawn()})

    @property
    def leader(self) -> int | None:
        """The node's first process, as this machine numbers it: `nsenter --target` takes it."""
        found = self._nspawn()
        return next((child for pid in found for child in machine.children(pid) if child not in found), None)

    @property
    def running(self) -> bool:
        return bool(self._all_processes())

    def start(self) -> None:
        """Begin to boot; `wait_ready` waits for the end of it."""
        if self.running:
            return
        machine.remove_groups(self.machine)
        network.pull_cable(self.machine)
        for name in ("upper", "root", "layers"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        # What a power cut left of overlayfs' own.
        shutil.rmtree(self.directory / "work", ignore_errors=True)
        (self.directory / "work").mkdir()
        lower = ":".join(map(str, self._below()))
        # Each node has a control group of its own: by the service manager, or by us.
        keep = [] if machine.has_service_manager() else ["--keep-unit"]
        nspawn = [
            "systemd-nspawn",
            "--quiet",
            f"--directory={self.directory}/root",
            f"--machine={self.machine}",
            f"--hostname={self.name}",
            "--boot",
            f"--network-bridge={network.BRIDGE}",
            "--register=no",
            *keep,
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            "--console=read-only",
            *(f"--bind-ro={path}" for path in self.directories),
        ]
        groups = machine.make_groups(self.machine)
        words = network.inside("unshare", "--mount", _BOOT, self.directory, lower, *groups, "--", *nspawn)
        # One starts a node at a time, and locks of systemd-nspawn's own would be left behind.
        settings = {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_NSPAWN_LOCK": "0"}
        machine.detach(*words, output=self.log, environment=settings)

    def wait_ready(self, seconds: float = _BOOT_SECONDS) -> None:
        """Until its SSH daemon answers."""
        if not machine.wait(lambda: self._answers() or not self.running, seconds) or not self.running:
            lines = self.log.read_text("utf-8", "replace").split("\n")
            said = " / ".join(line.strip() for line in lines[-4:] if line.strip())
            raise LabError(f"{self.name} did not boot (its console: {self.log}): {said or 'it said nothing'}")

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.address, 22), timeout=2) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def stop(self) -> None:
        """Switch it off the orderly way; like `kill` where it does not listen."""
        machine.send(self._nspawn(), signal.SIGTERM)
        machine.wait(lambda: not self._nspawn(), _STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """A power cut: every process at once, the first one first."""
        leader = self.leader
        machine.send([leader] if leader else [], signal.SIGKILL)
        machine.end(self._all_processes, 0)
        machine.remove_groups(self.machine)
        network.pull_cable(self.machine)

    # The disk

    def _layers(self) -> list[Path]:
        return sorted((self.directory / "layers").glob("[0-9]*-*"))

    def _below(self) -> list[Path]:
        """The layers under what is written now, the topmost first."""
        return [*reversed(self._layers()), self.directory / "seed", self.base]

    @property
    def snapshots(self) -> list[str]:
        return [path.name.partition("-")[2] for path in self._layers()]

    def snapshot(self, name: str) -> None:
        """Keep the disk as it is now under a name; the node is stopped for it and not started again."""
        if name in self.snapshots or not name or "/" in name:
            raise LabError(f"{self.name}: a snapshot cannot be called {name!r}: it has that one, or it is no name")
        self.stop()
        self.upper.rename(self.directory / "layers" / f"{len(self.snapshots):02d}-{name}")

    def reset(self, to: str | None = None) -> None:
        """Back to a snapshot; without one to the fresh node. It is stopped for it and not started again."""
        names = self.snapshots
        if to is not None and to not in names:
            raise LabError(f"{self.name} has no snapshot {to!r}. To fix it: take of {', '.join(names) or 'none'}.")
        self.kill()
        for path in self._layers()[names.index(to) + 1 if to is not None else 0 :]:
            if path.is_symlink():  # of several nodes: whoever keeps it
                path.unlink()
            else:
                shutil.rmtree(path)
        shutil.rmtree(self.upper, ignore_errors=True)

    def changed(self) -> dict[str, str]:
        """Every path whose content, owner or mode differs from the last snapshot's: `written` or `removed`."""
        below = self._below()
        found: dict[str, str] = {}
        for directory, folders, files in os.walk(self.upper):
            for name in [*folders, *files]:
                path = Path(directory, name)
                within = path.relative_to(self.upper)
                before = next((one / within for one in below if os.path.lexists(one / within)), None)
                if how := difference(path, before):
                    found[f"/{within}"] = how
        return found

    def write_seed(self, files: Mapping[str, seed.File], mount_points: Iterable[str]) -> None:
        """Lay the files that make the base this node. Only while it is off."""
        new = self.directory / "seed.new"
        shutil.rmtree(new, ignore_errors=True)
        for point in mount_points:
            (new / point.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for name in sorted(files):
            path, file = new / name, files[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
            path.chmod(file.mode)
            os.chown(path, file.owner, file.owner)
        # A directory of an upper layer hides the owner and mode of the one below it.
        for directory in sorted(path for path in new.rglob("*") if path.is_dir()):
            self._like_base(directory, self.base / directory.relative_to(new))
        shutil.rmtree(self.directory / "seed", ignore_errors=True)
        new.rename(self.directory / "seed")

    @staticmethod
    def _like_base(directory: Path, original: Path) -> None:
        owner = seed.USER_ID if directory.name == ".ssh" else 0
        if original.is_dir():
            status = original.stat()
            os.chown(directory, status.st_uid, status.st_gid)
            directory.chmod(stat.S_IMODE(status.st_mode))
        else:
            os.chown(directory, owner, owner)
            directory.chmod(0o700 if owner else 0o755)


def difference(path: Path, before: Path | None) -> str | None:
    """What an entry of overlayfs' upper layer says about a path. Opening a file to write it is not yet a change."""
    status = path.lstat()
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFCHR and status.st_rdev == 0:
        return "removed"
    if before is None:
        return None if kind == stat.S_IFDIR and any(path.iterdir()) else "written"
    old = before.lstat()
    same = (status.st_mode, status.st_uid, status.st_gid) == (old.st_mode, old.st_uid, old.st_gid)
    if same and kind == stat.S_IFDIR:
        same = _OPAQUE not in os.listxattr(path)  # removed and made again
    elif same and kind == stat.S_IFREG:
        same = status.st_size == old.st_size and filecmp.cmp(path, before, shallow=False)
    elif same and kind == stat.S_IFLNK:
        same = os.readlink(path) == os.readlink(before)
    return None if same else "written"


def host_key(directory: Path) -> tuple[bytes, bytes]:
    """A node's own key pair, made once and kept over resets."""
    path = directory / "host_key"
    if not path.with_suffix(".pub").exists():
        path.unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", path)
    return path.read_bytes(), path.with_suffix(".pub").read_bytes()


def remove(node: Node) -> None:
    """Switch it off and forget it."""
    node.kill()
    shutil.rmtree(_RUNTIME / "propagate" / node.machine, ignore_errors=True)
    shutil.rmtree(node.directory, ignore_errors=True)


def start_all(nodes: Sequence[Node]) -> None:
    for node in nodes:
        node.start()
    for node in nodes:
        node.wait_ready()


def forget_runtime() -> None:
    """systemd-nspawn's own directories, where nothing of anybody is in them any more."""
    for path in (_RUNTIME / "propagate", _RUNTIME):
        with contextlib.suppress(OSError):
            path.rmdir()
