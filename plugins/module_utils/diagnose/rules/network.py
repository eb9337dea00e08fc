"""Rules about names, addresses and ports: what a rendezvous between nodes needs."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Iterator, List

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule

#: Where Debian and Ubuntu put a machine's own name.
DEBIAN = "127.0.1.1"


def _loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


@host_rule("network.own_name_is_loopback")
def own_name_is_loopback(host: Host) -> Iterator[Hit]:
    """Debian and Ubuntu write 127.0.1.1; peers are then told to connect to themselves."""
    names = [str(name) for name in (host.get("network", "hostname"), host.get("network", "fqdn")) if name]
    if not names:
        # Nobody asked for the name: this is the line in which Debian's installer writes it.
        names = [
            str(name)
            for row in host.get("network", "etc_hosts") or []
            if row.get("address") == DEBIAN
            for name in row["names"]
        ]
    if not names:
        return
    own = {names[0], names[0].split(".")[0], *names}
    resolved = host.get("network", "resolved") or {}
    addresses: List[str] = [str(one) for name in own for one in resolved.get(name) or []]
    lines = [
        row
        for row in host.get("network", "etc_hosts") or []
        if own & set(row.get("names") or []) and _loopback(str(row.get("address")))
    ]
    loopback = [
        row
        for row in lines
        if row.get("address") not in ("127.0.0.1", "::1") or not {"localhost"} & set(row.get("names") or [])
    ]
    outward = [one for one in addresses if not _loopback(one) and not one.startswith("fe80:")]
    bad = not outward if addresses else bool(loopback)
    if not bad or names[0] == "localhost":
        return
    shown = [evidence("hosts", f"/etc/hosts: {row.get('raw')}") for row in lines[:2]]
    shown += [evidence("hosts", f"{names[0]} resolves to {addresses[0]}")] if addresses else []
    target = host.wants.address or "the address its peers use"
    found = (addresses or [str(lines[0]["address"])])[0]
    yield Hit(
        f"{names[0]} resolves to itself ({found}) on this node",
        shown,
        severity="info" if host.alone else None,
        target=target,
        found=found,
        name=names[0],
    )


@host_rule("network.name_is_no_name")
def name_is_no_name(host: Host) -> Iterator[Hit]:
    """A full name made from reverse DNS never equals the endpoint of a rendezvous."""
    name = str(host.get("network", "fqdn") or "")
    if name.endswith((".ip6.arpa", ".in-addr.arpa")):
        yield Hit(
            f"the full name of this node is {name}",
            [evidence("hosts", f"hostname -f: {name}")],
            severity="info" if host.alone else None,
        )


@host_rule("network.rendezvous_port_taken")
def rendezvous_port_taken(host: Host) -> Iterator[Hit]:
    port = host.fact("rules", "rendezvous_port", "port")
    rows = [row for row in host.get("network", "listening") or [] if row.get("port") == port]
    if rows:
        who = f" by {rows[0]['process']} (pid {rows[0].get('pid')})" if rows[0].get("process") else ""
        yield Hit(f"port {port}, torchrun's default, is taken{who}", [evidence("ports", rows[0].get("raw"))], port=port)
