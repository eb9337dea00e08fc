"""What on a node is trainrig's own: packages and holds that the manifest's entries name."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Mapping, Set

#: Kinds of resources that an interrupted run may have put in place only in part.
MERGED = ("packages", "holds")


def ours(entry: Any, kind: str) -> Set[str]:
    """Names that a layer's entry has, as applied (`resources`) or as begun (`ours`). Anything else is no entry."""
    if not isinstance(entry, Mapping):
        return set()
    parts = [entry.get(key) for key in ("resources", "ours")]
    names = [part.get(kind) for part in parts if isinstance(part, Mapping)]
    return {str(name) for found in names if isinstance(found, list) for name in found}


def of_manifest(manifest: Any, kind: str) -> Set[str]:
    """Those of all layers."""
    layers = manifest.get("layers") if isinstance(manifest, Mapping) else None
    return {name for entry in layers.values() for name in ours(entry, kind)} if isinstance(layers, Mapping) else set()
