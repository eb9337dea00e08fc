"""Probes that are JSON documents: the looked-at Python environment, and trainrig's own state files."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading

_TORCH = ("version", "cuda", "archs", "nccl", "cuda_available", "device_count", "error")


def _document(reading: Reading) -> dict[str, Any] | None:
    try:
        value = json.loads(reading.text)
    except (ValueError, RecursionError) as error:
        reading.unreadable(f"not JSON: {error}" if reading.text.strip() else "empty")
        return None
    if not isinstance(value, dict):
        reading.unreadable("not a JSON object")
        return None
    return value


def _texts(value: Any) -> dict[str, str] | None:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else None


def python_env(reading: Reading) -> Facts:
    value = _document(reading)
    if value is None:
        return {}
    packages = value.get("packages")
    torch = value.get("torch")
    return {
        "python_env": {
            "interpreter": value.get("interpreter"),
            "python": value.get("python"),
            "packages": [
                {"name": entry["name"], "version": entry.get("version")}
                for entry in packages
                if isinstance(entry, dict) and isinstance(entry.get("name"), str)
            ]
            if isinstance(packages, list)
            else None,
            "torch": {**dict.fromkeys(_TORCH), **torch} if isinstance(torch, dict) else None,
            "env": _texts(value.get("env")),
            "pip_config": _texts(value.get("pip_config")),
        }
    }


def manifest(reading: Reading) -> Facts:
    value = _document(reading)
    return {} if value is None else {"manifest": value}


def pending_reboot(reading: Reading) -> Facts:
    value = _document(reading)
    return {} if value is None else {"pending_reboot": value}
