"""RDMA devices as ibstat, ibv_devinfo, `rdma link` and show_gids print them, and the union of the four.

States are said in ibstat's words (Active, Down, LinkUp, Polling), whichever tool said them.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Dict, Mapping, cast

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.unread import Unread
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import (
    Facts,
    Reading,
    integer,
    number,
    present,
    raw,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.schema import RdmaDevice, RdmaPort

#: Device name -> what one tool says of it; under `ports`, port number -> what it says of the port.
Seen = Dict[str, Dict[str, Any]]

_DEVICE_KEYS = ("pci_address", "board", "firmware", "ca_type", "virtual")
_PORT_KEYS = (
    *("state", "physical_state", "rate_gbit_s", "link_layer", "netdev", "lid", "sm_lid", "mtu_active", "mtu_max"),
    *("gids", "raw"),
)
#: Where two tools say a thing differently, the first of this order counts.
_KERNEL = "rdma_stack"
_ORDER = ("ibstat", "ibv_devinfo", "rdma_link", "gids", _KERNEL)

_NAME = r"[A-Za-z0-9_.:-]{1,64}"
_STATES = {
    "active": "Active",
    "down": "Down",
    "init": "Initializing",
    "initializing": "Initializing",
    "armed": "Armed",
    "nop": "NoChange",
    "actdefer": "ActDefer",
    "activedefer": "ActDefer",
}
_PHYSICAL = {
    "linkup": "LinkUp",
    "disabled": "Disabled",
    "polling": "Polling",
    "sleep": "Sleep",
    "phytest": "PhyTest",
    "portconfigurationtraining": "PortConfigurationTraining",
    "linkerrorrecovery": "LinkErrorRecovery",
}


def _word(value: str | None, words: Mapping[str, str], prefix: str = "") -> str | None:
    """A tool's word in ibstat's words; a word that none of them is known to use stays as it is."""
    plain = present(re.sub(r"\s*\(-?[0-9]{1,4}\)$|^[0-9]{1,3}:\s*", "", value or ""))
    if plain is None:
        return None
    key = re.sub(r"[^a-z]", "", plain.lower())
    if prefix and key.startswith(prefix):
        key = key[len(prefix) :]
    return words.get(key, plain)


def _device(seen: Seen, name: str) -> dict[str, Any]:
    return seen.setdefault(name, {"ports": {}})


def _port(seen: Seen, name: str, index: int) -> dict[str, Any]:
    ports: dict[int, dict[str, Any]] = _device(seen, name)["ports"]
    return ports.setdefault(index, {})


# ibstat and ibstatus

_CA = re.compile(rf"\bCA '({_NAME})'")
_CA_PORT = re.compile(r"\s*Port ([0-9]{1,3}):$")
_STATUS_PORT = re.compile(rf"Infiniband device '({_NAME})' port ([0-9]{{1,3}}) status:")
_FIELD = re.compile(r"\s*([A-Za-z][A-Za-z _]{0,40}):\s*(.*)$")


def ibstat(reading: Reading) -> Facts:
    """`ibstat`; `ibstatus` is understood too."""
    seen: Seen = {}
    unread = Unread(reading)
    name = ""
    index: int | None = None
    for line in reading.lines:
        device, port, status = _CA.search(line), _CA_PORT.match(line), _STATUS_PORT.search(line)
        if device:
            name, index = device[1], None
            _device(seen, name)
        elif status:
            name, index = status[1], int(status[2])
            _port(seen, name, index)["evidence"] = [f"{name} port {index}"]
        elif port and name:
            index = int(port[1])
            _port(seen, name, index)["evidence"] = [f"CA '{name}' Port {index}"]
        else:
            field = _FIELD.match(line)
            if not field or not name:
                unread.add(line)
            elif index is None:
                _ibstat_device(_device(seen, name), field[1].lower(), field[2])
            else:
                _ibstat_port(_port(seen, name, index), field[1].lower().replace("_", " "), field[2], line.strip())
    _seal(seen)
    # Without a device and without a complaint the tool ran and found none.
    return {"join.ibstat": seen} if unread.close(bool(seen)) else {}


def _ibstat_device(device: dict[str, Any], field: str, value: str) -> None:
    if field == "ca type":
        device["ca_type"] = present(value)
    elif field == "firmware version":
        device["firmware"] = present(value)


def _ibstat_port(port: dict[str, Any], field: str, value: str, line: str) -> None:
    if field == "state":
        port["state"] = _word(value, _STATES)
    elif field in ("physical state", "phys state"):
        port["physical_state"] = _word(value, _PHYSICAL)
    elif field == "rate":
        port["rate_gbit_s"] = number(value)
    elif field == "link layer":
        port["link_layer"] = present(value)
    elif field == "base lid":
        port["lid"] = _lid(value)
    elif field == "sm lid":
        port["sm_lid"] = _lid(value)
    if field in ("state", "physical state", "phys state", "rate", "link layer"):
        port["evidence"].append(re.sub(r"\s+", " ", line))


def _lid(value: str) -> int | None:
    """ibstatus and some releases of ibstat print it in hexadecimal."""
    hexadecimal = re.match(r"0x([0-9a-fA-F]{1,8})$", value.strip())
    return int(hexadecimal[1], 16) if hexadecimal else integer(value)


def _seal(seen: Seen) -> None:
    """What was read of a port becomes one line of evidence."""
    for device in seen.values():
        for port in device["ports"].values():
            evidence = port.pop("evidence", None)
            if evidence:
                port["raw"] = raw(" | ".join(evidence))


# ibv_devinfo

_HCA = re.compile(rf"\s*hca_id:\s*({_NAME})$")
_GID = re.compile(r"\s*GID\[\s*([0-9]{1,5})\]:\s*([0-9a-fA-F:.]{2,64})(?:,\s*(.{1,40}))?$")


def ibv_devinfo(reading: Reading) -> Facts:
    """`ibv_devinfo`, with -v also the physical state, the rate and the GIDs."""
    seen: Seen = {}
    unread = Unread(reading)
    none_found = False
    name = ""
    port: dict[str, Any] | None = None
    for line in reading.lines:
        hca, field, gid = _HCA.match(line), _FIELD.match(line), _GID.match(line)
        if hca:
            name, port = hca[1], None
            _device(seen, name)
        elif gid and port is not None:
            port.setdefault("gids", []).append({"index": int(gid[1]), "gid": gid[2].lower(), "type": _gid_type(gid[3])})
        elif field and name:
            index = integer(field[2]) if field[1] == "port" else None
            if index is not None:
                port = _port(seen, name, index)
                port["evidence"] = [f"hca_id: {name} port: {index}"]
            elif port is not None:
                _devinfo_port(port, field[1], field[2], line.strip())
            else:
                _devinfo_device(_device(seen, name), field[1], field[2])
        elif "No IB devices found" in line or line.strip() == "0 HCAs found:":
            none_found = True
        elif line.strip() and not name:
            unread.add(line)
    for device in seen.values():
        for one in device["ports"].values():
            _devinfo_rate(one)
    _seal(seen)
    return {"join.ibv_devinfo": seen} if unread.close(bool(seen) or none_found) else {}


def _devinfo_device(device: dict[str, Any], field: str, value: str) -> None:
    if field == "fw_ver":
        device["firmware"] = present(value)
    elif field == "board_id":
        device["board"] = present(value)


def _devinfo_port(port: dict[str, Any], field: str, value: str, line: str) -> None:
    if field == "state":
        port["state"] = _word(value, _STATES, "port")
    elif field == "phys_state":
        port["physical_state"] = _word(value, _PHYSICAL)
    elif field == "max_mtu":
        port["mtu_max"] = integer(value)
    elif field == "active_mtu":
        port["mtu_active"] = integer(value)
    elif field == "sm_lid":
        port["sm_lid"] = integer(value)
    elif field == "port_lid":
        port["lid"] = integer(value)
    elif field == "link_layer":
        port["link_layer"] = present(value)
    elif field == "active_width":
        width = re.match(r"([0-9]{1,2})X\b", value)
        port["width"] = int(width[1]) if width else None
    elif field == "active_speed":
        speed = re.match(r"([0-9]{1,4}(?:\.[0-9]{1,4})?) Gbps\b", value)
        port["speed"] = float(speed[1]) if speed else None
    if field in ("state", "phys_state", "active_mtu", "link_layer", "active_width", "active_speed"):
        port["evidence"].append(re.sub(r"\s+", " ", line))


def _devinfo_rate(port: dict[str, Any]) -> None:
    """Lanes times the speed of one lane."""
    width, speed = port.pop("width", None), port.pop("speed", None)
    if width and speed:
        port["rate_gbit_s"] = round(width * speed, 3)


def _gid_type(value: str | None) -> str | None:
    """v1 or v2, as show_gids says it."""
    match = re.search(r"\bv([12])$", (value or "").strip().lower())
    return f"v{match[1]}" if match else None


# rdma link

_LINK = re.compile(rf"(?![0-9]+/)({_NAME})/([0-9]{{1,3}}):?$")


def rdma_link(reading: Reading) -> Facts:
    """`rdma link`: `link mlx5_0/1 state ACTIVE ...`, in old releases `1/1: mlx5_0/1: state ACTIVE ...`."""
    seen: Seen = {}
    unread = Unread(reading)
    for line in reading.lines:
        if not line.strip():
            continue
        words = line.split()
        before = words[: words.index("state")] if "state" in words else []
        link = next((found for found in map(_LINK.match, reversed(before)) if found), None)
        if link is None:
            unread.add(line)
            continue
        values = dict(zip(words, words[1:]))
        port = _port(seen, link[1], int(link[2]))
        port.update(
            state=_word(values.get("state"), _STATES),
            physical_state=_word(values.get("physical_state"), _PHYSICAL),
            netdev=present(values.get("netdev")),
            lid=integer(values.get("lid")),
            sm_lid=integer(values.get("sm_lid")),
            # The kernel gives a subnet prefix for InfiniBand ports only.
            link_layer="InfiniBand" if "subnet_prefix" in values else None,
            raw=raw(line),
        )
    return {"join.rdma_link": seen} if unread.close(bool(seen)) else {}


# show_gids

_GID_ROW = re.compile(
    rf"\s*({_NAME})\s+([0-9]{{1,3}})\s+([0-9]{{1,5}})\s+([0-9a-fA-F:]{{4,64}})"
    r"(?:\s+([0-9]{1,3}(?:\.[0-9]{1,3}){3}))?(?:\s+(v[12]))?(?:\s+(\S{1,64}))?\s*$",
    re.IGNORECASE,
)


def gids(reading: Reading) -> Facts:
    """The table of show_gids."""
    seen: Seen = {}
    unread = Unread(reading)
    for line in reading.lines:
        if not line.strip() or line.startswith(("DEV", "---", "n_gids_found")):
            continue
        row = _GID_ROW.match(line)
        if not row:
            unread.add(line)
            continue
        port = _port(seen, row[1], int(row[2]))
        version = row[6].lower() if row[6] else None
        port.setdefault("gids", []).append({"index": int(row[3]), "gid": row[4].lower(), "type": version})
        # Entries of VLANs name their own interface; index 0 and 1 belong to the port's.
        if row[7] and not port.get("netdev"):
            port["netdev"] = row[7]
    return {"join.gids": seen} if unread.close(bool(seen)) else {}


# union


def devices(seen: Facts, observation: dict[str, Any]) -> Facts:
    """One list of devices out of what the tools saw, by device name; where they differ in a state, that is noted.

    `rdma_stack` adds to devices that a tool saw (PCI address), it brings in none of its own: that a device is in
    the kernel while the tools see none is a fault to be found, not to be hidden.
    """
    answered: dict[str, Seen] = {probe: seen[probe] for probe in _ORDER if seen.get(probe) is not None}
    names = {name for probe, one in answered.items() if probe != _KERNEL for name in one}
    if not [probe for probe in answered if probe != _KERNEL]:
        return {}
    found = []
    for name in sorted(names, key=_natural):
        views = {probe: one[name] for probe, one in answered.items() if name in one}
        for probe, note in _differences(name, views):
            state = observation["probes"].get(probe)
            if state is not None:
                state["notes"].append(note)
        found.append(_united(name, views))
    return {"rdma.devices": found}


def _united(name: str, views: dict[str, dict[str, Any]]) -> RdmaDevice:
    device: dict[str, Any] = {"name": name, **{key: _first(views, key) for key in _DEVICE_KEYS}, "ports": []}
    for index in _port_numbers(views):
        ports = {probe: view["ports"][index] for probe, view in views.items() if index in view["ports"]}
        device["ports"].append(cast(RdmaPort, {"port": index, **{key: _first(ports, key) for key in _PORT_KEYS}}))
    return cast(RdmaDevice, device)


def _port_numbers(views: dict[str, dict[str, Any]]) -> list[int]:
    return sorted({index for view in views.values() for index in view["ports"]})


def _differences(name: str, views: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """(probe, note) for each state that two tools say differently."""
    notes = []
    for index in _port_numbers(views):
        for key in ("state", "physical_state"):
            said = {probe: view["ports"].get(index, {}).get(key) for probe, view in views.items()}
            said = {probe: value for probe, value in said.items() if value}
            if len(set(said.values())) > 1:
                text = ", ".join(f"{probe} says {value}" for probe, value in said.items())
                notes.append((next(iter(said)), f"{name} port {index}: {key}: {text}"))
    return notes


def _first(views: Mapping[str, Mapping[str, Any]], key: str) -> Any:
    order = sorted(views, key=_ORDER.index)
    if key == "gids":
        # show_gids and the kernel's table list what ibv_devinfo -v may leave out.
        order = sorted(order, key=lambda probe: probe != "gids")
    for probe in order:
        if views[probe].get(key) is not None:
            return views[probe][key]
    return None


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]{1,9})", name)]
