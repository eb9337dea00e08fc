"""Asks an index how much room wheels take: their size, and what they unpack to (from the archive's directory)."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping

from ansible_collections.trainrig.gpu.plugins.plugin_utils.index_client import Client, ReadError, shown
from ansible_collections.trainrig.gpu.plugins.plugin_utils.remote_file import opened

_INDEXES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
#: Without the name that uv takes before an index: `name=https://...`.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s,]+")


class SizeError(Exception):
    """A wheel whose size cannot be learned; the text is for people."""


class WheelSizes:
    """Sizes of wheels by address. `env`: the variables that uv gets, for the connection and the credentials."""

    def __init__(self, env: Mapping[str, str]) -> None:
        try:
            # A resolution names files without the credentials of the index they are on.
            self._client = Client(env, _ADDRESS.findall(" ".join(env.get(name, "") for name in _INDEXES)))
        except (ReadError, ValueError) as error:
            raise SizeError(f"cannot learn the sizes of wheels: {error}") from error
        self._found: dict[str, tuple[int, int]] = {}

    def of(self, address: str) -> tuple[int, int]:
        """(bytes to download, bytes when unpacked)."""
        if address not in self._found:
            try:
                self._found[address] = self._ask(address)
            except (OSError, ValueError, zipfile.BadZipFile, ReadError) as error:
                raise SizeError(f"cannot learn the size of {shown(address)}: {error}") from error
        return self._found[address]

    def _ask(self, address: str) -> tuple[int, int]:
        # Where no parts are served the wheel comes whole.
        stream = opened(self._client, address) or io.BytesIO(self._client.get(address).body)
        with stream, zipfile.ZipFile(stream) as archive:
            return stream.seek(0, io.SEEK_END), sum(entry.file_size for entry in archive.infolist())
