"""The words behind `ssh` -> where it goes and by which options, with the limits a pasted line must keep.

A line may come out of somebody else's mail. So an option is taken over only when it is known to do no harm: none that
runs a command here, loads a file of settings, or says which host key to believe.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.addresses import (
    Address,
    address,
    is_host,
    is_user,
    port_number,
)

_FLAGS = "46AaCfGgKkMNnqsTtVvXxYy"
_WITH_VALUE = "BbcDEeFIiJLlmOoPpQRSWw"
#: Options that say how to get there and nothing else, by ssh's own spelling.
_KEPT = {
    name.lower(): name
    for name in (
        *("AddressFamily", "BindAddress", "BindInterface", "CertificateFile", "Ciphers", "Compression"),
        *("ConnectTimeout", "ConnectionAttempts", "HostKeyAlgorithms", "HostName", "IdentitiesOnly", "IPQoS"),
        *("KexAlgorithms", "MACs", "PubkeyAcceptedAlgorithms", "PubkeyAcceptedKeyTypes", "RekeyLimit"),
        *("RequiredRSASize", "ServerAliveCountMax", "ServerAliveInterval", "TCPKeepAlive"),
    )
}
#: Options that say which host key to believe. Providers' mails are full of them.
_BELIEVING = {
    *("stricthostkeychecking", "userknownhostsfile", "globalknownhostsfile", "checkhostip", "verifyhostkeydns"),
    *("nohostauthenticationforlocalhost", "hostkeyalias", "updatehostkeys", "knownhostscommand"),
}
#: Options that have no bearing on how a node is reached by a program.
_IDLE = {
    *("loglevel", "hashknownhosts", "batchmode", "controlmaster", "controlpath", "controlpersist", "requesttty"),
    *("preferredauthentications", "passwordauthentication", "pubkeyauthentication", "numberofpasswordprompts"),
    *("forwardagent", "forwardx11", "forwardx11trusted", "localforward", "remoteforward", "dynamicforward"),
    *("exitonforwardfailure", "addkeystoagent", "visualhostkey", "sendenv", "setenv", "escapechar", "gatewayports"),
}
# Nothing that a shell, a template or ssh's own tokens (%h) would read.
_VALUE = re.compile(r"[A-Za-z0-9@+=:,./_~^*-]+$")
_KEY = re.compile(r"[^\x00-\x1f\x7f{}\"'\\%$`-][^\x00-\x1f\x7f{}\"'\\%$`]*$")


class Line(NamedTuple):
    """What a command line says. ``rest``: the words behind it."""

    place: Address
    key: Optional[str]
    jump: Optional[str]
    options: Tuple[str, ...]
    notes: Tuple[str, ...]
    rest: Tuple[str, ...]


def read(words: Sequence[str]) -> Optional[Line]:
    """The options and the destination, as ssh itself reads them; None where there is no destination."""
    said = _Said()
    place: Optional[Address] = None
    todo = list(words)
    while todo:
        word = todo[0]
        if word == "--":
            todo.pop(0)
            continue
        if word.startswith("-") and len(word) > 1:
            todo.pop(0)
            if not said.option(word[1:], todo):
                return None
            continue
        if place is not None:
            break
        place = address(word)
        if place is None:
            return None
        todo.pop(0)
    if place is None:
        return None
    return Line(
        place._replace(user=said.user or place.user, port=said.port or place.port),
        said.key,
        said.jump,
        tuple(said.options.values()),
        tuple(said.notes),
        tuple(todo),
    )


class _Said:
    """The options so far. The first value of an option counts, as in ssh."""

    def __init__(self) -> None:
        self.user: Optional[str] = None
        self.port: Optional[int] = None
        self.key: Optional[str] = None
        self.jump: Optional[str] = None
        self.options: Dict[str, str] = {}
        self.notes: List[str] = []

    def option(self, letters: str, behind: List[str]) -> bool:
        """One word of options, such as -p20022 or -NfL; takes its value from the words behind where it needs one."""
        for at, letter in enumerate(letters):
            if letter in _WITH_VALUE:
                value = letters[at + 1 :] or (behind.pop(0) if behind else "")
                return self._value(letter, value)
            if letter not in _FLAGS:
                return False
            if letter in "46":
                self._keep("addressfamily", "inet" if letter == "4" else "inet6")
        return True

    def _value(self, letter: str, value: str) -> bool:
        if letter == "o":
            name, _sign, text = value.partition("=") if "=" in value else value.partition(" ")
            return self._named(name.strip(), text.strip())
        named = {"p": "port", "l": "user", "i": "identityfile", "J": "proxyjump", "b": "bindaddress"}.get(letter)
        if named:
            return self._named(named, value)
        if letter == "F":
            self.notes.append("-F is left out; `fab -S FILE adopt ...` names a file of ssh's settings for all nodes")
        return True

    def _named(self, name: str, value: str) -> bool:
        """False where a value cannot be what it has to be: the line is then no address."""
        low = name.lower()
        if low == "port":
            number = port_number(value)
            self.port = self.port or number
            return number is not None
        if low == "user":
            self.user = self.user or value
            return is_user(value)
        if low == "identityfile":
            self.key = self.key or value
            return bool(_KEY.match(value))
        if low == "proxyjump":
            if value.lower() == "none":
                return True
            self.jump = self.jump or value
            return all(_is_jump(one) for one in value.split(","))
        self._keep(low, value)
        return True

    def _keep(self, low: str, value: str) -> None:
        if low in _KEPT and _VALUE.match(value) and (low != "hostname" or is_host(value)):
            self.options.setdefault(low, f"{_KEPT[low]}={value}")
        elif low in _BELIEVING:
            self.notes.append("what it says about host keys is left out: they are always checked")
        elif low not in _IDLE:
            shown = low if re.match(r"[a-z0-9]{1,40}$", low) else "an option"
            self.notes.append(f"{shown} is not taken over from a line; put it in ~/.ssh/config for that host")


def _is_jump(word: str) -> bool:
    place = address(word)
    return place is not None and not place.secret
