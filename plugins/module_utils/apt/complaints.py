"""What apt, dpkg and DKMS complain of, as one sentence with the way out."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

#: Longest list of apt's own lines in a message.
_LINES = 4
_LONGEST = 240


class _Known(NamedTuple):
    pattern: str
    fix: str


#: The first that fits explains; apt-get(8) prints these in English under LC_ALL=C.
_KNOWN: Tuple[_Known, ...] = (
    _Known(
        r"No space left on device|don't have enough free space",
        "free space on the node (apt-get clean, old kernels, data), then run again",
    ),
    _Known(
        r"Could not get lock|Unable to acquire the dpkg frontend lock|Unable to lock directory",
        "wait until the other apt is done (its pid stands above), or raise the time to wait, then run again",
    ),
    _Known(
        r"Hash Sum mismatch|unexpected size",
        "the repository serves another file than its signed index names: use another mirror in trainrig_repositories",
    ),
    _Known(
        r"NO_PUBKEY|is not signed|couldn't be verified|invalid signature|BADSIG|EXPKEYSIG|cannot be authenticated",
        "check the key of that repository in trainrig_repositories; what nobody signed is not installed",
    ),
    _Known(
        r"Version '[^']*' for '[^']*' was not found|Unable to locate package|has no installation candidate",
        "run the layer sources (its repositories have what is locked), or make the lock again with playbooks/lock.yml",
    ),
    _Known(
        r"Failed to fetch|Unable to fetch|Could not (resolve|connect)|Connection (failed|refused|timed out)|404 ",
        "check that the node reaches the repository (network, proxy, mirror), then run again",
    ),
    _Known(
        r"held broken packages|unmet dependencies|Unmet dependencies|Held packages were changed|Conflicts:|Depends:",
        "remove or unhold what stands in the way on the node, or declare a set that goes with it",
    ),
)
_BUILD_LOG = re.compile(r"(/var/lib/dkms/(?P<module>[^/\s]+)/(?P<version>[^/\s]+)(?:/[^/\s]+)*/build/make\.log)")
#: DKMS says for which kernel: "Building for RELEASE", "Bad return status for module build on kernel: RELEASE".
_KERNEL = re.compile(r"(?:kernel:?|Building for) (?P<kernel>[0-9]+\.[0-9]+\.[0-9]+\S*)")
_COMPILER = (r"\berror: ", r"fatal error", r"undefined", r"unrecognized command", r"No such file", r"\*\*\*")


_DPKG_KILLED = re.compile(r"^E: Sub-process \S*dpkg received signal (?P<signal>[0-9]+)", re.MULTILINE)


class Build(NamedTuple):
    """A kernel module that DKMS could not build."""

    module: str
    version: str
    kernel: str
    log: str  # path on the node


def failed_build(output: str) -> Optional[Build]:
    """The module whose build failed, as DKMS names it in what apt printed."""
    log = _BUILD_LOG.search(output)
    if not log:
        return None
    kernel = _KERNEL.search(output)
    return Build(log["module"], log["version"], kernel["kernel"].rstrip(".,:") if kernel else "", log.group(1))


def killed(program: str, code: int, output: str) -> Optional[str]:
    """Whom of them somebody, or the kernel for want of memory, killed on the way; None where nobody was."""
    if code < 0:
        return f"{program} was killed (signal {-code})"
    found = _DPKG_KILLED.search(output)
    return f"dpkg was killed (signal {found['signal']})" if found else None


def compiler_line(log: str) -> str:
    """The line of a build log that says why."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for pattern in _COMPILER:
        found = next((line for line in lines if re.search(pattern, line)), None)
        if found:
            return found[:_LONGEST]
    return lines[-1][:_LONGEST] if lines else "its log says nothing"


def explained(output: str) -> Dict[str, str]:
    """{said, fix} of a failed apt-get: its own words, and the way out."""
    lines = [line.strip() for line in output.splitlines()]
    errors = [
        # dpkg says what it was doing, and on the next line why that failed.
        f"{line} {after}".strip() if line.startswith("dpkg: error processing") else line
        for line, after in zip(lines, [*lines[1:], ""])
        if line.startswith(("E:", "dpkg: error"))
    ]
    unmet = [line for line in lines if re.match(r"\S+ : (Depends|Conflicts|Breaks|PreDepends):", line)]
    said = _shown([*unmet, *errors]) or _shown(lines[-_LINES:]) or "it said nothing"
    for known in _KNOWN:
        if re.search(known.pattern, output):
            return {"said": said, "fix": known.fix}
    return {"said": said, "fix": "see /var/log/apt/term.log on the node, mend what it names, then run again"}


def _shown(lines: List[str]) -> str:
    return "; ".join(_short(line) for line in list(dict.fromkeys(filter(None, lines)))[:_LINES])


def _short(line: str) -> str:
    """Without its middle where it is long: what happened stands in front, why at the end."""
    half = _LONGEST // 2
    return line if len(line) <= _LONGEST else f"{line[:half]} ... {line[-half:]}"
