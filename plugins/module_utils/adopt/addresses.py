"""One word -> user, host and port, as far as the word can be a place that ssh reaches."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple, Optional

# No word may begin with a dash: ssh would read it as an option.
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}\$?$")
_URL = re.compile(r"ssh://(?:([^@/\s]*)@)?([^@/\s]+?)/?$", re.I)
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?)\](?::([0-9]{1,5}))?$")


class Address(NamedTuple):
    """Where ssh is to go. ``secret``: the word held a password, which is not kept."""

    host: str
    user: Optional[str] = None
    port: Optional[int] = None
    secret: bool = False


def address(word: str) -> Optional[Address]:
    """``host``, ``user@host``, ``host:port``, ``[v6]:port`` or ``ssh://user@host:port``; None for anything else."""
    url = _URL.match(word)
    if url:
        user, place = url[1], url[2]
    else:
        before, at, place = word.rpartition("@")
        user = before if at else None
    secret = False
    if user is not None:
        # user:password, and user;fingerprint=... as the URL scheme has it.
        user, colon, _password = user.partition(";")[0].partition(":")
        secret = bool(colon)
        if not _USER.match(user):
            return None
    found = _place(place)
    return found and found._replace(user=user, secret=secret)


def _place(text: str) -> Optional[Address]:
    bracketed = _BRACKETED.match(text)
    if bracketed:
        return _with_port(bracketed[1], bracketed[2]) if is_ip(bracketed[1]) else None
    if is_ip(text):
        return Address(text)
    host, colon, port = text.partition(":")
    if not is_host(host) or (colon and not port):
        return None
    return _with_port(host, port or None)


def _with_port(host: str, port: Optional[str]) -> Optional[Address]:
    if port is None:
        return Address(host)
    number = port_number(port)
    return None if number is None else Address(host, None, number)


def port_number(text: str) -> Optional[int]:
    """A TCP port; None for anything else."""
    if not re.match(r"[0-9]{1,5}$", text):
        return None
    return int(text) if 0 < int(text) < 65536 else None


def is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def is_host(text: str) -> bool:
    """An address, or a name. A number, or a version such as 12.4, is no name."""
    if is_ip(text):
        return True
    return bool(_NAME.match(text)) and ".." not in text and not re.match(r"[0-9.]+$", text)


def is_user(text: str) -> bool:
    return bool(_USER.match(text))


def shown(host: str, user: Optional[str] = None, port: Optional[int] = None) -> str:
    """user@host:port for people; a port only where it is not ssh's own."""
    place = f"[{host}]:{port}" if port and ":" in host else f"{host}:{port}" if port else host
    return f"{user}@{place}" if user else place
