"""One node with an inventory of its own: declare a stack, lock it, converge, and look at the node for oneself."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.checkout import Run
from tools.lab.lab import Lab
from tools.lab.node import Node

PLATFORMS = {"debian12": "debian12-x86_64", "debian13": "debian13-x86_64"}
LOCK = {
    "index_date": "2026-11-30T00:00:00Z",
    "profiles": [{"name": "cpu", "pytorch": "2.13.0", "variant": "cpu", "python": ["3.11"]}],
}


@dataclass
class Site:
    """The node, and what its inventory in `place` says of it."""

    lab: Lab
    node: Node
    place: Path
    ansible: Callable[..., Run]
    connect: Callable[..., Any]
    say: Callable[[str], None]

    # The inventory

    @property
    def reports(self) -> Path:
        """Beside it: Ansible reads whatever lies in it."""
        return self.place.with_name(f"{self.place.name}-reports")

    def declare(self, groups: list[str], **stack: Any) -> None:
        """The node in these groups, with this stack of the distribution's packages; then the lock."""
        if not self.place.exists():
            copied = shutil.ignore_patterns("stack.lock.yml", "requirements")
            shutil.copytree(self.lab.inventory, self.place, ignore=copied)
        nodes = yaml.safe_load((self.lab.inventory / "nodes.yml").read_text(encoding="utf-8"))["all"]
        hosts = {self.node.name: nodes["hosts"][self.node.name]}
        content = {"all": {**nodes, "hosts": hosts}, **{name: {"hosts": {self.node.name: None}} for name in groups}}
        (self.place / "nodes.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
        base = {"origin": "distro", "gpus": ["L40S"], "platforms": [PLATFORMS[self.node.spec.base]]}
        settings = {
            "ansible_become": True,
            "report_directory": str(self.reports),
            "trainrig_lock": LOCK,
            "trainrig_stack": {**base, **stack},
        }
        (self.place / "group_vars/all.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        self.play("playbooks/lock.yml").ok()

    @property
    def system(self) -> dict[str, Any]:
        """The lock's, read by the test itself."""
        (found,) = yaml.safe_load((self.place / "stack.lock.yml").read_text(encoding="utf-8"))["systems"]
        return dict(found)

    def pinned(self, *layers: str) -> dict[str, str]:
        return {row["name"]: row["version"] for row in self.system["packages"] if row["pin"] and row["layer"] in layers}

    def locked(self) -> dict[str, str]:
        return {row["name"]: row["version"] for row in self.system["packages"]}

    # Playbooks

    def play(self, name: str, *words: str) -> Run:
        return self.ansible("ansible-playbook", name, *words, inventory=self.place, timeout=3600)

    def site(self, what: str, *words: str) -> Run:
        """site.yml, its seconds and what it downloaded said."""
        before, started = self.downloaded(), time.monotonic()
        done = self.play("site.yml", *words)
        seconds, megabytes = time.monotonic() - started, (self.downloaded() - before) / 1e6
        self.say(f"{what}: {seconds:.0f} s, {megabytes:.0f} MB of packages")
        return done

    def report(self) -> dict[str, Any]:
        return dict(json.loads((self.reports / "latest/report.json").read_text(encoding="utf-8")))

    # The node

    @property
    def root(self) -> Path:
        return Path(f"/proc/{self.node.leader}/root")

    def ask(self, command: str) -> str:
        return str(self.connect(self.node.name, sudo=True).check_output(command))

    def downloaded(self) -> int:
        """Bytes of packages that apt has fetched on this node so far; apt-get keeps them."""
        return int(self.ask("du --bytes --summarize /var/cache/apt/archives").split()[0])

    def kernel(self) -> str:
        """The exact kernel that the release ships now."""
        depends = self.ask("apt-cache depends --important linux-image-amd64")
        return re.findall(r"Depends: linux-image-(\S+-amd64)$", depends, re.MULTILINE)[0]

    def packages(self) -> dict[str, tuple[str, str]]:
        """Name -> version and state, of everything that dpkg knows as there or half there."""
        text = self.ask("dpkg-query -W -f '${Package}|${Version}|${db:Status-Abbrev}\\n'")
        rows = [line.split("|") for line in text.splitlines()]
        return {name: (version, state.strip()) for name, version, state in rows if state.strip() not in ("rc", "un")}

    def held(self) -> set[str]:
        return set(self.ask("apt-mark showhold").split())
