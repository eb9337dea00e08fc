"""What decides whether a layer is still as it was applied: its inputs, as one canonical digest.

The inputs of a layer on one host are

* ``code``: SHA-256 of every file of its role and of every plugin and data file it uses,
* ``options``: every key of its argument_specs with its value (secrets as an HMAC),
* ``lock``: its slice of the host's lock profile,
* ``mode``: disk, oci or live,
* ``observed``: the facts of the machine it declared to depend on.

The digest is the SHA-256 of their canonical JSON; the manifest keeps the inputs beside it,
so that a difference can be named and not only noticed.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, Iterable, Mapping

Inputs = Dict[str, Any]


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, no ASCII escapes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def digest(inputs: Mapping[str, Any]) -> str:
    return sha256_text(canonical_json(inputs))


def lock_slice(profile: Mapping[str, Any] | None, keys: Iterable[str]) -> Dict[str, Any]:
    """The parts of a lock profile a layer depends on, by dotted key; a missing part is ``None``."""
    return {key: _dotted(profile or {}, key) for key in keys}


def _dotted(mapping: Mapping[str, Any], key: str) -> Any:
    value: Any = mapping
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
