"""Opens a file by its address to be read in parts: one on this machine, or one of a server that serves byte ranges.

A wheel's directory stands at its end, and just before it newer wheels have METADATA: some 2 MB of a gigabyte tell all.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import io
import urllib.parse
from pathlib import Path

from ansible_collections.trainrig.gpu.plugins.plugin_utils.index_client import Answer, Client, ReadError, shown

#: The directory of a wheel of some ten thousand files; fetched at once.
_TAIL_BYTES = 1 << 21
_PIECE_BYTES = 1 << 16


def opened(client: Client, url: str) -> RemoteFile | io.BufferedReader | None:
    """The file; None where its server serves only the whole of it. OSError or ReadError where there is none."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme in ("", "file"):
        return Path(urllib.parse.unquote(parts.path)).open("rb")
    tail = client.get(url, span=f"-{_TAIL_BYTES}")
    if tail.status == 404:
        raise FileNotFoundError("the server does not have it (HTTP 404)")
    return RemoteFile(client, url, tail) if tail.body else None


class RemoteFile(io.RawIOBase):
    """A file of which the end is here; other parts are fetched when they are read."""

    def __init__(self, client: Client, url: str, tail: Answer) -> None:
        super().__init__()
        self._client, self._url, self._total = client, url, tail.total
        self._start, self._held, self._position = tail.total - len(tail.body), tail.body, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._total}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._total if size < 0 else min(self._total, self._position + size)
        if end <= self._position:
            return b""
        if self._position < self._start or end > self._start + len(self._held):
            self._fetch(max(end, min(self._total, self._position + _PIECE_BYTES)))
        piece = self._held[self._position - self._start : end - self._start]
        self._position += len(piece)
        return piece

    def _fetch(self, end: int) -> None:
        answer = self._client.get(self._url, span=f"{self._position}-{end - 1}")
        if (len(answer.body), answer.total) != (end - self._position, self._total):
            raise ReadError(f"{shown(self._url)} became another file while it was read. To fix it: try again")
        self._start, self._held = self._position, answer.body
