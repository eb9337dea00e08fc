"""A simulated node for apt: sources, status and preferences of its own below one directory, real apt on top, no root.

It is the tests' own, so that the product's private root is not checked with itself.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

INST = re.compile(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) ")
REMV = re.compile(r"^Remv (\S+) ")


class AptRefused(Exception):
    """apt said no; the text is what it wrote."""


class Plan(dict[str, str]):
    """What apt would install, {package: version}; `removed`: what it would take away."""

    removed: list[str]

    def drivers(self) -> set[str]:
        """The driver versions among it: 570.124.06 of every nvidia package that has one."""
        found = {re.match(r"(\d{3}\.\d+(?:\.\d+)?)-", version) for name, version in self.items() if "nvidia" in name}
        return {match.group(1) for match in found if match}


class SimulatedAptRoot:
    """Makes apt see these sources, an empty machine and the given preferences, and nothing of the host."""

    def __init__(self, directory: Path, sources: list[str], architecture: str = "amd64") -> None:
        self.root = directory
        for folder in (
            "etc/apt/preferences.d",
            "etc/apt/sources.list.d",
            "etc/apt/apt.conf.d",
            "etc/apt/trusted.gpg.d",
        ):
            (directory / folder).mkdir(parents=True)
        for folder in ("var/lib/apt/lists/partial", "var/lib/dpkg", "var/cache/apt/archives/partial"):
            (directory / folder).mkdir(parents=True)
        self.status = directory / "var/lib/dpkg/status"
        self._writes = 0
        self._write_status("")
        (directory / "etc/apt/sources.list").write_text("".join(f"{line}\n" for line in sources))
        self.configuration = directory / "apt.conf"
        self.configuration.write_text(
            f'Dir "{directory}/";\n'
            f'Dir::State "{directory}/var/lib/apt/";\n'
            f'Dir::State::status "{self.status}";\n'
            f'Dir::Cache "{directory}/var/cache/apt/";\n'
            f'Dir::Etc "{directory}/etc/apt/";\n'
            f'Dir::Log "{directory}/var/log/apt/";\n'
            f'APT::Architecture "{architecture}";\n'
            f'APT::Architectures {{ "{architecture}"; }};\n'
            'APT::Sandbox::User "";\n'
            'APT::Install-Recommends "false";\n'
            'Acquire::Languages "none";\n'
            'Acquire::http::Proxy "DIRECT";\n'
            'Acquire::Retries "0";\n'
        )

    def run(self, command: str, *words: str) -> str:
        """One command of apt-get or apt-cache; its output, or AptRefused with it."""
        tool = "apt-cache" if command in ("policy", "madison", "show") else "apt-get"
        environment = {"APT_CONFIG": str(self.configuration), "LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}
        found = subprocess.run(
            [tool, command, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode:
            raise AptRefused(found.stdout + found.stderr)
        return found.stdout + found.stderr

    def update(self) -> str:
        """As apt-get update, but a source that failed is an error and not a warning."""
        return self.run("update", "-o", "APT::Update::Error-Mode=any")

    def plan(self, *packages: str) -> Plan:
        """What `apt-get install` of these would do."""
        output = self.run("install", "--simulate", "--allow-downgrades", *packages)
        plan = Plan((match[1], match[2]) for line in output.splitlines() if (match := INST.match(line)))
        plan.removed = [match.group(1) for line in output.splitlines() if (match := REMV.match(line))]
        return plan

    def preferences(self, name: str, text: str) -> None:
        """One file of preferences.d, in place of what it said before."""
        (self.root / "etc/apt/preferences.d" / name).write_text(text)

    def candidate(self, package: str) -> str:
        return self.run("policy", package).split("Candidate: ")[1].split("\n")[0]

    def install(self, *packages: str) -> Plan:
        """Takes the plan as done: fetches the packages, unpacks their files, writes the status."""
        plan = self.plan(*packages)
        self.run("install", "--download-only", "--yes", "--allow-downgrades", *packages)
        for deb in sorted((self.root / "var/cache/apt/archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", str(deb), str(self.root)], check=True)
            control = subprocess.run(
                ["dpkg-deb", "--field", str(deb)], capture_output=True, text=True, check=True
            ).stdout
            name, _, rest = control.partition("\n")
            gone = {name, *(f"Package: {removed}" for removed in plan.removed)}
            kept = [one for one in self.status.read_text().split("\n\n") if one and one.split("\n")[0] not in gone]
            kept.append(f"{name}\nStatus: install ok installed\n{rest.strip()}")
            self._write_status("\n\n".join([*kept, ""]))
            deb.unlink()
        return plan

    def _write_status(self, text: str) -> None:
        """apt holds its cache for fresh while size and second of the file are the same: each write gets a second."""
        self.status.write_text(text)
        self._writes += 1
        os.utime(self.status, (1735689600 + self._writes,) * 2)


def missing() -> str | None:
    """Why there is no real apt to test with."""
    absent = [tool for tool in ("apt-get", "apt-cache", "dpkg-deb", "gpg", "gpgv") if not shutil.which(tool)]
    return f"needs {', '.join(absent)} (Debian and Ubuntu: apt, dpkg, gpg, gpgv)" if absent else None
