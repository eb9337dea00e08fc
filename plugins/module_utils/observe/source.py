"""The one seam through which an Observation gets its raw text: the live node, or a saved bundle.

Both give the same thing, one Output per probe, so that everything behind the seam is pure.
A live look never changes the node, never needs root, and never waits longer than its time-out:
a command that hangs is killed with its whole process group, and abandoned when even that hangs
(a process in uninterruptible sleep in a driver cannot be killed).
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import glob
import os
import re
import selectors
import shutil
import signal
import stat
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Iterable, NamedTuple

from ansible_collections.trainrig.gpu.plugins.module_utils.observe import sections
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.probes import Files, Names, Part, Probe

#: Exit status that `timeout` uses, and what a bundle records for a probe that did not answer in time.
TIMED_OUT = 124
#: More than this from one source is cut: no probe needs it, and a log can be endless.
BYTES_LIMIT = 16 * 1024 * 1024
#: Looks that run at the same time. Most of them wait for a driver or a daemon, not for the CPU.
WORKERS = 8
#: How long a killed command may take to die before it is left behind, in seconds.
GRACE_S = 1.0
#: A name and password in an address (of a mirror, of a proxy): a bundle is made to be shown to others.
_PASSWORD = re.compile(r"://[^/\s:@]{1,200}:[^/\s@]{1,200}@")
#: A user's PATH often lacks the directories of administration tools.
ADMIN_PATH = (
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/cuda/bin:/opt/mellanox/ethtool/sbin"
)


class SourceError(Exception):
    """The source as a whole cannot be read; the text is for people."""


class Output(NamedTuple):
    """What one probe printed."""

    text: str
    rc: int = 0
    err: str = ""


class Source:
    """Where raw probe output comes from."""

    def read(self, probes: Iterable[Probe]) -> dict[str, Output]:
        """Return the output of each probe that could run; one that could not has no entry."""
        raise NotImplementedError


class BundleSource(Source):
    """A directory with one file per probe, as `save` writes it or as made by hand."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise SourceError(
                f"bundle: {self.directory} is not a directory; give the directory that holds the probe files"
            )

    def read(self, probes: Iterable[Probe]) -> dict[str, Output]:
        found: dict[str, Output] = {}
        for probe in probes:
            try:
                text = _read_regular(self.directory / probe.id)
                if text is None:
                    continue
                rc = _read_regular(self.directory / (probe.id + ".rc"))
                err = _read_regular(self.directory / (probe.id + ".err")) or ""
            except OSError as error:
                found[probe.id] = Output("", 1, f"{probe.id}: {error.strerror or error}")
                continue
            status = (rc or "0").strip()
            found[probe.id] = Output(text, int(status) if re.fullmatch(r"-?[0-9]{1,4}", status) else 1, err)
        return found


