"""Reads what a build of an environment depends on, on the node: pip's and uv's settings, and the disk's space."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.pip_settings import config_files, read
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_options import UvSettings, translate


def uv_settings(
    variables: Mapping[str, Sequence[str]], env: Mapping[str, str], python_prefix: Optional[str]
) -> Tuple[UvSettings, List[str]]:
    """uv's options for this user on this node, and warnings about settings that could not be read."""
    home = env.get("HOME")
    texts, warnings = read_all(config_files(env, home, python_prefix))
    pip, more = read(texts, env)
    config_home = env.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    own = env.get("UV_CONFIG_FILE")
    uv_files = [own] if own else [f"{config_home}/uv/uv.toml", "/etc/uv/uv.toml"]
    uv_texts, unreadable = read_all(uv_files)
    return translate(pip, variables, env, [text for _path, text in uv_texts]), warnings + more + unreadable


def read_all(paths: Sequence[str]) -> Tuple[List[Tuple[str, str]], List[str]]:
    """(path, text) of the files that are there, and a warning for each that is there and cannot be read."""
    texts: List[Tuple[str, str]] = []
    warnings: List[str] = []
    for path in paths:
        try:
            texts.append((path, Path(path).read_text(encoding="utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UnicodeDecodeError) as error:
            warnings.append(f"{path}: not read ({error})")
    return texts, warnings


def missing_space(needs: Sequence[Tuple[str, int]]) -> List[Tuple[str, int, int]]:
    """(path, bytes needed, bytes free) for each file system that has too little for the sum of its paths' needs."""
    by_device: Dict[int, Tuple[str, int]] = {}
    for path, needed in needs:
        place = _existing(Path(path))
        device = place.stat().st_dev
        first, total = by_device.get(device, (path, 0))
        by_device[device] = (first, total + needed)
    missing: List[Tuple[str, int, int]] = []
    for path, total in by_device.values():
        status = os.statvfs(str(_existing(Path(path))))
        free = status.f_bavail * status.f_frsize
        if free < total:
            missing.append((path, total, free))
    return missing


def _existing(path: Path) -> Path:
    """The path itself or the nearest directory above it that is there."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
