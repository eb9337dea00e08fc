"""Asks an index how much room wheels take: their size, and what they unpack to (from the archive's directory)."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import base64
import io
import re
import ssl
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_options import mask

_TIMEOUT_S = 60
_INDEXES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
#: Where the directory of a wheel of some thousand files begins, counted from its end.
_TAIL_BYTES = 1 << 21


class SizeError(Exception):
    """A wheel whose size cannot be learned; the text is for people."""


class WheelSizes:
    """Sizes of wheels by address. `env`: the variables that uv gets, for proxy and certificates."""

    def __init__(self, env: Mapping[str, str]) -> None:
        proxy = env.get("HTTPS_PROXY") or env.get("ALL_PROXY")
        handlers: list[urllib.request.BaseHandler] = []
        if proxy:
            handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
        context = ssl.create_default_context(cafile=env.get("SSL_CERT_FILE") or None)
        handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)
        self._found: dict[str, tuple[int, int]] = {}
        # A resolution names files without the credentials of the index they are on.
        texts = re.split(r"[\s,]+", " ".join(env.get(name, "") for name in _INDEXES))
        parts = [urllib.parse.urlsplit(text) for text in texts if "@" in text]
        self._credentials = {(part.hostname, part.port): part for part in parts if part.username}

    def of(self, address: str) -> tuple[int, int]:
        """(bytes to download, bytes when unpacked)."""
        if address not in self._found:
            try:
                self._found[address] = self._ask(address)
            except (OSError, ValueError, zipfile.BadZipFile) as error:
                raise SizeError(f"cannot learn the size of {mask(address)}: {error}") from error
        return self._found[address]

    def _ask(self, address: str) -> tuple[int, int]:
        parts = urllib.parse.urlsplit(address)
        if parts.scheme in ("", "file"):
            path = Path(urllib.parse.unquote(parts.path))
            with zipfile.ZipFile(path) as archive:
                return path.stat().st_size, sum(entry.file_size for entry in archive.infolist())
        tail, total = self._tail(parts)
        # The directory stands at the archive's end; zeros stand for the part that was not fetched.
        with zipfile.ZipFile(_Tail(tail, total)) as archive:
            return total, sum(entry.file_size for entry in archive.infolist())

    def _tail(self, parts: urllib.parse.SplitResult) -> tuple[bytes, int]:
        host = parts.hostname or ""
        netloc = f"{host}:{parts.port}" if parts.port else host
        request = urllib.request.Request(urllib.parse.urlunsplit(parts._replace(netloc=netloc, fragment="")))
        request.add_header("Range", f"bytes=-{_TAIL_BYTES}")
        known = parts if parts.username else self._credentials.get((parts.hostname, parts.port))
        if known:
            pair = f"{urllib.parse.unquote(known.username or '')}:{urllib.parse.unquote(known.password or '')}"
            request.add_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
        with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
            whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
            if answer.status == 206 and whole.isdigit():
                return answer.read(), int(whole)
            content = answer.read()  # this server knows no ranges: the wheel came whole
            return content, len(content)


class _Tail(io.RawIOBase):
    """A file of which only the end is there."""

    def __init__(self, tail: bytes, total: int) -> None:
        super().__init__()
        self._tail, self._total, self._position = tail, total, 0

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
        start = self._position - (self._total - len(self._tail))
        if start < 0:
            raise ValueError("the archive's directory is larger than what was fetched")
        end = len(self._tail) if size < 0 else start + size
        piece = self._tail[start:end]
        self._position += len(piece)
        return piece
