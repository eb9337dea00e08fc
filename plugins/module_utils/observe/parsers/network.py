"""The network as the node sees it: addresses, routes, listening ports, names."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.unread import Unread
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, raw

_STATES = ("LISTEN", "UNCONN")
_USER = re.compile(r'\("((?:[^"\\]|\\.){0,200})",pid=([0-9]{1,10})')
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]{2,64}\]|\*|[0-9a-fA-F:.]{2,64})(?:%([A-Za-z0-9_.@-]{1,32}))?:([0-9]{1,5})$")
_IP = re.compile(r"[0-9a-fA-F:.]{2,64}(?:%\S{1,32})?$")


def ip_addr(reading: Reading) -> Facts:
    """`ip -j addr`, as it is."""
    found = _json_list(reading)
    return {} if found is None else {"network.addresses": found}


def ip_route(reading: Reading) -> Facts:
    """`ip -j route`, as it is."""
    found = _json_list(reading)
    return {} if found is None else {"network.routes": found}


def _json_list(reading: Reading) -> list[dict[str, Any]] | None:
    text = reading.text.strip()
    if not text:
        # Without a route old releases of ip print nothing.
        return [] if reading.rc == 0 else None
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        reading.unreadable("not the JSON of ip -j")
        return None
    if not isinstance(parsed, list):
        reading.unreadable("not the list that ip -j prints")
        return None
    # Some releases print an empty object for what a filter left out.
    return [one for one in parsed if isinstance(one, dict) and one]


def ports(reading: Reading) -> Facts:
    """`ss -ltnp`: who listens where. The process is known to root, and to its owner."""
    found: list[dict[str, Any]] = []
    unread = Unread(reading)
    for line in reading.lines:
        words = line.split()
        if not words or words[0] in ("State", "Netid", "Recv-Q"):
            continue
        local = _local(words)
        if local is None:
            unread.add(line)
            continue
        user = _USER.search(line)
        found.append(
            {
                "address": local[1].strip("[]"),
                "interface": local[2],
                "port": int(local[3]),
                "process": user[1] if user else None,
                "pid": int(user[2]) if user else None,
                "raw": raw(re.sub(r"\s+", " ", line)),
            }
        )
    return {"network.listening": found} if unread.close(bool(found)) else {}


def _local(words: list[str]) -> re.Match[str] | None:
    """The local address stands behind the state and the two queues; with -H or older releases the state is left out."""
    if words[0] in _STATES or words[0] in ("tcp", "udp"):
        words = words[1:]
    if words and words[0] in _STATES:
        words = words[1:]
    return _ADDRESS.match(words[2]) if len(words) > 2 and words[0].isdigit() and words[1].isdigit() else None


def hosts(reading: Reading) -> Facts:
    """The own name, and what names resolve to."""
    resolved: dict[str, list[str]] = {}
    for name, section in reading.sections.items():
        asked = re.match(r"getent (?:ahosts|hosts|ahostsv4) (\S{1,253})$", name)
        if not asked:
            continue
        # A name that does not resolve is an answer: no address.
        addresses = [line.split()[0] for line in section.text.split("\n") if line.strip()]
        resolved[asked[1]] = list(dict.fromkeys(address for address in addresses if _IP.match(address)))
    if not reading.sections and reading.text.strip():
        reading.unreadable("no section header (==> NAME <==)")
    etc = reading.section("/etc/hosts")
    return {
        "network.hostname": _word(reading, "hostname"),
        "network.fqdn": _word(reading, "hostname -f"),
        "network.etc_hosts": None if etc is None else _etc_hosts(etc, reading),
        "network.resolved": resolved or None,
    }


def _word(reading: Reading, name: str) -> str | None:
    words = (reading.section(name) or "").split()
    if len(words) > 1:
        reading.note(f"{name} prints more than a name")
        return None
    return words[0] if words else None


def _etc_hosts(text: str, reading: Reading) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in text.split("\n"):
        words = line.split("#", 1)[0].split()
        if words and _IP.match(words[0]) and len(words) > 1:
            found.append({"address": words[0], "names": words[1:], "raw": raw(line)})
        elif words:
            reading.note(f"/etc/hosts: cannot be read: {line.strip()[:120]}")
    return found
