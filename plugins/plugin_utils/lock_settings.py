"""What an inventory says about locking, checked, with paths of the controller as they are meant."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.lock import settings
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import Problem
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load


def lock_settings(lock: Any, repositories: Any, directory: Path, where: str) -> tuple[dict[str, Any], list[Problem]]:
    """trainrig_lock and trainrig_repositories. A path counts from the inventory's directory on, ~ is the home."""

    def path(text: str) -> str:
        return text if "://" in text else str(directory / Path(text).expanduser())

    checked, problems = settings.checked(lock, repositories, load("origins")["origins"], where)
    if problems:
        return {}, problems
    return {
        "index_date": checked["index_date"],
        "profiles": checked["profiles"],
        "sources": [{**row, "archive": path(row["archive"])} for row in checked["sources"]],
        "repositories": {
            name: {**row, "key": path(row["key"])} if row.get("key") else row
            for name, row in checked["repositories"].items()
        },
    }, []
