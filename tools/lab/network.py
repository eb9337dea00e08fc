"""The labs' network: a namespace with a bridge, and one cable from it to this machine, where the package cache listens.

All labs of this machine share it. A node's packets can go to other nodes and to this machine, nowhere else: the
namespace has no default route. In a namespace of its own it also does not depend on this machine's packet filter.
"""

from __future__ import annotations

import contextlib
import json
from ipaddress import IPv4Network
from pathlib import Path

from tools.lab import machine
from tools.lab.machine import STATE, run
from tools.lab.names import Addresses, LabError, free_network

NAMESPACE = STATE / "network"
BRIDGE = "lab0"
OUTER, INNER = "trainrig-lab", "uplink"
_CHOSEN = STATE / "network.json"


def inside(*command: str | Path) -> list[str]:
    """The same command in the labs' network."""
    return ["nsenter", f"--net={NAMESPACE}", "--", *map(str, command)]


def addresses() -> Addresses:
    """Those in use, or new ones: chosen once, so that inventories stay true after a reboot of this machine."""
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
        return Addresses(IPv4Network(json.loads(_CHOSEN.read_text("utf-8"))["network"]))
    routes = json.loads(run("ip", "-json", "-4", "route", "show", "table", "all") or "[]")
    words = [row["dst"] for row in routes if row.get("dst", "default") != "default"]
    chosen = Addresses(free_network(IPv4Network(word, strict=False) for word in words))
    temporary = _CHOSEN.with_suffix(".new")
    temporary.write_text(json.dumps({"network": str(chosen.network)}), "utf-8")
    temporary.replace(_CHOSEN)
    return chosen


def is_up() -> bool:
    """Whole: what is left of a killed command, or a cable that somebody pulled, is not."""
    if (str(NAMESPACE), "nsfs") not in machine.mounts():
        return False
    try:
        links = {row["ifname"]: row for row in json.loads(run("ip", "-json", "link"))}
        inner = {row["ifname"] for row in json.loads(run(*inside("ip", "-json", "link")))}
        route = run("ip", "route", "show", str(addresses().nodes))
    except LabError:
        return False
    return "UP" in links.get(OUTER, {"flags": []})["flags"] and {BRIDGE, INNER} <= inner and bool(route)


def up() -> None:
    """Make it anew. Nothing may run in an old one."""
    down()
    where = addresses()
    NAMESPACE.touch()
    run("unshare", f"--net={NAMESPACE}", "true")
    run("ip", "link", "add", OUTER, "type", "veth", "peer", "name", INNER)
    run("ip", "link", "set", INNER, "netns", NAMESPACE)
    size = where.uplink.prefixlen
    for command in (
        f"ip link add {BRIDGE} type bridge",
        f"ip address add {where.bridge}/{where.nodes.prefixlen} dev {BRIDGE}",
        f"ip address add {where.gateway}/{size} dev {INNER}",
        f"ip link set {BRIDGE} up",
        f"ip link set {INNER} up",
        "ip link set lo up",
    ):
        run(*inside(*command.split()))
    # Between nodes and this machine; /proc/sys/net is that of the network whose process opens it.
    run(*inside("tee", "/proc/sys/net/ipv4/ip_forward"), text="1\n")
    run("ip", "address", "add", f"{where.cache}/{size}", "dev", OUTER)
    run("ip", "link", "set", OUTER, "up")
    run("ip", "route", "add", str(where.nodes), "via", str(where.gateway))


def down() -> None:
    """The cable first: the namespace itself lives until the last process in it ended."""
    if Path("/sys/class/net", OUTER).exists():
        run("ip", "link", "delete", OUTER)
    machine.unmount_below(NAMESPACE)
    NAMESPACE.unlink(missing_ok=True)


def pull_cable(name: str) -> None:
    """A node's end at the bridge, where a node that was killed left it behind."""
    with contextlib.suppress(LabError):
        run(*inside("ip", "link", "delete", f"vb-{name}"))
