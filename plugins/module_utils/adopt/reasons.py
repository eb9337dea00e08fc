"""Why ssh did not get there, in words for people, with what to do: from what ssh itself said."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import NamedTuple, Optional


class Reason(NamedTuple):
    text: str
    fix: str


_CHANGED = re.compile(r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed")
_BY_WORDS = (
    (r"Could not resolve hostname|Name or service not known", "the name does not resolve", "give its IP address"),
    (r"Connection refused", "nothing listens on that port", "check the port; is the node up?"),
    (r"timed out|Timeout", "no answer", "check address and port, firewall and VPN; is the node up?"),
    (r"No route to host|Network is unreachable", "no way there", "check the address, and the VPN"),
    (r"no such identity|invalid format|error in libcrypto", "the key file cannot be used", "check the file behind -i"),
    (r"UNPROTECTED PRIVATE KEY|bad permissions", "the key file can be read by others", "chmod 600 the file behind -i"),
    (
        r"Too many authentication failures",
        "too many keys were tried",
        "name one with -i and -o IdentitiesOnly=yes",
    ),
    (r"no matching (?:host key|key exchange|cipher|MAC)", "ssh and the node share no algorithm", "update either side"),
    (r"Bad configuration option|Bad owner or permissions on", "ssh's own settings are broken", "see ~/.ssh/config"),
)


#: What ssh itself says where the connection ended before the two sides had spoken: behind a jump host, the jump's end.
_BEFORE = re.compile(r"kex_exchange_identification|ssh_exchange_identification|Connection closed by UNKNOWN")
_AFTER = re.compile(r"Permission denied|Received disconnect|Connection closed by \S+ port [0-9]+")


def is_changed_key(said: str, jump: Optional[str] = None) -> bool:
    """Whether the node's own key is the trouble, and not that of the jump host before it."""
    return bool(_CHANGED.search(said)) and not (jump and _BEFORE.match(_last(said)))


def is_reached(said: str) -> bool:
    """Whether the node itself turned the login down: its key had been checked by then."""
    return bool(_AFTER.search(_last(said))) and not _BEFORE.search(_last(said))


def reason(said: str, jump: Optional[str] = None, by_password: bool = False) -> Reason:
    """What ssh said, read from its last lines; a banner before it is not ours to repeat."""
    last = _last(said)
    if jump and _BEFORE.match(last):
        before = said[: said.rindex(last)]
        if "stdio forwarding failed" in before:
            why = reason(before)
            return Reason(f"seen from the jump host {jump}: {why.text}", why.fix)
        unknown = "its host key is not known here" if _CHANGED.search(before) else reason(before).text
        return Reason(f"the jump host {jump} did not let us through: {unknown}", f"log in to it once: ssh {jump}")
    if "Permission denied" in said:
        way = "the password and every key were refused" if by_password else "every key was refused"
        fix = "check user and password" if by_password else "name the key with -i, or give --password"
        return Reason(way, fix)
    for pattern, text, fix in _BY_WORDS:
        if re.search(pattern, said):
            return Reason(text, fix)
    return Reason(re.sub(r"^ssh: ", "", last)[:200] or "ssh said nothing", "try the ssh line by hand")


def _last(said: str) -> str:
    lines = [line.strip() for line in said.replace("\r", "").split("\n") if line.strip()]
    return lines[-1] if lines else ""
