"""Changes packages on a node in one transaction of apt: simulated first, taken back where it fails half-way."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import subprocess
import time
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.apt import complaints, transaction
from ansible_collections.trainrig.gpu.plugins.module_utils.apt.transaction import Present, Step, Wish

_STATUS = ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}|${Package}|${Version}\\n"]
#: Where dpkg journals what it has not yet written to its status file: files in it mean that it was interrupted.
_UPDATES = "/var/lib/dpkg/updates"
#: Where dpkg keeps the scripts of installed packages, and starts them from.
_SCRIPTS = "/var/lib/dpkg/info/"
#: How dpkg and apt-mark say that another one is at work.
_LOCKED = ("locked by another process", "Could not get lock", "Unable to acquire")
#: Exact versions in any direction, held or not, nothing that was only recommended, no settings of what goes left
#: behind. Unsigned is refused by default.
_INSTALL = ["install", "--allow-downgrades", "--allow-change-held-packages", "--no-install-recommends", "--purge"]
#: Nobody is there to answer; a file that the user edited stays. needrestart would restart services under a job.
_ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "APT_LISTCHANGES_FRONTEND": "none",
    "NEEDRESTART_SUSPEND": "1",
    "LC_ALL": "C",
}
_KEEP_FILES = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]
_RETRIES = ["-o", "Acquire::Retries=3"]
_PAUSE_S = 2


class RefusedError(Exception):
    """Why nothing was done; the text is for people."""


class FailedError(Exception):
    """What went wrong on the way; the text is for people and says in which state the node is."""


class Done(NamedTuple):
    """What was, or in check mode would be, changed."""

    steps: List[Step]
    held: List[str]  # newly on hold
    repaired: bool  # an interrupted dpkg was brought to its end
    unknown: str  # check mode only: why apt cannot say yet what it would do


def scripts(processes: str = "/proc") -> List[Tuple[int, str]]:
    """Scripts of packages that run now: (pid, path)."""
    found = []
    for pid in sorted(int(name) for name in os.listdir(processes) if name.isdigit()):
        try:
            with open(os.path.join(processes, str(pid), "cmdline"), encoding="utf-8", errors="replace") as stream:
                words = stream.read().split("\0")
        except OSError:  # it has ended
            continue
        found += [(pid, word) for word in words[:3] if word.startswith(_SCRIPTS)]
    return found


class Apt:
    """apt and dpkg of this node."""

    def __init__(self, lock_seconds: int, check_mode: bool = False) -> None:
        self._lock_seconds, self._check_mode = lock_seconds, check_mode

    def reach(self, wish: Wish, hold: bool) -> Done:
        """The node as wished: exact versions, gone what has to go, on hold. RefusedError before, FailedError after."""
        repaired = self._finish_interrupted()
        before = self._present()
        differing, leaving = wish.differing(before), wish.leaving(before)
        steps: List[Step] = []
        unknown = ""
        if differing or leaving:
            steps, unknown = self._simulate(wish, before)
            if not self._check_mode:
                self._run(wish, steps, before)
        held = self._hold(sorted(wish.packages)) if hold else []
        if not self._check_mode:
            self._confirm(wish)
        return Done(steps, held, repaired, unknown)

    # What is there

    def _present(self) -> Dict[str, Present]:
        return transaction.installed(self._ask(*_STATUS))

    def _ask(self, *command: str) -> str:
        code, output, errors = self._call(command)
        if code:
            raise RefusedError(f"{command[0]} ended with {code}: {errors.strip()[:300]}")
        return output

    @staticmethod
    def _call(command: Sequence[str]) -> Tuple[int, str, str]:
        done = subprocess.run(
            list(command),
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    # Before

    def _finish_interrupted(self) -> bool:
        """A dpkg that was killed is brought to its end first: apt refuses to work before that.

        Where a package of it cannot be configured the transaction that follows may be what mends it.
        """
        interrupted = os.path.isdir(_UPDATES) and bool(os.listdir(_UPDATES))
        if not interrupted and not self._ask("dpkg", "--audit").strip():
            return False
        if not self._check_mode:
            self._wait_for_scripts()
            self._stop_where_killed(
                "dpkg", *self._locked(["dpkg", "--force-confdef", "--force-confold", "--configure", "--pending"])
            )
        return True

    @staticmethod
    def _stop_where_killed(program: str, code: int, output: str, errors: str) -> None:
        """What a killed one had begun may still run, and nothing is known to be wrong with the packages."""
        killed = complaints.killed(program, code, output + errors)
        if killed:
            raise FailedError(
                f"{killed} on the way; the next run brings dpkg to its end and goes on from there. To fix it: run "
                "again; where the node was short of memory (journalctl -k) free some first."
            )

    def _wait_for_scripts(self) -> None:
        """What a killed dpkg had started goes on without its lock; a second DKMS beside it would build in its place."""
        end = time.monotonic() + self._lock_seconds
        while True:
            running = scripts()
            if not running:
                return
            if time.monotonic() > end:
                pid, path = running[0]
                raise RefusedError(
                    f"{path} (pid {pid}) still runs, so nothing was changed. To fix it: wait until it is done, or "
                    "end it where it hangs, then run again."
                )
            time.sleep(_PAUSE_S)

    def _locked(self, command: Sequence[str]) -> Tuple[int, str, str]:
        """Runs what takes dpkg's lock and cannot wait for it itself."""
        end = time.monotonic() + self._lock_seconds
        while True:
            code, output, errors = self._call(command)
            if not code or not any(words in errors for words in _LOCKED) or time.monotonic() > end:
                return code, output, errors
            time.sleep(_PAUSE_S)

    def _simulate(self, wish: Wish, before: Dict[str, Present]) -> Tuple[List[Step], str]:
        code, output, errors = self._call(["apt-get", "--simulate", *_INSTALL, *wish.words(before)])
        if code:
            why = complaints.explained(output + errors)
            if self._check_mode:
                return self._expected(wish, before), why["said"]
            raise RefusedError(f"does not resolve, so nothing was changed: {why['said']}. To fix it: {why['fix']}.")
        steps = transaction.simulated(output)
        going = transaction.unwanted(steps, wish)
        if going:
            raise RefusedError(
                f"apt would also remove {', '.join(going)}, so nothing was changed. To fix it: remove them yourself "
                "where nobody needs them, or declare a set that goes with them."
            )
        return steps, ""

    @staticmethod
    def _expected(wish: Wish, before: Dict[str, Present]) -> List[Step]:
        """What is known without apt, of a node that has not met the repository yet."""
        old = {name: present.version for name, present in before.items()}
        steps = [Step(name, old.get(name, ""), wish.packages[name]) for name in wish.differing(before)]
        return steps + [Step(name, old[name], "") for name in wish.leaving(before)]

    # The change

    def _run(self, wish: Wish, steps: List[Step], before: Dict[str, Present]) -> None:
        code, output, errors = self._install(wish, before)
        if not code:
            return
        self._stop_where_killed("apt-get", code, output, errors)
        said = output + errors
        build = complaints.failed_build(said)
        line = self._compiler_line(build.log) if build else ""  # before the build directory goes
        state = self._take_back(steps, before)
        if build:
            of = f"{build.module} {build.version} for kernel {build.kernel or 'the installed kernel'}"
            raise FailedError(
                f"DKMS cannot build the kernel module {of}: {line}. {state} To fix it: declare another driver, the "
                "other kernel module (trainrig_stack.kernel_module), or a kernel that it builds for "
                "(trainrig_stack.kernel)."
            )
        why = complaints.explained(said)
        raise FailedError(f"apt failed: {why['said']}. {state} To fix it: {why['fix']}.")

    def _install(self, wish: Wish, present: Dict[str, Present]) -> Tuple[int, str, str]:
        wait = ["-o", f"DPkg::Lock::Timeout={self._lock_seconds}"]
        options = [*wait, *_KEEP_FILES, *_RETRIES, "--yes", "--quiet"]
        return self._call(["apt-get", *options, *_INSTALL, *wish.words(present)])

    def _take_back(self, steps: List[Step], before: Dict[str, Present]) -> str:
        """After a failure: what was there before, as far as it can be had. What came of it, in a sentence."""
        now = self._present()
        moved = [step for step in steps if now.get(step.name) != before.get(step.name)]
        if not moved:
            return "Nothing was changed."
        back = transaction.undone(moved, before)
        code, output, errors = self._install(back, now)
        now = self._present()
        if not code and not back.differing(now) and not back.leaving(now):
            return "Every package is as it was before."
        left = [*back.differing(now), *back.leaving(now)]
        why = complaints.explained(output + errors)["said"]
        return f"Not as before: {', '.join(left[:8])} ({why}); the next run goes on from here."

    @staticmethod
    def _compiler_line(path: str) -> str:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                return complaints.compiler_line(stream.read())
        except OSError as error:
            return f"its log {path} cannot be read: {error.strerror}"

    # After

    def _hold(self, names: List[str]) -> List[str]:
        held = set(self._ask("apt-mark", "showhold").split())
        missing = [name for name in names if name not in held]
        if missing and not self._check_mode:
            code, _output, errors = self._locked(["apt-mark", "hold", *missing])
            if code:
                raise FailedError(f"apt-mark hold {' '.join(missing[:4])}: {errors.strip()[:300]}")
        return missing

    def _confirm(self, wish: Wish) -> None:
        present = self._present()
        wrong = [*wish.differing(present), *wish.leaving(present)]
        if wrong:
            found: Dict[str, Any] = {name: tuple(present[name]) if name in present else "absent" for name in wrong[:4]}
            raise FailedError(f"apt reported success, but these are not as asked for: {found}")
