"""Addresses that people write: what is malformed about one, and how it is shown without what could be a password."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Optional, Tuple
from urllib.parse import urlsplit

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_NETWORK = ("http", "https", "ftp")
#: Without a scheme: me:secret@host/path.
_FORGOTTEN_SCHEME = re.compile(r"[^/]*:.*@", re.DOTALL)
_ESCAPES = (
    "write a port as a number, and in a name or password %2F for /, %23 for #, %3F for ?, %40 for @, %20 for a space"
)


def malformed(url: str) -> Optional[Tuple[str, str]]:
    """(What is wrong, what to do), in words that quote nothing of the address."""
    scheme, separator, _rest = url.partition(":/")
    if not separator or not _SCHEME.fullmatch(scheme):
        return "has no scheme", "begin it with https://, http:// or file:///"
    if re.search(r"[\s\x00-\x1f\x7f]", url):
        return "has a space in it", "take the space out, or write %20 for it"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text quotes what was taken for the port, which may be half a password
        return "its host or port cannot be read", _ESCAPES
    if scheme.lower() in _NETWORK and not parts.hostname:
        return "has no host", f"write {scheme}://HOST/PATH"
    # A password that begins with digits and has a raw / looks like a port: http://me:12/3@host/
    if port is not None and "@" not in parts.netloc and "@" in url:
        return "has an @ behind its port", _ESCAPES
    return None


def shown(text: str) -> str:
    """The text as it may be printed: of an address no credentials, no query, and nothing that could be part of them."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return "***" if _FORGOTTEN_SCHEME.match(text) else text
    if not _SCHEME.fullmatch(scheme):
        return "***"
    if malformed(text):
        return f"{scheme}://***" if re.search("[@:?#]", rest) else text
    parts = urlsplit(text)
    if "@" in parts.path + parts.query + parts.fragment:  # what stands before it may be a password with a raw / ? #
        return f"{scheme}://***"
    user, _at, host = parts.netloc.rpartition("@")
    return f"{scheme}://{'***@' if user else ''}{host}{parts.path}{'?***' if parts.query else ''}"
