"""Reads the facts under data/ on the controller (a module's zip cannot carry them)."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

#: The collection's root: the checkout, or where `ansible-galaxy collection install` put it.
ROOT = Path(__file__).resolve().parents[2]


@lru_cache(maxsize=None)
def load(name: str) -> dict[str, Any]:
    """Return data/<name>.yml as plain Python types. Callers share the result: do not change it."""
    with (ROOT / "data" / f"{name}.yml").open(encoding="utf-8") as stream:
        content: dict[str, Any] = yaml.safe_load(stream)
    return content


def revision(names: Iterable[str]) -> str:
    """One value for the content of data/<name>.yml of all names, comments included."""
    digest = hashlib.sha256()
    for name in sorted(names):
        content = (ROOT / "data" / f"{name}.yml").read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
