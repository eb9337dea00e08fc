"""This machine: what a lab needs of it, where things are kept, one command at a time, processes, control groups."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tools.lab.names import LabError

#: Nodes, keys, what runs. Gone after the last `make lab-clean`.
STATE = Path("/var/lib/trainrig-lab")
LABS = STATE / "labs"
_LOCK = Path("/run/lock/trainrig-lab")
#: Program -> Debian's package.
_PROGRAMS = {
    "apt-cacher-ng": "apt-cacher-ng",
    "ip": "iproute2",
    "mkfs.ext4": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "nsenter": "util-linux",
    "ssh-keygen": "openssh-client",
    "systemd-nspawn": "systemd-container",
}
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
#: What a lab does and a container may not: tried for real, in namespaces and a /run that end with the try.
_TRIALS = {
    "mount anything": "true",
    "mount overlayfs": "mkdir l u w all; mount -t overlay -o lowerdir=l,upperdir=u,workdir=w none all",
    "make device nodes": "mknod null c 1 3",
    "mount a file": "mkdir all; truncate -s 1M disk; mkfs.ext4 -q disk; mount -t ext4 -o loop disk all",
    "make a network cable": "ip link add trial0 type veth peer name trial1",
    "make a bridge": "ip link add trial0 type bridge",
}


def missing() -> str | None:
    """Why there can be no lab here, and what to do."""
    if os.geteuid():
        return "the lab needs root: it makes network namespaces and starts machines. To fix it: sudo make lab."
    if not Path("/etc/debian_version").exists() or not shutil.which("apt-get"):
        return "the lab needs Debian (or Ubuntu) with apt: its nodes are built from this machine's package mirror."
    packages = sorted({name for program, name in _PROGRAMS.items() if not shutil.which(program, path=_PATH)})
    if packages:
        return f"the lab needs {', '.join(packages)}. To fix it: apt-get install {' '.join(packages)}."
    return _forbidden()


def _forbidden() -> str | None:
    """What this machine does not let even root do, as in a container."""
    for what, script in _TRIALS.items():
        try:
            run("unshare", "--mount", "--net", "sh", "-euc", f"mount -t tmpfs none /run; cd /run; {script}")
        except LabError as error:
            said = str(error).rpartition(": ")[2]
            return _refused(what, said)
    closed = [str(group.parent) for group in own_groups("trial") if not os.access(group.parent, os.W_OK)]
    return _refused("make control groups", f"{closed[0]} is read-only") if closed else None


def _refused(what: str, said: str) -> str:
    return f"the lab may not {what} here ({said}): it needs a machine of its own, or a privileged container."


def cache_home() -> Path:
    """Bases and packages; it stays between labs."""
    home = os.environ.get("XDG_CACHE_HOME") or f"{os.environ.get('HOME') or '/root'}/.cache"
    return Path(home) / "trainrig" / "lab"


def run(*command: str | Path, text: str | None = None) -> str:
    """A command's output; LabError with its last line where it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise LabError(f"{words[0]}: not on this machine") from error
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise LabError(f"{' '.join(words)}: {lines[-1] if lines else f'exit status {done.returncode}'}")
    return done.stdout


def detach(*command: str | Path, output: Path, environment: Mapping[str, str] | None = None) -> None:
    """Start what goes on by itself after us, as nobody's child."""
    with output.open("ab") as stream:
        subprocess.run(
            ["setsid", "--fork", *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd="/",
            env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})},
            check=True,
        )


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Holds off other lab commands. The file goes with its last user, so look whether it is still the one locked."""
    _LOCK.parent.mkdir(parents=True, exist_ok=True)
    while True:
        # Closed on exec: a node that outlives the command must not keep the lock.
        descriptor = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.stat(_LOCK).st_ino == os.fstat(descriptor).st_ino:
                break
        os.close(descriptor)
    try:
        yield
    finally:
        _LOCK.unlink(missing_ok=True)
        os.close(descriptor)


def processes(*words: str, program: str | None = None) -> list[int]:
    """Processes whose command line has all these words, each as a whole argument; `program`: what they run."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != os.getpid():
            with contextlib.suppress(OSError):
                arguments = (directory / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
                fits = program is None or arguments[0].rpartition("/")[2] == program
                if fits and set(arguments).issuperset(words) and not _is_dead(int(directory.name)):
                    found.append(int(directory.name))
    return sorted(found)


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
    except OSError:
        return []


def send(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end(find: Callable[[], list[int]], seconds: float) -> None:
    """SIGTERM, then SIGKILL to what is left after a while; at once without seconds."""
    if seconds:
        send(find(), signal.SIGTERM)
    if not seconds or not wait(lambda: not find(), seconds):
        send(find(), signal.SIGKILL)
        if not wait(lambda: not find(), 20):
            raise LabError(f"process {find()[0]} cannot be killed: this machine's kernel holds it")


def wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    pause = 0.01
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)
    return True


def _is_dead(pid: int) -> bool:
    """A zombie, or gone."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] in "ZX"
    return True


def mounts() -> list[tuple[str, str]]:
    """(mount point, type) of everything mounted here, in order."""
    rows = [line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    return [(row[1].encode().decode("unicode_escape"), row[2]) for row in rows]


def unmount_below(directory: Path) -> None:
    """Everything that is mounted on a directory or below it, the newest first."""
    for point, _kind in reversed(mounts()):
        if Path(point) == directory or directory in Path(point).parents:
            run("umount", point)


# Control groups. A service manager gives each node a scope of its own. Without one, all nodes would share the group of
# the shell that made them, and stopping a unit on one node could kill processes of another.


def has_service_manager() -> bool:
    return Path("/run/systemd/system").is_dir()


def own_groups(machine: str) -> list[Path]:
    """The directories that are a node's control group, one for each hierarchy."""
    if has_service_manager():
        return []
    return [Path(point) / f"trainrig-lab-{machine}" for point, kind in mounts() if kind in ("cgroup", "cgroup2")]


def make_groups(machine: str) -> list[Path]:
    groups = own_groups(machine)
    for group in groups:
        group.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):  # empty at first, and then nothing may enter
            if (group.parent / "cgroup.controllers").exists() or not (group / name).exists():
                continue
            (group / name).write_text((group.parent / name).read_text("ascii"), "ascii")
    return groups


def group_members(machine: str) -> list[int]:
    found: set[int] = set()
    for group in own_groups(machine):
        for directory, _folders, _files in os.walk(group):
            with contextlib.suppress(OSError):
                found.update(map(int, (Path(directory) / "cgroup.procs").read_text("ascii").split()))
    return sorted(pid for pid in found if not _is_dead(pid))


def remove_groups(machine: str) -> None:
    for group in own_groups(machine):
        for directory, _folders, _files in os.walk(group, topdown=False):
            wait(partial(_rmdir, directory), 5)


def _rmdir(path: str) -> bool:
    """A group is busy for a moment after its last process died."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