def write_bundle(directory: str | Path, outputs: dict[str, Output], asked: Iterable[str] = ()) -> None:
    """Write outputs so that a BundleSource reads the same again; of what was asked, older files without answer go."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for name in set(asked) - set(outputs):
        for stale in (target / (name + suffix) for suffix in ("", ".rc", ".err")):
            if stale.exists():
                stale.unlink()
    for name, output in outputs.items():
        _write(target / name, output.text)
        for suffix, text in ((".rc", f"{output.rc}\n" if output.rc else ""), (".err", output.err)):
            side = target / (name + suffix)
            if text:
                _write(side, text)
            elif side.exists():
                side.unlink()


class LiveSource(Source):
    """The node this code runs on."""

    def __init__(self, timeout_s: float | None = None, root: str = "/") -> None:
        """``timeout_s`` bounds each command (none: the probe's own bound); ``root`` is / except under test."""
        self.timeout_s = timeout_s
        self.root = root.rstrip("/")

    def read(self, probes: Iterable[Probe]) -> dict[str, Output]:
        wanted = list(probes)
        # The slow ones first, so that the whole look takes as long as the slowest, not longer.
        order = sorted(wanted, key=lambda probe: -probe.timeout_s)
        with ThreadPoolExecutor(max_workers=WORKERS) as pool:
            answers = dict(zip((probe.id for probe in order), pool.map(self._one, order)))
        found: dict[str, Output] = {}
        for probe in wanted:
            answer = answers[probe.id]
            if answer is not None:
                found[probe.id] = answer
        return found

    def _one(self, probe: Probe) -> Output | None:
        timeout_s = min(self.timeout_s, probe.timeout_s) if self.timeout_s else probe.timeout_s
        pieces: list[tuple[str, Output]] = []
        for part in probe.parts:
            # A part without a name prints sections itself; when it prints none it has nothing to say.
            pieces.extend(piece for piece in self._part(part, timeout_s) if piece[0] or piece[1].text.strip())
        if not pieces:
            return None
        pieces = [(name, piece._replace(text=_PASSWORD.sub(r"://***@", piece.text))) for name, piece in pieces]
        if not probe.sectioned:
            return pieces[0][1]
        err = "".join(f"{name}: {line}\n" for name, piece in pieces for line in piece.err.splitlines()[:5])
        text = sections.join((name, piece.text, piece.rc) for name, piece in pieces)
        return Output(text, 0 if any(piece.rc == 0 for _name, piece in pieces) else pieces[0][1].rc, err)

    def _part(self, part: Part, timeout_s: float) -> list[tuple[str, Output]]:
        if isinstance(part, Files):
            return self._files(part)
        if isinstance(part, Names):
            names = self.names(part.directory)
            if names is None:
                return []
            return [(part.name or f"ls -1 {part.directory}", Output("".join(f"{name}\n" for name in names)))]
        best: Output | None = None
        for argv in (part.argv, *part.otherwise):
            output = self.run(argv, timeout_s)
            # By convention of the shell, 127 without a word is a command that is not there.
            if output is None or (output.rc == 127 and not output.text.strip()):
                continue
            if part.keep:
                lines = output.text.splitlines(True)
                output = output._replace(text="".join(line for line in lines if re.search(part.keep, line)))
            if part.last:
                output = output._replace(text="".join(output.text.splitlines(True)[-part.last :]))
            if output.rc in part.answers:
                output = output._replace(rc=0)
            if output.rc == 0 and output.text.strip():
                best = output
                break
            # A refusal says more than silence: it is kept where no way gave an answer.
            best = output if best is None or output.rc != 0 else best
        if best is None:
            return []
        return [(" ".join(part.argv) if part.name is None else part.name, best)]

    def _files(self, part: Files) -> list[tuple[str, Output]]:
        found: list[tuple[str, Output]] = []
        for pattern in part.patterns:
            is_pattern = glob.has_magic(pattern)
            for path in self.paths(pattern) if is_pattern else [pattern]:
                name = path if is_pattern else part.name or pattern
                try:
                    text = self.text(path)
                except OSError as error:
                    found.append((name, Output("", 1, f"{error.strerror or error}")))
                    continue
                if text is None or (part.holding and not re.search(part.holding, text)):
                    continue
                if part.last:
                    text = "".join(text.splitlines(True)[-part.last :])
                found.append((name, Output(text)))
        return found

    # What a look needs of a node, all of it; a node that is not this one answers these four in its own way.

    def run(self, argv: tuple[str, ...], timeout_s: float) -> Output | None:
        """Run a command. None when there is no such command."""
        return run(argv, timeout_s)

    def names(self, directory: str) -> list[str] | None:
        """The names in a directory, None when it is not there."""
        try:
            return sorted(entry.name for entry in Path(self.root + directory).iterdir())
        except OSError:
            return None

    def paths(self, pattern: str) -> list[str]:
        """The paths that match a pattern."""
        return [path[len(self.root) :] for path in sorted(glob.glob(self.root + pattern))]

    def text(self, path: str) -> str | None:
        """Text of a regular file, None when there is none. OSError when it cannot be read."""
        return _read_regular(Path(self.root + os.path.expanduser(path)))


def run(argv: tuple[str, ...], timeout_s: float) -> Output | None:
    """Run one command, bounded in time and size. None when there is no such command."""
    environment = dict(
        os.environ, LC_ALL="C", LANG="C", LANGUAGE="C", SYSTEMD_COLORS="0", SYSTEMD_PAGER="", TERM="dumb"
    )
    environment["PATH"] = os.environ.get("PATH", "") + ":" + ADMIN_PATH
    # Ansible puts the modules it shipped first; what the node's own Python tools import is their business.
    environment.pop("PYTHONPATH", None)
    # Looked up here: a directory of PATH that may not be searched would make Popen speak of a missing permission.
    executable = shutil.which(argv[0], path=environment["PATH"])
    if executable is None:
        return None
    try:
        process = subprocess.Popen(
            argv,
            executable=executable,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        return Output("", 126, f"{argv[0]}: {error.strerror or error}\n")
    deadline = time.monotonic() + timeout_s
    out, err, finished, cut = _drain(process, deadline)
    if finished and not cut:
        try:
            process.wait(max(0.0, deadline - time.monotonic()) + GRACE_S)
        except subprocess.TimeoutExpired:
            finished = False
    if not finished or cut:
        _kill(process)
    for pipe in _pipes(process):
        pipe.close()
    text, errors = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
    if cut:
        return Output(text, 0, f"{errors}cut after {BYTES_LIMIT} bytes\n")
    if not finished:
        return Output(text, TIMED_OUT, f"{errors}no answer within {timeout_s:g} s\n")
    return Output(text, process.returncode, errors)


def _pipes(process: subprocess.Popen[bytes]) -> list[IO[bytes]]:
    """Standard output and standard error, which are always pipes here."""
    return [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]


def _drain(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes, bool, bool]:
    """Read both pipes until the command closes them, the time is over or the limit is reached."""
    buffers = {pipe.fileno(): bytearray() for pipe in _pipes(process)}
    order = list(buffers)
    cut = False
    with selectors.DefaultSelector() as selector:
        for descriptor in order:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map() and not cut:
            left = deadline - time.monotonic()
            # A daemon that a tool started may hold the pipe; what counts is whether the tool ended.
            ready = selector.select(max(0.0, min(left, 0.25)))
            for key, _events in ready:
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fd)
                buffers[key.fd].extend(chunk)
                cut = cut or len(buffers[key.fd]) >= BYTES_LIMIT
            if not ready and process.poll() is not None:
                break
            if left <= 0:
                return bytes(buffers[order[0]]), bytes(buffers[order[1]]), False, cut
    return bytes(buffers[order[0]]), bytes(buffers[order[1]]), True, cut


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and everything it started; leave it behind when it cannot die."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, daemon=True).start()


def _read_regular(path: Path) -> str | None:
    """Text of a regular file; None when there is none. Never blocks on a pipe or device."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(mode):
        raise OSError(0, "not a regular file")
    content = bytearray()
    # Unbuffered and in small steps: /proc/sys allocates as much as one read asks for.
    with path.open("rb", buffering=0) as stream:
        while len(content) < BYTES_LIMIT:
            chunk = stream.read(65536)
            if not chunk:
                break
            content.extend(chunk)
    return content.decode("utf-8", "replace")


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "replace"))
