"""The package cache (apt-cacher-ng): all that nodes see of the world. apt's packages are kept, TLS is passed through.

An instance of our own, on this machine's end of the labs' cable only, beside one that the machine may run for itself.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

from ansible_collections.trainrig.gpu.plugins.plugin_utils.apt_root import connection_settings

from tools.lab import machine
from tools.lab.machine import STATE, cache_home
from tools.lab.names import Addresses, LabError

PORT = 3144
_DIRECTORY = STATE / "cache"
_PROXY = re.compile(r'^Acquire::https?::Proxy "(http://[^"]+)";$', re.MULTILINE)


def url(addresses: Addresses) -> str:
    return f"http://{addresses.cache}:{PORT}"


def configuration(addresses: Addresses, kept: Path, logs: Path, apt_settings: str) -> str:
    """Its acng.conf. Pure. pip speaks TLS with the index, so its traffic is only passed on, to the port of https."""
    upstream = _PROXY.search(apt_settings)
    lines = [
        f"CacheDir: {kept}",
        f"LogDir: {logs}",
        f"BindAddress: {addresses.cache}",
        f"Port: {PORT}",
        "ForeGround: 1",
        "PassThroughPattern: :443$",
        "ReportPage:",
        # Of repositories that tests start on another port, packages come straight from there.
        "AllowUserPorts: 80 443",
    ]
    return "".join(f"{line}\n" for line in [*lines, *([f"Proxy: {upstream.group(1)}"] if upstream else [])])


def is_up(addresses: Addresses) -> bool:
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex((str(addresses.cache), PORT)) == 0


def up(addresses: Addresses) -> None:
    kept = cache_home() / "packages"
    for directory in (_DIRECTORY, kept):
        directory.mkdir(parents=True, exist_ok=True)
    (_DIRECTORY / "acng.conf").write_text(
        configuration(addresses, kept, _DIRECTORY / "log", connection_settings()), encoding="utf-8"
    )
    down()
    output = _DIRECTORY / "output"
    output.unlink(missing_ok=True)
    machine.detach("/usr/sbin/apt-cacher-ng", "-c", _DIRECTORY, output=output)
    if not machine.wait(lambda: is_up(addresses) or not _processes(), 20) or not _processes():
        text = output.read_text("utf-8", "replace").strip() or "no answer"
        raise LabError(f"apt-cacher-ng did not start on {addresses.cache}:{PORT}: {text.splitlines()[-1]}")


def _processes() -> list[int]:
    return machine.processes(str(_DIRECTORY))


def down() -> None:
    machine.end(_processes, 5)
