"""Source archives of a lock: name, tag, size and SHA-256 of a file that the user names."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import urllib.error
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.urls import open_url
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.urls import shown

_BLOCK = 1 << 20


class SourceError(Exception):
    """Why an archive cannot be locked; the text is for people."""


def locked_source(row: Mapping[str, str]) -> dict[str, Any]:
    """What the lock says of an archive. `row`: name, tag, and archive, a path on the controller or an address."""
    archive, digest, size = row["archive"], hashlib.sha256(), 0
    key = f"trainrig_lock.sources.{row['name']}.archive: {shown(archive)}"
    try:
        with _opened(archive) as stream:
            told = getattr(stream, "headers", {}).get("Content-Length")
            while block := stream.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except Exception as error:  # open_url raises what its transports raise
        text = f"{key}: cannot be read: {_why(error, archive)}"
        # Without the cause: Ansible would print it, and urllib's texts quote addresses.
        raise SourceError(f"{text}. To fix it: name a file or an address that this machine can read") from None
    if told and int(told) != size:
        raise SourceError(f"{key}: {size} of {told} bytes came. To fix it: run it again, or fetch the file yourself")
    if not size:
        raise SourceError(f"{key}: is empty (0 bytes). To fix it: name the archive itself, as a whole")
    return {"name": row["name"], "tag": row["tag"], "size": size, "sha256": digest.hexdigest()}


def _opened(archive: str) -> Any:
    """The bytes as they are served: a .tar.gz that a server calls gzip-encoded must not be unpacked on the way."""
    return open_url(archive, timeout=60, decompress=False) if "://" in archive else Path(archive).open("rb")


def _why(error: Exception, archive: str) -> str:
    """The reason. Of an address with something to hide, only what cannot quote it."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    reason = getattr(error, "reason", error)
    told = getattr(reason, "strerror", None)
    return told or (str(reason) if shown(archive) == archive else type(reason).__name__)
