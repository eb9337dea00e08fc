"""What a node answers about itself before anything of ours runs there: one shell script, one `key=value` a line."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

#: The oldest Python under which modules run.
OLDEST_PYTHON = (3, 8)
#: Where Ansible looks first (interpreter_python of ansible.cfg).
PYTHON = "/usr/bin/python3"
_PYTHON_NAME = re.compile(r"/usr/bin/python3(?:\.[0-9]{1,2})?$")
SCRIPT = r"""
say() { printf '%s=%s\n' "$1" "$2"; }
say user "$(id -un 2>/dev/null)"
say uid "$(id -u)"
say hostname "$(uname -n)"
say machine_id "$(cat /etc/machine-id 2>/dev/null)"
say boot_id "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
say pid_namespace "$(readlink /proc/self/ns/pid 2>/dev/null)"
say init "$(cat /proc/1/comm 2>/dev/null)"
for mark in /.dockerenv /run/.containerenv /run/systemd/container; do [ -e "$mark" ] && say mark "$mark"; done
[ -d /run/systemd/system ] && say systemd yes
for python in /usr/bin/python3 /usr/bin/python3.[0-9] /usr/bin/python3.[0-9][0-9]; do
  [ -x "$python" ] || continue
  say python "$python $("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)"
done
for manager in apt-get dnf; do command -v "$manager" >/dev/null 2>&1 && say manager "$manager"; done
if command -v sudo >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ]; then say sudo there
  # Its last line is the verdict; complaints that the own name does not resolve come before it.
  else say sudo "$({ sudo -n true 2>&1 && echo works; } | tail -n 1)"; fi
fi
"""


class Node(NamedTuple):
    """A node as its login shows it."""

    user: str
    root: bool
    hostname: str
    machine_id: str
    live: str  # kernel start and process namespace: equal only for the same running system
    init: str
    systemd: bool
    marks: Tuple[str, ...]
    pythons: Tuple[Tuple[str, Tuple[int, int]], ...]
    manager: Optional[str]
    sudo: Optional[str]  # there | works | password | refused | tty; None: not installed
    sudo_said: str = ""

    def python(self) -> Optional[str]:
        """The Python that modules can run under: the usual one, else the newest beside it."""
        good = [(path, version) for path, version in self.pythons if version >= OLDEST_PYTHON]
        if any(path == PYTHON for path, _version in good):
            return PYTHON
        return max(good, key=lambda one: one[1])[0] if good else None

    def is_container(self, observation: Optional[Mapping[str, Any]] = None) -> bool:
        """No kernel or no init of its own: nothing that needs either can be set up there."""
        machine = (observation or {}).get("machine") or {}
        return bool(machine.get("container")) or bool(self.marks) or (not self.systemd and self.init != "init")


def node(text: str) -> Optional[Node]:
    """The answer of SCRIPT; None where it is none (a shell of another kind, a banner instead of a login)."""
    said: List[Tuple[str, str]] = []
    for line in text.split("\n"):
        key, sign, value = line.partition("=")
        if sign and re.match(r"[a-z_]{1,20}$", key):
            said.append((key, value.strip()))
    first = dict(reversed(said))
    if not first.get("uid", "").isdigit():
        return None
    machine = first.get("machine_id", "").lower()
    sudo, sudo_said = _sudo(first.get("sudo"))
    boot, space = first.get("boot_id", ""), first.get("pid_namespace", "")
    return Node(
        user=first.get("user") or first["uid"],
        root=first["uid"] == "0",
        hostname=first.get("hostname", ""),
        machine_id=machine if re.match(r"[0-9a-f]{32}$", machine) else "",
        live=f"{boot} {space}" if boot else "",
        init=first.get("init", ""),
        systemd=first.get("systemd") == "yes",
        marks=tuple(value for key, value in said if key == "mark"),
        pythons=tuple(found for key, value in said if key == "python" for found in _python(value)),
        manager=first.get("manager"),
        sudo=sudo,
        sudo_said=sudo_said,
    )


def _python(value: str) -> List[Tuple[str, Tuple[int, int]]]:
    path, _space, version = value.partition(" ")
    match = re.match(r"([0-9]{1,2})\.([0-9]{1,3})$", version)
    return [(path, (int(match[1]), int(match[2])))] if match and _PYTHON_NAME.match(path) else []


def _sudo(said: Optional[str]) -> Tuple[Optional[str], str]:
    """sudo's own words, told apart: each needs another answer."""
    if said is None:
        return None, ""
    if said in ("there", "works"):
        return said, ""
    low = said.lower()
    if "tty" in low and "askpass" not in low:
        return "tty", said
    if "password" in low:
        return "password", said
    return "refused", said
