"""apt with a root of its own: another platform's repositories, nothing installed, nothing of this machine touched.

apt is the only solver here. Everything it keeps lies below one directory, so no rights are needed; of the machine's own
settings only those of the connection count (proxies, certificates).
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_options import mask
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import apt_output

_SETTINGS = """\
Dir "{root}";
Dir::Etc "{root}/etc";
Dir::Etc::main "";
Dir::Etc::parts "";
Dir::Etc::sourcelist "";
Dir::Etc::sourceparts "sources.list.d";
Dir::Etc::preferencesparts "preferences.d";
Dir::Etc::netrc "/etc/apt/auth.conf";
Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
Dir::State "{root}/state";
Dir::State::status "{root}/state/status";
Dir::Cache "{root}/cache";
Dir::Log "{root}/log";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Sandbox::User "";
APT::Install-Recommends "false";
APT::Update::Error-Mode "any";
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
Acquire::Retries "3";
"""
#: What counts of this machine's own settings: how repositories are reached, and how old they may be.
_CONNECTION = re.compile(r"^Acquire::(https?::|ftp::|tor::|Check-Valid-Until |Max-ValidTime |Min-ValidTime )")
_SIGNED = re.compile(r"^\[GNUPG:\] VALIDSIG .* ([0-9A-F]{40})$", re.MULTILINE)
_ARMOUR = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\n(?:.+\n)*?\n((?:[A-Za-z0-9+/=]+\n)+?)(?:=\S{4}\n)?-----END"
)


class AptError(Exception):
    """apt could not do what was asked; the text is its own, credentials masked."""


class Source(NamedTuple):
    """A repository. `suite`: its name, or "/" for one without suites."""

    uri: str
    suite: str
    components: Sequence[str]
    keyring: str


class AptRoot:
    """One platform's packages as its repositories have them now."""

    def __init__(self, directory: Path, architecture: str, sources: Sequence[Source]) -> None:
        self._root, self._sources = directory, sources
        self._keyrings: dict[str, str] = {}
        for name in ("etc/sources.list.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial", "log"):
            (directory / name).mkdir(parents=True)
        (directory / "state/status").touch()
        settings = _SETTINGS.format(root=directory, architecture=architecture)
        (directory / "apt.conf").write_text(settings + connection_settings(), encoding="utf-8")
        stanzas = [_stanza(source, self._keyring(source.keyring)) for source in sources]
        (directory / "etc/sources.list.d/lock.sources").write_text("\n".join(stanzas), encoding="utf-8")

    def update(self) -> None:
        """Fetches the indexes and checks their signatures."""
        self._run("apt-get", "update", "-q")

    def signers(self, source: Source) -> list[str]:
        """Fingerprints of the keys whose signature on a repository's Release was good, primary keys."""
        files = [path for path in self._lists("InRelease", "Release") if _belongs(path, source)]
        keyring = self._keyring(source.keyring)
        found: set[str] = set()
        for path in files:
            signature = [str(path)] if path.name.endswith("InRelease") else [f"{path}.gpg", str(path)]
            done = subprocess.run(
                ["gpgv", "--status-fd", "1", "--keyring", keyring, *signature],
                capture_output=True,
                text=True,
                check=False,
            )
            found.update(_SIGNED.findall(done.stdout))
        return sorted(found)

    def release(self, source: Source) -> dict[str, str]:
        """Origin, Label, Suite and Codename of a repository's Release."""
        text = "\n".join(
            path.read_text("utf-8") for path in self._lists("InRelease", "Release") if _belongs(path, source)
        )
        return dict(re.findall(r"^(Origin|Label|Suite|Codename): *(.*)$", text, re.MULTILINE))

    def names(self) -> list[str]:
        """Every package name."""
        return sorted(self._run("apt-cache", "pkgnames").split())

    def offers(self, names: Sequence[str]) -> dict[str, list[apt_output.Offer]]:
        """What is on offer of each name, the newest first."""
        return apt_output.madison(self._run("apt-cache", "madison", *names)) if names else {}

    def prefer(self, text: str) -> None:
        """Sets apt_preferences(5)."""
        (self._root / "etc/preferences.d/lock").write_text(text, encoding="utf-8")

    def solve(self, wanted: Sequence[str]) -> list[apt_output.File]:
        """The files of `name=version` and of all they need, as apt's own solver decides."""
        solved = apt_output.installed(self._run("apt-get", "install", "--simulate", "-q", *wanted))
        files = apt_output.files(self._run("apt-get", "install", "--print-uris", "--yes", "-qq", *wanted))
        if {(one.name, one.version) for one in files} != set(solved.items()):
            raise AptError("apt does not name a file for each package of its own simulation")
        return files

    def records(self, files: Sequence[apt_output.File]) -> list[dict[str, str]]:
        """The package record of each file."""
        text = self._run("apt-cache", "show", *(f"{one.name}={one.version}" for one in files)) if files else ""
        return apt_output.records(text)

    def known(self, names: Sequence[str]) -> list[dict[str, str]]:
        """The records of every version of these names; a name that nobody has is left out."""
        there = set(self.names())
        asked = [name for name in names if name in there]
        return apt_output.records(self._run("apt-cache", "show", "--all-versions", *asked)) if asked else []

    def _lists(self, *endings: str) -> list[Path]:
        lists = sorted((self._root / "state/lists").iterdir())
        return [path for path in lists if path.name.endswith(tuple(f"_{ending}" for ending in endings))]

    def _keyring(self, path: str) -> str:
        """A copy that every apt and gpgv read: a plain name, and keys in ASCII armour unwrapped."""
        if path not in self._keyrings:
            try:
                content = Path(path).read_bytes()
            except OSError as error:
                raise AptError(f"the keyring {path} cannot be read: {error.strerror}") from None
            blocks = _ARMOUR.findall(content.decode("ascii", "replace").replace("\r", ""))
            target = self._root / f"keyring-{len(self._keyrings)}.gpg"
            target.write_bytes(b"".join(base64.b64decode(block.replace("\n", "")) for block in blocks) or content)
            self._keyrings[path] = str(target)
        return self._keyrings[path]

    def _run(self, *command: str) -> str:
        env = {**os.environ, "APT_CONFIG": str(self._root / "apt.conf"), "LC_ALL": "C.UTF-8"}
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            text = f"{command[0]} is not on this machine: run lock.yml on a Debian or Ubuntu machine"
            raise AptError(text) from None
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith(("E:", "W:"))] or [done.stderr[-400:]]
            unmet = [line.strip() for line in done.stdout.splitlines() if line.startswith(" ") and ":" in line]
            raise AptError(mask("\n".join([*unmet[:8], *lines[:6]])))
        return done.stdout


