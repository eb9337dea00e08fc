"""Reads a directory of bundles, DIR/<host>/<probe>, into a fleet for diagnose, on the controller."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, enrich, probes, source
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

STACK = "stack.yml"
#: A declaration is a page; a file much larger is something else.
STACK_BYTES = 1 << 20


class BundlesError(Exception):
    """The directory cannot be used; the text names it and the fix."""


def read_stack(directory: Path) -> dict[str, Any] | None:
    """The content of a stack.yml, None when there is none. `trainrig_stack:` on top may be there or not."""
    path = directory / STACK
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > STACK_BYTES:
            raise BundlesError(f"{path} has more than {STACK_BYTES} bytes: it is not a declared stack")
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise BundlesError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if isinstance(content, dict) and isinstance(content.get("trainrig_stack"), dict):
        content = content["trainrig_stack"]
    if not isinstance(content, dict):
        raise BundlesError(
            f"{path} must hold the keys of trainrig_stack (like `driver: auto`), it holds {type(content).__name__}"
        )
    return {str(key): value for key, value in content.items()}


def read_fleet(directory: Path) -> tuple[dict[str, Any] | None, dict[str, dict[str, Any]]]:
    """The stack for all and, by host, {observation, stack, pool}. A directory that is itself one bundle is one host."""
    if not directory.is_dir():
        raise BundlesError(
            f"bundles: {directory} is not a directory; give the directory that holds <host>/<probe> files"
        )
    table = probes.table()
    stack = read_stack(directory)
    hosts = sorted(path for path in directory.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not hosts and any((directory / name).is_file() for name in table):
        hosts = [directory]
    fleet: dict[str, dict[str, Any]] = {}
    for path in hosts:
        own = read_stack(path) if path != directory else None
        outputs = source.BundleSource(path).read(table.values())
        observation = enrich.enrich(dict(build.build(outputs)), load("gpus"))
        pool = str((own or stack or {}).get("pool") or "default")
        fleet[path.resolve().name] = {"observation": observation, "stack": own, "pool": pool}
    return stack, fleet
