"""Strips Ansible's tagged and lazy types, once, where an action plugin receives them."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """The same value made of built-in types only (dict, list, str, int, float, bool, None).

    A value Ansible reads from YAML is a subclass that carries its origin; a lazy container templates on access.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value if value is None else str(value)


def origin(value: Any) -> str | None:
    """Where a value was written, as ``path:line``, when this ansible-core can tell."""
    try:
        from ansible._internal._datatag._tags import Origin  # the only place that knows; private, so optional
    except ImportError:
        return None
    tag = Origin.get_tag(value)
    return None if tag is None else str(tag)
