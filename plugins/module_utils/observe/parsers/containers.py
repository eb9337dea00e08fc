"""The container engine, its configuration, and the devices that CDI offers."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, raw

DAEMON_JSON = "/etc/docker/daemon.json"
TOOLKIT_CONFIG = "/etc/nvidia-container-runtime/config.toml"
_VERSION = r"([0-9]{1,5}\.[0-9]{1,5}[0-9A-Za-z.+~-]{0,60})"
_DEVICE = re.compile(r"[a-z0-9][a-z0-9.-]{0,100}/[A-Za-z0-9_-]{1,60}=\S{1,100}$", re.IGNORECASE)
_LIBRARY_LINES = 50
#: What `docker version` prints is short.
_ANSWER = 20000


def containers(reading: Reading) -> Facts:
    engine = reading.sections.get("docker version")
    snap = reading.sections.get("snap list docker")
    ctk = re.search(rf"version:? {_VERSION}", reading.section("nvidia-ctk --version") or "", re.IGNORECASE)
    config, error = _daemon_json(reading)
    return {
        # Without a daemon the client still says its version, and fails.
        "containers.docker_version": _docker_version(engine.text) if engine else None,
        "containers.docker_error": _docker_error(f"{engine.text}\n{reading.err}") if engine and engine.rc else None,
        "containers.daemon_json": config,
        "containers.daemon_json_error": error,
        "containers.toolkit_config": _toolkit_config(reading.section(TOOLKIT_CONFIG)),
        "containers.nvidia_ctk": ctk[1] if ctk else None,
        "containers.snap_docker": None if snap is None else bool(re.search(r"(?m)^docker\s", snap.text)),
    }


def _docker_version(text: str) -> str | None:
    """The server's version, else the client's; also the one line of `docker --version`."""
    server = re.split(r"(?m)^Server\b", text[:_ANSWER], maxsplit=1)
    for part in reversed(server):
        found = re.search(rf"(?mi)^[ \t]+Version:[ \t]+{_VERSION}", part) or re.search(
            rf"(?i)\bversion {_VERSION}", part[:2000]
        )
        if found:
            return found[1]
    return None


def _docker_error(text: str) -> str | None:
    found = re.search(r"(?mi)^.{0,200}(?:cannot connect|permission denied|error).{0,400}$", text[:_ANSWER])
    return raw(re.sub(r"^\s*docker version: ", "", found[0])) if found else None


def _daemon_json(reading: Reading) -> tuple[dict[str, Any] | None, str | None]:
    text = reading.section(DAEMON_JSON)
    if text is None:
        return None, None
    if not text.strip():
        # dockerd takes an empty file for no configuration.
        return {}, None
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        return None, raw(f"{DAEMON_JSON}: {error}")
    if not isinstance(parsed, dict):
        return None, f"{DAEMON_JSON}: not a JSON object"
    return parsed, None


def _toolkit_config(text: str | None) -> dict[str, str] | None:
    """Plain values by table and key. What is commented out is not set; Python 3.8 has no reader of TOML."""
    if text is None:
        return None
    found: dict[str, str] = {}
    table = ""
    for line in text.split("\n"):
        header = re.match(r"\s*\[([\w.-]{1,100})\]", line)
        value = re.match(r"\s*([\w-]{1,100})\s*=\s*(\"[^\"]{0,500}\"|[\w.@/-]{1,200})", line)
        if header:
            table = header[1] + "."
        elif value:
            found[table + value[1]] = value[2].strip('"')
    return found


def cdi(reading: Reading) -> Facts:
    """Devices of `nvidia-ctk cdi list`, and the lines of the specification that name libcuda."""
    listing = reading.section("nvidia-ctk cdi list")
    libraries = reading.section("libcuda in /etc/cdi/nvidia.yaml")
    devices = None if listing is None else [line.strip() for line in listing.split("\n") if _DEVICE.match(line.strip())]
    lines = None if libraries is None else [raw(line) for line in libraries.split("\n") if line.strip()]
    return {
        "containers.cdi_devices": devices,
        "containers.cdi_libcuda": None if lines is None else lines[:_LIBRARY_LINES],
    }