def connection_settings() -> str:
    """How this machine's apt reaches repositories: proxies and certificates, as apt.conf(5) text."""
    try:
        dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
    return "".join(f"{line}\n" for line in dump.splitlines() if _CONNECTION.match(line))


def own_sources() -> list[dict[str, str]]:
    """The repositories that this machine's own apt knows: {origin, label, release, component, uri}."""
    keys = ("origin", "label", "release", "component", "uri")
    form = "|".join(f"$({key})" for key in ("ORIGIN", "LABEL", "RELEASE", "COMPONENT", "REPO_URI"))
    try:
        done = subprocess.run(
            ["apt-get", "indextargets", "--format", form, "Created-By: Packages"],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return []
    return [dict(zip(keys, line.split("|"))) for line in done.stdout.splitlines() if line.count("|") == len(keys) - 1]


def _stanza(source: Source, keyring: str) -> str:
    lines = [f"Types: deb\nURIs: {source.uri}\nSuites: {source.suite}\nSigned-By: {keyring}\n"]
    return "".join([*lines, f"Components: {' '.join(source.components)}\n" if source.components else ""])


def _belongs(path: Path, source: Source) -> bool:
    """Whether a file of apt's lists is of this repository: the name is its address, slashes as underscores."""
    address = apt_output.bare(source.uri).partition("://")[2]
    rest = "" if source.suite == "/" else f"/dists/{source.suite}"
    quoted = re.sub(r"[_~=!@#$^&*{}|<>%\[\]]", lambda found: f"%{ord(found.group()):02x}", f"{address}{rest}")
    return re.sub(r"_(In)?Release$", "", path.name).rstrip("_.") == quoted.replace("/", "_")
