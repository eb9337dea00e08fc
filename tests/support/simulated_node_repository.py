"""A simulated NVIDIA repository that nodes really install from: small packages with a module, units and tools inside.

    with simulated_node_repository(directory, str(network.addresses().cache)) as repository:
        repository.settings        # trainrig_repositories of an inventory whose nodes are the lab's

Names, versions and relations are simulated_nvidia.py's; simulated_driver/table.yml adds branches, and
simulated_driver/contents.yml says what is in the packages: a kernel module that dkms really builds, scripts, units.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import copy
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.simulated_nvidia import ARCHITECTURES, NVIDIA_RELEASE, fill_nvidia, table
from tests.support.simulated_repository import File, SigningKey, SimulatedIndex, SimulatedRepository, stub

PLATFORMS = ("debian12", "debian13")
BRANCHES = ("535", "550", "570", "580")
FILES = Path(__file__).parent / "simulated_driver"
_MACHINE = "x86_64"
_WORD = re.compile(r"@([A-Z]+)@")


class SimulatedNodeRepository(SimulatedRepository):
    """`settings`: what an inventory says as trainrig_repositories."""

    @property
    def settings(self) -> dict[str, Any]:
        return {"nvidia": {"url": self.url, "key": str(self.keyring), "fingerprints": [self.fingerprint]}}


def simulated_node_repository(
    directory: Path,
    address: str = "127.0.0.1",
    platforms: tuple[str, ...] = PLATFORMS,
    branches: tuple[str, ...] = BRANCHES,
    key: SigningKey | None = None,
) -> SimulatedNodeRepository:
    """Published, at <url>/<platform>/x86_64/. `address`: this machine's, at which controller and nodes reach it."""
    repository = SimulatedNodeRepository(directory, key, address)
    for platform in platforms:
        index = repository.flat(f"{platform}/{_MACHINE}", NVIDIA_RELEASE, ARCHITECTURES[_MACHINE])
        fill_nvidia(index, platform, _MACHINE, _table(platforms, branches))
        fill_contents(index)
    repository.publish()
    return repository


@functools.lru_cache(maxsize=None)
def _table(platforms: tuple[str, ...], branches: tuple[str, ...]) -> Any:
    """NVIDIA's table with ours over it, and only these branches."""
    data, own = copy.deepcopy(table("simulated_nvidia")), _yaml("table.yml")
    known = {**data["branches"], **own["branches"]}
    if unknown := sorted(set(branches) - set(known)):
        raise ValueError(f"no such branch: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    data["branches"] = {branch: known[branch] for branch in sorted(branches)}
    for platform in platforms:
        data["platforms"][platform] = {"layout": data["platforms"][platform]["layout"]}
    for part, rows in own["toolkits"].items():
        data["toolkits"][part].update(rows)
    for family in data["others"]:
        for name, versions in own["others"].items():
            if name in family["packages"]:
                family["versions"] += versions
    groups = [data["toolkits"], *data["others"], *data["debian"].values()]
    for group in groups:
        for name in set(group["packages"]) & set(own["depends"]):
            group["packages"][name]["depends"] = own["depends"][name]
    return data


def fill_contents(index: SimulatedIndex) -> None:
    """Packages of the table get their files and scripts; what has none there stays a stub."""
    for place, package in index.packages.items():
        words = _words(package.version)
        if row := _row(package.name, words):
            words = {**words, **row.get("words", {})}
            files, scripts = _entries(row.get("files", {}), words, 644), _entries(row.get("scripts", {}), words, 755)
            index.packages[place] = package._replace(deb=stub(package.control, files, scripts))


def _row(name: str, words: Mapping[str, str]) -> dict[str, Any] | None:
    wanted = {key.lower(): value for key, value in words.items()}
    rows = _yaml("contents.yml")["packages"]
    return next((row for template, row in rows.items() if template.format(**wanted) == name), None)


def _words(version: str) -> dict[str, str]:
    upstream = version.rpartition(":")[2].rpartition("-")[0]
    major, minor, last = (*upstream.split("."), "0", "0")[:3]
    code = f"{major}{int(minor):02d}{int(last):02d}" if minor.isdigit() and last.isdigit() else ""
    return {
        "VERSION": upstream,
        "BRANCH": major,
        "MAJOR": major,
        "DOT": f"{major}.{minor}",
        "DASH": f"{major}-{minor}",
        "NUMBER": f"{major}{minor}",
        "CODE": code,
    }


def _entries(rows: Mapping[str, Any], words: Mapping[str, str], mode: int) -> tuple[tuple[str, File], ...]:
    def filled(text: str) -> str:
        return _WORD.sub(lambda match: words.get(match[1], match[0]), text)

    found = []
    for path, row in sorted(rows.items()):
        text = (FILES / "files" / row["from"]).read_text(encoding="utf-8") if "from" in row else row.get("text", "")
        file = File(filled(text), int(str(row.get("mode", mode)), 8), filled(row.get("link", "")))
        found.append((filled(path), file))
    return tuple(found)


@functools.lru_cache(maxsize=None)
def _yaml(name: str) -> Any:
    return yaml.safe_load((FILES / name).read_text(encoding="utf-8"))
