"""Runs uv on the node so that it dies with this process and says one clear thing when it fails."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from typing import List, Mapping, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_errors import Failure

#: Variables of the caller that would change what uv builds, or where.
_FOREIGN = frozenset(
    (
        "CONDA_PREFIX",
        "PYTHONHOME",
        "PYTHONPATH",
        "UV_EXCLUDE_NEWER",
        "UV_NO_VERIFY_HASHES",
        "UV_PROJECT",
        "UV_PYTHON",
        "UV_SYSTEM_PYTHON",
        "UV_TARGET",
        "UV_TORCH_BACKEND",
        "UV_WORKING_DIR",
        "VIRTUAL_ENV",
    )
)
_PR_SET_PDEATHSIG = 1


class Problem(Exception):
    """The one clear reason why something cannot be done."""

    def __init__(self, kind: str, text: str, fix: str, detail: str = "") -> None:
        super().__init__(text)
        self.failure = Failure(kind, text, fix, detail)


def run(uv: str, arguments: Sequence[str], added: Mapping[str, str], kept_open: Sequence[int]) -> Tuple[int, str]:
    """Exit status and standard error. `added`: variables ("" = leave it out); `kept_open`: descriptors uv inherits."""
    env = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    env.update(added)
    command: List[str] = [uv, *arguments]
    try:
        done = subprocess.run(
            command,
            env={name: value for name, value in env.items() if name not in added or value},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=kept_open,
            preexec_fn=_die_with_parent,
            check=False,
        )
    except OSError as error:
        raise Problem(
            "uv_missing",
            f"cannot run uv at {uv}: {error.strerror}",
            "set pytorch_uv to a uv program for this machine's architecture",
        ) from error
    return done.returncode, done.stderr.decode("utf-8", "replace")


def _die_with_parent() -> None:
    """An orphaned uv would go on writing into a directory that the next run removes."""
    libc: Optional[ctypes.CDLL] = None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
    except OSError:
        return  # the inherited lock still makes the next run wait for it
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
