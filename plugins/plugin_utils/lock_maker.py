"""Makes the wheel part of a lock on the controller: asks uv for a resolution, takes hashes and sizes, writes text."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomllib
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_errors import explain
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_options import UvSettings
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import normalise_name, numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import wheels, wishes
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.document import sha256
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.wheel_sizes import WheelSizes

#: Python -> package -> the wheels it could get.
_Choice = Mapping[str, Mapping[str, list[wheels.Wheel]]]
_HEADER = "# Made by playbooks/lock.yml. Do not edit: {lock} holds its hash, and every line its wheels' hashes.\n"
#: Packages that every environment gets beside torch; the verification needs numpy.
_PACKAGES = ("numpy",)


class LockError(Exception):
    """Why a lock cannot be made; the text is for people."""


class LockMaker:
    """Turns wishes into profiles with their requirement files."""

    def __init__(self, uv: str, settings: UvSettings, index_date: str) -> None:
        self._uv = uv
        self._settings = settings
        self._index_date = index_date
        self._torch = load("torch")
        self._sizes = WheelSizes({**os.environ, **settings.env})
        self._measured: dict[tuple[str, str], tuple[int, int]] = {}

    def profile(self, wish: Mapping[str, Any], lock_name: str) -> tuple[dict[str, Any], str]:
        """One profile and the text of its requirement file."""
        profile = wishes.profile(wish, self._torch, load("drivers"), load("gpus"))
        version, variant = wish["pytorch"], wish["variant"]
        asked = [wishes.requirement(version, variant, self._torch), *(wish.get("packages") or _PACKAGES)]
        pylock = self._resolve(asked, profile)
        offered = wheels.offered(pylock)
        facts = [
            fact
            for package in pylock["packages"]
            for fact in wheels.known(self._torch["wheels"], normalise_name(package["name"]), package["version"])
        ]
        clash = wheels.contradictions(offered, facts)
        if clash:
            raise LockError(f"profile {profile['name']}: {clash[0]}; one of them is not the file it says it is")
        files = {wheel.file for wheel in offered}
        offered += [fact for fact in facts if fact.file not in files]
        by_python = {
            python: wheels.selected(pylock, offered, python, profile["platform"]) for python in profile["python"]
        }
        for python, chosen in by_python.items():
            missing = sorted(name for name, found in chosen.items() if not found)
            if missing:
                raise LockError(
                    f"profile {profile['name']}: no index offers a wheel of {missing[0]} for Python {python} on "
                    f"{profile['platform']}; leave this Python out, or name an index that has it"
                )
        text = _HEADER.format(lock=lock_name) + _requirements(pylock, by_python, profile["platform"])
        download, installed = self._room(by_python)
        nccl = sorted({p["version"] for p in pylock["packages"] if normalise_name(p["name"]).startswith("nvidia-nccl")})
        profile["pytorch"]["nccl"] = nccl[0] if nccl else None
        profile["requirements"] = {"file": f"requirements/{profile['name']}.txt", "sha256": sha256(text)}
        profile["download_bytes"], profile["installed_bytes"] = download, installed
        return profile, text

    def _resolve(self, asked: list[str], profile: Mapping[str, Any]) -> dict[str, Any]:
        """uv's universal resolution for the lowest of the Pythons and all above, as it stood at the index date."""
        with tempfile.TemporaryDirectory(prefix="trainrig-lock-") as directory:
            wanted, result = Path(directory, "requirements.in"), Path(directory, "pylock.toml")
            wanted.write_text("\n".join(asked) + "\n", encoding="utf-8")
            command = [self._uv, "pip", "compile", "--quiet", "--color", "never", "--universal"]
            command += ["--no-python-downloads"]
            command += ["--python-version", min(profile["python"], key=numbers), "--exclude-newer", self._index_date]
            command += ["--only-binary", ":all:", "--format", "pylock.toml", "--output-file", str(result)]
            command += [*self._settings.options, str(wanted)]
            for constraint in self._settings.constraints:
                command += ["--constraints", constraint]
            env = {**os.environ, **self._settings.env}
            env = {name: value for name, value in env.items() if value or name not in self._settings.env}
            done = subprocess.run(command, env=env, cwd=directory, capture_output=True, text=True, check=False)
            if done.returncode:
                context = {"requirements": f"profile {profile['name']}", "python": "the lock", "store": directory}
                failure = explain(done.stderr, context, self._settings.origins)
                held = (
                    f" Constraints that held: {', '.join(self._settings.constraints)}."
                    if self._settings.constraints
                    else ""
                )
                raise LockError(f"{failure.text}. To fix it: {failure.fix}. ({failure.detail}){held}")
            content: dict[str, Any] = tomllib.loads(result.read_text(encoding="utf-8"))
            return content

    def _room(self, by_python: _Choice) -> tuple[int | None, int | None]:
        """The most that any of the Pythons needs: (download, installed). Unknown where one wheel's size is."""
        totals: list[tuple[int, int]] = []
        for chosen in by_python.values():
            sizes = [self._size(found) for found in chosen.values()]
            known = [size for size in sizes if size]
            if len(known) == len(sizes):
                totals.append((sum(size[0] for size in known), sum(size[1] for size in known)))
        if not totals:
            return None, None
        return max(total[0] for total in totals), max(total[1] for total in totals)

    def _size(self, found: list[wheels.Wheel]) -> tuple[int, int] | None:
        """The largest wheel that fits. Where data/torch.yml alone knows one, a sister of its version stands in."""
        key = found[0].package, found[0].version
        sizes = [self._sizes.of(wheel.url) for wheel in found if wheel.url]
        if sizes:
            self._measured[key] = max(sizes)
        return self._measured.get(key)


def _requirements(pylock: Mapping[str, Any], by_python: _Choice, platform: str) -> str:
    """pip's hash-checked form. Only what this platform and these Pythons can get is named."""
    lines: list[str] = []
    for package in sorted(pylock["packages"], key=lambda package: (package["name"], numbers(package["version"]))):
        alone = {"packages": [package]}
        everything = [wheel for chosen in by_python.values() for found in chosen.values() for wheel in found]
        hashes: set[str] = set()
        meant_for: list[str] = []
        for python in by_python:
            for found in wheels.selected(alone, everything, python, platform).values():
                meant_for.append(python)
                hashes.update(wheel.sha256 for wheel in found)
        if not meant_for:
            continue
        marker = "" if len(meant_for) == len(by_python) else f" ; {package['marker']}"
        requirement = f"{package['name']}=={package['version']}{marker}"
        lines.append(" \\\n".join([requirement, *(f"    --hash=sha256:{digest}" for digest in sorted(hashes))]))
    return "\n".join(lines) + "\n"
