"""The name of a resource: what reasons call it, and the key of its fingerprint in the manifest."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Mapping


def name_of(entry: Any) -> str:
    """Of an entry of meta/resources.yml: itself, or the `path` or `family` of one with several keys."""
    if isinstance(entry, Mapping):
        return str(entry.get("path") or entry.get("family") or entry)
    return str(entry)
