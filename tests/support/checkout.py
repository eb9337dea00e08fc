"""A fresh clone in a folder of its own, used the way a newcomer uses it: with make."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def copy_tree(target: Path) -> None:
    """What a clone of the work tree as it is now would hold: tracked and new files, nothing that git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, copy = ROOT / name, target / name
        if source.is_symlink() or source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


@dataclass
class Checkout:
    """A checkout and a home directory; ``user`` runs everything as that user instead of root."""

    path: Path
    home: Path
    user: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    options: str = ""  # given to every make site, plan and verify

    @classmethod
    def fresh(cls, directory: Path, **options: Any) -> Checkout:
        checkout = cls(directory / "trainrig", directory / "home", **options)
        checkout.home.mkdir(parents=True, exist_ok=True)
        copy_tree(checkout.path)
        return checkout

    @property
    def prefix(self) -> Path:
        return self.home / ".local/share/trainrig"

    @property
    def manifest(self) -> Path:
        return self.prefix / "manifest.json"

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE", "VIRTUAL_ENV", "MAKE"))
        }
        path = ":".join(part for part in kept["PATH"].split(":") if ".venv" not in part)
        return {**kept, "PATH": path, "HOME": str(self.home), "LC_ALL": "C.UTF-8", **self.variables}

    def command(self, *command: str) -> list[str]:
        if self.user is None:
            return list(command)
        passed = {
            key: value for key, value in self.environment.items() if key.startswith(("PIP_", "UV_", "LC_", "HOME"))
        }
        settings = [f"{key}={value}" for key, value in passed.items()]
        return ["runuser", "-u", self.user, "--", "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", *settings, *command]

    def run(self, *command: str, timeout: float = 900) -> Run:
        done = subprocess.run(
            self.command(*command),
            cwd=self.path,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Run(done.returncode, done.stdout)

    def make(self, target: str, *arguments: str) -> Run:
        return self.run("make", target, f"ARGS={' '.join([self.options, *arguments])}")

    def report(self) -> dict[str, Any]:
        text = (self.path / "reports/local/latest/report.json").read_text(encoding="utf-8")
        return dict(json.loads(text))


@dataclass
class Run:
    """What a command printed (both streams) and how it ended."""

    status: int
    output: str

    def recap(self, host: str = "localhost") -> dict[str, int]:
        """The numbers of the play recap for a host."""
        lines = [line for line in self.output.splitlines() if re.match(rf"{re.escape(host)}\s+:\s+ok=", line)]
        assert lines, f"no play recap in:\n{self.output}"
        return {key: int(number) for key, number in re.findall(r"(\w+)=(\d+)", lines[-1])}

    def ok(self) -> Run:
        assert self.status == 0, self.output
        return self
