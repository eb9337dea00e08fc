"""Keys of both sides: which host keys may be believed, and which public key of ours goes on the nodes."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from ansible_collections.trainrig.gpu.plugins.module_utils.adopt import known_hosts
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.known_hosts import HostKey
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.reasons import Reason, is_changed_key, reason
from ansible_collections.trainrig.gpu.plugins.plugin_utils import adopt_ssh
from ansible_collections.trainrig.gpu.plugins.plugin_utils.adopt_ssh import Ssh

#: The order in which ssh tries a user's own keys.
_ORDER = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub", "id_ed25519_sk.pub", "id_ecdsa_sk.pub")
_PUBLIC_KEY = re.compile(r"(?:ssh|ecdsa|sk)[a-z0-9@.-]* [A-Za-z0-9+/]+={0,3}(?: [^\n]*)?$")


class NoKey(Exception):
    """There is no public key to install; the text says what to do."""


class OwnKey(NamedTuple):
    """Our public key. ``private``: its file for the inventory, where ssh would not find it by itself."""

    path: Path
    text: str
    private: str | None


class HostKeys(NamedTuple):
    """The keys of one node: ``trusted`` may be used, ``new`` are shown first, or there is a reason against it."""

    trusted: list[HostKey]
    new: list[HostKey]
    problem: Reason | None = None


def host_keys(ssh: Ssh, own: Path) -> HostKeys:
    """Look at the key that a node has now, and at what is known: in the inventory's file, then in the user's own."""
    files = [own, *adopt_ssh.user_files(ssh.settings)]
    scan = ssh.scan(files)
    jump = ssh.target.jump or ssh.settings.get("proxyjump")
    if not scan.reached:
        if is_changed_key(scan.said, jump):
            return HostKeys([], [], _changed(ssh, own, files))
        return HostKeys([], [], reason(scan.said, jump))
    if scan.found:
        return _new_or_moved(scan.found, own)
    trusted = adopt_ssh.find(ssh.place(), files)
    if trusted:
        return HostKeys(trusted, [])
    # Vouched for in a way that cannot be written down as this node's key (a certificate): shown like a new one.
    again = ssh.scan([])
    return HostKeys([], again.found, None if again.found else reason(again.said, jump))


def _new_or_moved(found: list[HostKey], own: Path) -> HostKeys:
    """A key that another address of the inventory has is known: nobody else can have it."""
    text = own.read_text(encoding="utf-8") if own.exists() else ""
    known = {key.blob for key in known_hosts.keys(text)}
    return HostKeys(found, []) if all(key.blob in known for key in found) else HostKeys([], found)


def _changed(ssh: Ssh, own: Path, files: list[Path]) -> Reason:
    place = ssh.place()
    old = next((path for path in files if adopt_ssh.find(place, [path])), own)
    return Reason(
        f"its host key is not the one in {old}: another machine answers there, or it was installed anew",
        f"ask the provider; if it is right: ssh-keygen -R '{place}' -f {old}",
    )


def own_key(named: str | None, needed: bool) -> OwnKey | None:
    """The key that --key names (either half), or the first of ~/.ssh/id_*.pub."""
    if named:
        path = Path(named).expanduser()
        public = path if path.suffix == ".pub" else path.with_name(path.name + ".pub")
        private = public.with_suffix("")
        if not public.is_file():
            raise NoKey(f"--key {named}: there is no {public}; make it: ssh-keygen -y -f {private} > {public}")
        return OwnKey(public, _text(public), str(private.absolute()) if private.is_file() else None)
    folder = Path.home() / ".ssh"
    there = sorted(folder.glob("id_*.pub"), key=lambda path: (_place_of(path.name), path.name))
    usable = [path for path in there if path.with_suffix("").is_file()] or there
    if not usable and needed:
        raise NoKey("there is no ~/.ssh/id_*.pub to log in with later; make a key: ssh-keygen -t ed25519")
    return OwnKey(usable[0], _text(usable[0]), None) if usable else None


def _place_of(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _text(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace").strip()
    if not _PUBLIC_KEY.match(text):
        raise NoKey(f"{path} is not a public key of one line")
    return text
