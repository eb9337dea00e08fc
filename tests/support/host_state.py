"""What a lab could leave behind on the machine it ran on, as one value that can be compared."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from tools.lab.machine import LABS, STATE

_SETTINGS = ("net/ipv4/ip_forward", "fs/inotify/max_user_instances", "net/ipv4/conf/all/forwarding")
_PLACES = (STATE, LABS, Path("/run/netns"), Path("/run/systemd/nspawn"), Path("/run/systemd/nspawn/propagate"))
_LOCK = Path("/run/lock/trainrig-lab")
_PACKET_FILTERS = ("ip_tables_names", "ip6_tables_names", "arp_tables_names")


def host_state() -> dict[str, Any]:
    """Mounts, interfaces, addresses, routes, packet filters, control groups, processes, settings, places."""
    mounts = Path("/proc/self/mounts").read_text("utf-8").splitlines()
    return {
        "mounts": sorted(mounts),
        "links": sorted(row["ifname"] for row in _ip("link")),
        "addresses": sorted(str(one["local"]) for row in _ip("address") for one in row["addr_info"]),
        "routes": sorted(json.dumps(row, sort_keys=True) for row in _ip("-4", "route", "show", "table", "all")),
        "packet filters": {name: _text(Path("/proc/net", name)) for name in _PACKET_FILTERS},
        "control groups": _control_groups([line.split() for line in mounts]),
        "processes": _processes(),
        "settings": {name: _text(Path("/proc/sys", name)) for name in _SETTINGS},
        "places": _places(),
    }


def assert_as_before(before: dict[str, Any], lab: str) -> None:
    """Nothing names the lab any more; and nothing else differs, unless somebody else's lab came or went meanwhile."""
    now = host_state()
    assert f"-{lab}-" not in str(now) and f"/{lab}/" not in str(now)
    if _labs(now) == _labs(before):
        differences = {key: (before[key], now[key]) for key in before if before[key] != now[key]}
        assert differences == {}, differences


def _labs(state: dict[str, Any]) -> list[str]:
    return [place for place in state["places"] if Path(place).parent == LABS]


def _ip(*words: str) -> list[dict[str, Any]]:
    done = subprocess.run(["ip", "-json", *words], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout or "[]"))


def _control_groups(mounts: list[list[str]]) -> list[str]:
    points = [Path(row[1]) for row in mounts if row[2] in ("cgroup", "cgroup2")]
    return sorted(str(path) for point in points for path in point.iterdir() if path.is_dir())


def _processes() -> list[str]:
    """Whose network is not ours, and who names the lab's places. Of a node its control group, for what runs varies."""
    own = os.readlink("/proc/self/ns/net")
    found = set()
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != os.getpid():
            with contextlib.suppress(OSError):
                words = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                if os.readlink(directory / "ns/net") != own or str(STATE) in words:
                    group = re.search(r"[:/](trainrig-lab-[a-z0-9-]+)", (directory / "cgroup").read_text("ascii"))
                    found.add(group.group(1) if group else words)
    return sorted(found)


def _places() -> list[str]:
    """Not what is in a lab: what other labs' nodes write is theirs."""
    there = [place for place in _PLACES if place.exists()]
    return sorted(
        str(path) for path in (*there, *(one for place in there for one in place.iterdir()), _LOCK) if path.exists()
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except OSError:
        return None
