"""Source archives of a lock: name, tag, size and SHA-256 of a file that the user names."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.urls import open_url
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_options import mask

#: Keys of one entry of `trainrig_lock.sources`.
_KEYS = ("name", "tag", "archive")
_BLOCK = 1 << 20


class SourceError(Exception):
    """Why an archive cannot be locked; the text is for people."""


def locked_source(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the lock says of an archive. `row`: name, tag, and archive, a path on the controller or an address."""
    name = row.get("name")
    for key in _KEYS:
        if not isinstance(row.get(key), str) or not row[key]:
            example = "{name: nccl-tests, tag: v2.17.6, archive: /srv/nccl-tests-2.17.6.tar.gz}"
            raise SourceError(f"trainrig_lock.sources.{name}.{key}: must be text. To fix it: write {example}")
    archive, digest, size = str(row["archive"]), hashlib.sha256(), 0
    try:
        with open_url(archive, timeout=60) if "://" in archive else Path(archive).open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except Exception as error:  # open_url raises what its transports raise
        text = f"trainrig_lock.sources.{name}.archive: {mask(archive)}: cannot be read: {error}"
        raise SourceError(f"{text}. To fix it: name a file or an address that this machine can read") from error
    return {"name": name, "tag": row["tag"], "size": size, "sha256": digest.hexdigest()}
