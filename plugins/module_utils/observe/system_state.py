"""The present state of packages and their families, holds, units, kernel modules; one question for all of a kind."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import subprocess
from typing import Any, Dict, List, Mapping, Sequence

State = Dict[str, Any]
_SECONDS = 30
_UNIT_KEYS = ("LoadState", "ActiveState", "UnitFileState")


def packages(names: Sequence[str]) -> Dict[str, State]:
    """Installed Debian packages: name -> {state, version}."""
    form = "${Package}\t${Version}\t${db:Status-Abbrev}\n"
    # Status 1: some of the names are not known here; the others are printed all the same.
    lines = _asked(["dpkg-query", "--show", f"--showformat={form}", *names], accepted=(0, 1))
    found: Dict[str, State] = {name: {"state": "absent"} for name in names}
    for name, version, status in (line.split("\t") for line in lines):
        if status.startswith(("ii", "hi")) and name in found:
            found[name] = {"state": "installed", "version": version}
        elif not status.startswith(("un", "rc")) and name in found:
            found[name] = {"state": "half installed", "version": version}
    return found


def family(entry: Mapping[str, Any]) -> State:
    """Every installed Debian package that fits a pattern of `is` and none of `not`: {packages: {name: version}}."""
    inside, outside = (re.compile("|".join(entry.get(key) or ["(?!)"])) for key in ("is", "not"))
    found = {}
    for line in _asked(["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}\t${Package}\t${Version}\n"]):
        status, name, version = line.split("\t")
        if not status.startswith(("un", "rc")) and inside.match(name) and not outside.match(name):
            found[name] = version
    return {"packages": found}


def holds(names: Sequence[str]) -> Dict[str, State]:
    """Which packages are kept as they are: name -> {state}."""
    held = set(_asked(["apt-mark", "showhold"]))
    return {name: {"state": "held" if name in held else "not held"} for name in names}


def units(names: Sequence[str]) -> Dict[str, State]:
    """Units of systemd: name -> {state, enabled}."""
    text = _asked(["systemctl", "show", f"--property=Id,{','.join(_UNIT_KEYS)}", *names])
    blocks = "\n".join(text).split("\n\n")
    found: Dict[str, State] = {}
    for name, block in zip(names, blocks):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        state = fields.get("ActiveState", "") if fields.get("LoadState") == "loaded" else fields.get("LoadState", "")
        found[name] = {"state": state, "enabled": fields.get("UnitFileState", "")}
    return found


def modules(names: Sequence[str]) -> Dict[str, State]:
    """Kernel modules: name -> {state}."""
    try:
        with open("/proc/modules", encoding="ascii") as stream:
            loaded = {line.split(" ", 1)[0] for line in stream}
    except FileNotFoundError:
        loaded = set()  # a kernel without loadable modules
    return {name: {"state": "loaded" if name.replace("-", "_") in loaded else "not loaded"} for name in names}


def _asked(command: Sequence[str], accepted: Sequence[int] = (0,)) -> List[str]:
    """The lines that a command prints; OSError where it cannot be run or fails."""
    done = subprocess.run(list(command), capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode not in accepted:
        raise OSError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[:200]}")
    return done.stdout.splitlines()
