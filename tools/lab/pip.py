"""This machine's pip settings, as a node can use them: through the cache, local directories under one path. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.pip_settings import Setting

CONFIGURATION = "/etc/pip.conf"
#: A node goes through the lab's cache, and this machine's private key is none of its business.
_NOT_PASSED = ("proxy", "client-cert")
_INDEXES = ("index-url", "extra-index-url")


class NodePip(NamedTuple):
    """`text` of pip.conf; `directories` and `files` of this machine that it names."""

    text: str
    directories: tuple[str, ...]
    files: tuple[str, ...]


def for_nodes(settings: Mapping[str, Setting], cache_url: str, is_directory: Callable[[str], bool]) -> NodePip:
    """The same settings with the cache as the proxy."""
    lines = [f"# Made by the lab from the settings of the machine it runs on.\n[global]\nproxy = {cache_url}\n"]
    directories: list[str] = []
    files: list[str] = []
    for key in sorted(set(settings) - set(_NOT_PASSED)):
        values = settings[key].values
        lines.append(f"{key} = {' '.join(values)}\n")
        for place in filter(None, map(local_path, values)):
            if key in _INDEXES:
                directories.append(index_root(place))
            elif is_directory(place):
                directories.append(place)
            elif key in ("find-links", "cert", "constraint"):
                files.append(place)
    return NodePip("".join(lines), tuple(sorted(set(directories))), tuple(sorted(set(files))))


def local_path(value: str) -> str | None:
    """The absolute path that a setting names, if it names one."""
    if value.startswith("file:"):
        return unquote(urlsplit(value).path) or None
    return value if value.startswith("/") else None


def index_root(directory: str) -> str:
    """What must be there for an index in a directory: its links often lead beside it (../files). Never all of `/`."""
    path = PurePosixPath(directory)
    return str(path.parent if len(path.parts) > 2 else path)
