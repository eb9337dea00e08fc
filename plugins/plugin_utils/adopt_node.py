"""What `fab adopt` does on a node: our public key, a Python that modules run under, sudo; only what is missing."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import shlex

from ansible_collections.trainrig.gpu.plugins.module_utils.adopt import node as answers
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.node import Node
from ansible_collections.trainrig.gpu.plugins.plugin_utils.bundle_over_ssh import Execute, framed

_ANSWER_S = 60.0
#: Until packages are there: a fresh machine first finishes its own first run.
_INSTALL_S = 1500.0

# The key's own two words are looked for, so that options and comments around it do not hide it.
_AUTHORIZE = r"""
umask 077
blob={blob}
[ -n "$HOME" ] || {{ echo "the login has no home directory" >&2; exit 1; }}
file=$HOME/.ssh/authorized_keys
if [ -f "$file" ] && grep -qF -- "$blob" "$file"; then
  was=there
else
  mkdir -p "$HOME/.ssh" || exit 1
  [ ! -s "$file" ] || [ -z "$(tail -c 1 "$file")" ] || echo >> "$file" || exit 1
  printf '%s\n' {line} >> "$file" || exit 1
  was=added
fi
# sshd does not read what others can write.
chmod go-w "$HOME/.ssh" "$file" || [ "$was" = there ] || exit 1
if command -v restorecon >/dev/null 2>&1; then restorecon -R "$HOME/.ssh" >/dev/null 2>&1; fi
echo "$was"
"""
# A lock is waited for, never removed; the lists' lock has no waiting of its own.
_APT = r"""
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l
{first_run}
apt() {{ apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"; }}
try=0
until apt update >/dev/null; do
  try=$((try + 1)); [ "$try" -lt 10 ] || exit 1
  sleep 15
done
apt install --no-install-recommends {packages} >/dev/null
"""
_DNF = r"""
{first_run}
dnf -q -y install {packages} >/dev/null
"""
_FIRST_RUN = (
    "if command -v cloud-init >/dev/null 2>&1; then timeout 600 cloud-init status --wait >/dev/null 2>&1 || :; fi"
)
#: For systems whose usual Python is too old: newer ones by the names that distributions gave them, the newest first.
_NEWER = {
    "apt-get": ("python3.12", "python3.11", "python3.10", "python3.9", "python3.8"),
    "dnf": ("python3.12", "python3.11", "python39", "python38"),
}


class Failed(Exception):
    """A step on the node failed: what, and what to do about it."""

    def __init__(self, text: str, fix: str) -> None:
        super().__init__(text)
        self.fix = fix


def ask(execute: Execute) -> Node:
    """Who and what the node is."""
    answer = execute(framed(answers.SCRIPT), _ANSWER_S)
    found = answers.node(answer.text)
    if found is None:
        raise Failed("no POSIX shell answers there", "log in by hand: is it a Linux node?")
    return found


def authorize(execute: Execute, public_key: str) -> bool:
    """Put our public key among those that may log in; True where it was not there."""
    blob = public_key.split()[1]
    script = _AUTHORIZE.format(blob=shlex.quote(blob), line=shlex.quote(public_key.strip()))
    answer = execute(framed(script), _ANSWER_S)
    if answer.rc:
        raise Failed(f"our key could not be added: {_last(answer.err)}", "see ~/.ssh there")
    return answer.text.split()[:1] == ["added"]


def missing(node: Node) -> list[str]:
    """What has to be installed: by the names that all systems have for them."""
    return [*([] if node.python() else ["python3"]), *([] if node.sudo else ["sudo"])]


def provide(node: Node, root: Execute | None, execute: Execute) -> tuple[Node, list[str]]:
    """A Python and sudo where they are missing; the node as it is then, and what was installed.

    ``root``: a shell as root, None where there is none.
    """
    wanted = missing(node)
    if not wanted:
        return node, []
    names = " and ".join(wanted)
    if root is None:
        raise Failed(f"{names} missing, and {node.user} cannot become root", f"adopt it as root, or install {names}")
    if node.manager is None:
        raise Failed(f"{names} missing, and neither apt-get nor dnf is there", f"install {names} by hand")
    done: list[str] = []
    _install(root, node.manager, wanted)
    after = ask(execute)
    for newer in _NEWER[node.manager] if after.python() is None else ():
        try:
            _install(root, node.manager, [newer])
        except Failed:
            continue  # this system does not have that one
        after = ask(execute)
        if after.python():
            done.append(newer)
            break
    if missing(after):
        oldest = ".".join(map(str, answers.OLDEST_PYTHON))
        raise Failed("its packages hold no Python that modules run under", f"install Python {oldest} or newer by hand")
    return after, [*wanted, *done]


def _install(root: Execute, manager: str, packages: list[str]) -> None:
    script = _APT if manager == "apt-get" else _DNF
    answer = root(framed(script.format(packages=" ".join(packages), first_run=_FIRST_RUN)), _INSTALL_S)
    if answer.rc:
        said = _last(answer.err)
        raise Failed(f"{manager} could not install {' '.join(packages)}: {said}", f"install {' '.join(packages)} there")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
