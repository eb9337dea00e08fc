"""Base systems, one for each release: built once from this machine's package mirror, then only read.

A base is never changed, since nodes run on it: another recipe, or a rebuild, makes another directory beside it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ansible_collections.trainrig.gpu.plugins.plugin_utils.apt_root import own_sources
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

from tools.lab import machine
from tools.lab.machine import cache_home, run
from tools.lab.names import LabError
from tools.lab.seed import USER, USER_ID

_INCLUDE = [
    *("systemd", "systemd-sysv", "dbus", "kmod", "procps"),
    *("openssh-server", "sudo", "python3", "python3-apt"),
    *("ca-certificates", "curl", "iproute2", "iputils-ping"),
]
#: Of some releases only; with it users may ping.
_INCLUDE_MORE = {"debian13": ["linux-sysctl-defaults"]}
#: What waits for a network that is there at once or for a terminal that never comes, and apt runs nobody asked for.
_MASKED = [
    *("systemd-networkd-wait-online.service", "systemd-resolved.service"),
    *("getty.target", "console-getty.service"),
    *("apt-daily.timer", "apt-daily-upgrade.timer"),
]
_FILES = {
    "etc/dpkg/dpkg.cfg.d/lab": "# Nodes are thrown away: no waiting for the disk.\nforce-unsafe-io\n",
    f"etc/sudoers.d/{USER}": f"{USER} ALL=(ALL) NOPASSWD: ALL\n",
    "etc/default/locale": "LANG=C.UTF-8\n",
    "etc/machine-id": "",
}
#: What the builder and the packages leave that belongs to one machine.
_REMOVED = ("etc/apt/apt.conf.d/99mmdebstrap", "etc/resolv.conf", "etc/hostname", "etc/ssh/ssh_host_*_key*")


class Recipe(NamedTuple):
    """What a base is made of."""

    name: str
    sources: tuple[str, ...]  # apt's one-line format
    apt_settings: str
    authorities: tuple[Path, ...]  # certificates that this machine trusts besides the usual ones

    @property
    def digest(self) -> str:
        """What is said here and how this file goes about it."""
        total = hashlib.sha256(repr((self.sources, self.apt_settings)).encode())
        for path in (Path(__file__), *self.authorities):
            total.update(path.read_bytes())
        return total.hexdigest()[:12]


def known() -> dict[str, list[str]]:
    """Release -> its suites."""
    return dict(load("origins")["origins"]["debian"]["platforms"])


def recipe(name: str) -> Recipe:
    origin = load("origins")["origins"]["debian"]
    release = origin["release"]
    found = [one["uri"] for one in own_sources() if (one["origin"], one["label"]) == tuple(release.values())]
    mirror = next((uri for uri in found if re.match(r"https?://", uri)), None)
    if not mirror:
        raise LabError(
            "this machine's apt knows no Debian mirror on http(s). To fix it: add Debian's archive to the apt sources,"
            " then: apt-get update."
        )
    components = " ".join(origin["components"])
    lines = tuple(f"deb {mirror} {suite} {components}" for suite in known()[name])
    authorities = tuple(sorted(Path("/usr/local/share/ca-certificates").rglob("*.crt")))
    return Recipe(name, lines, date_settings(), authorities)


def date_settings() -> str:
    """How strictly this machine's apt takes dates and failures: a mirror that it accepts, its nodes must accept too."""
    dump = run("apt-config", "dump", "--format", "%f %v%n")
    kept = re.findall(r"^(Acquire::(?:Check-Date|Check-Valid-Until|Retries)) (\S+)$", dump, re.MULTILINE)
    return "".join(f'{name} "{value}";\n' for name, value in kept)


def _directory() -> Path:
    return cache_home() / "bases"


def newest(wanted: Recipe) -> Path | None:
    """A finished base of this recipe."""
    found = sorted(_directory().glob(f"{wanted.name}-{wanted.digest}-*/made.json"))
    return found[-1].parent / "root" if found else None


def age_days(base: Path) -> float:
    return float(time.time() - json.loads((base.parent / "made.json").read_text("utf-8"))["time"]) / 86400


def build(wanted: Recipe, proxy: str) -> Path:
    """Takes a minute or two. Finished is what has its made.json; the rest is removed by `prune`."""
    made = _directory() / f"{wanted.name}-{wanted.digest}-{time.strftime('%Y%m%d%H%M%S')}"
    root, log = made / "root", _directory() / f"{wanted.name}.log"
    made.mkdir(parents=True)
    settings = [f'Acquire::{kind}::Proxy "{proxy}"' for kind in ("http", "https")] + wanted.apt_settings.splitlines()
    packages = [*_INCLUDE, *_INCLUDE_MORE.get(wanted.name, [])]
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(packages)}"]
    command += [f"--aptopt={line}" for line in settings] + ["--dpkgopt=force-unsafe-io"]
    with log.open("wb") as stream:
        words = [*command, known()[wanted.name][0], str(root), *wanted.sources]
        status = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, check=False).returncode
    if status:
        lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.startswith(("E:", "Err:"))]
        raise LabError(f"mmdebstrap could not build {wanted.name}: {' '.join(lines[-2:]) or status} (all of it: {log})")
    _finish(root, wanted)
    (made / "made.json").write_text(json.dumps({"time": time.time(), "sources": wanted.sources}), "utf-8")
    return root


def _finish(root: Path, wanted: Recipe) -> None:
    for pattern in _REMOVED:
        for path in root.glob(pattern):
            path.unlink()
    for name, text in _FILES.items():
        (root / name).write_text(text, "utf-8")
    (root / f"etc/sudoers.d/{USER}").chmod(0o440)
    bus_id = root / "var/lib/dbus/machine-id"  # else a random one each time a node starts fresh
    bus_id.unlink(missing_ok=True)
    bus_id.symlink_to("/etc/machine-id")
    run("chroot", root, "useradd", "--create-home", "--shell=/bin/bash", f"--uid={USER_ID}", USER)
    run("chroot", root, "systemctl", "enable", "ssh.service", "systemd-networkd.service")
    run("chroot", root, "systemctl", "mask", *_MASKED)
    if wanted.authorities:
        for number, path in enumerate(wanted.authorities):
            shutil.copy(path, root / f"usr/local/share/ca-certificates/lab-{number}.crt")
        run("chroot", root, "update-ca-certificates")
    for name in ("etc/.updated", "var/.updated"):  # else each first boot does again what the packages did
        (root / name).touch()


def prune(in_use: Iterable[Path]) -> None:
    """Remove unfinished bases and what still builds them, and old ones that no node runs on."""
    kept = {base.parent for base in in_use}
    for name in known():
        finished = sorted(path.parent for path in _directory().glob(f"{name}-*/made.json"))
        kept.update(sorted(finished, key=lambda path: path.name.rpartition("-")[2])[-1:])
    for path in _directory().glob("*-*-*"):
        if path not in kept:
            machine.end(partial(machine.processes, str(path / "root")), 20)  # its maker was killed, the builder was not
            machine.unmount_below(path)
            shutil.rmtree(path)
