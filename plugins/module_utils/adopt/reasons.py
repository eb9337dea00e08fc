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


def is_changed_key(said: str) -> bool:
    return bool(_CHANGED.search(said))


def reason(said: str, jump: Optional[str] = None, by_password: bool = False) -> Reason:
    """What ssh said, read from its last lines; a banner before it is not ours to repeat."""
    lines = [line.strip() for line in said.replace("\r", "").split("\n") if line.strip()]
    last = lines[-1] if lines else "ssh said nothing"
    if jump and "UNKNOWN port" in last:
        known = "its host key is not known here" if is_changed_key(said) else "; ".join(lines[-2:-1]) or last
        return Reason(f"the jump host {jump} did not let us through: {known[:200]}", f"log in to it once: ssh {jump}")
    if "Permission denied" in said:
        way = "the password and every key were refused" if by_password else "every key was refused"
        fix = "check user and password" if by_password else "name the key with -i, or give --password"
        return Reason(way, fix)
    for pattern, text, fix in _BY_WORDS:
        if re.search(pattern, said):
            return Reason(text, fix)
    return Reason(re.sub(r"^ssh: ", "", last)[:200], "try the ssh line by hand")
