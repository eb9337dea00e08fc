"""Addresses, routes, listening ports and names."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest


def test_ip_addr_and_route(look):
    network = look(ip_addr='[{"ifname":"lo"},{},{"ifname":"ens1"}]', ip_route="[]")["network"]
    assert [one["ifname"] for one in network["addresses"]] == ["lo", "ens1"]
    assert network["routes"] == []


@pytest.mark.parametrize("text", ['{"ifname":"lo"}', "1: lo: <LOOPBACK>", "[" * 100000])
def test_ip_addr_that_is_no_list(look, text):
    observed = look(ip_addr=text)
    assert observed["network"]["addresses"] is None
    assert observed["probes"]["ip_addr"]["status"] == "unreadable"


PORTS = """\
State  Recv-Q Send-Q Local Address:Port  Peer Address:PortProcess
LISTEN 0      4096   127.0.0.53%lo:53         0.0.0.0:*    users:(("systemd-resolve",pid=812,fd=14))
LISTEN 0      128             [::]:22            [::]:*    users:(("sshd",pid=99,fd=4),("systemd",pid=1,fd=9))
LISTEN 0      2048               *:29500             *:*
0      128                 0.0.0.0:6006       0.0.0.0:*    users:(("my (\\"odd\\") job",pid=7,fd=3))
"""


def test_ports(look):
    found = look(ports=PORTS)["network"]["listening"]
    assert [(one["address"], one["interface"], one["port"], one["process"], one["pid"]) for one in found] == [
        ("127.0.0.53", "lo", 53, "systemd-resolve", 812),
        ("::", None, 22, "sshd", 99),
        ("*", None, 29500, None, None),
        ("0.0.0.0", None, 6006, 'my (\\"odd\\") job', 7),
    ]
    assert found[2]["raw"] == "LISTEN 0 2048 *:29500 *:*"


HOSTS = """\
==> /etc/hosts <==
127.0.0.1 localhost
127.0.1.1\tnode-a.lab node-a # set by the installer
::1 ip6-localhost
garbage here

==> hostname <==
node-a

==> hostname -f <== exit 1
hostname: Name or service not known

==> getent ahosts node-a <==
127.0.1.1       STREAM node-a.lab
127.0.1.1       DGRAM
10.0.0.11       STREAM

==> getent ahosts node-b <== exit 2
"""


def test_hosts(look):
    observed = look(hosts=HOSTS)
    network = observed["network"]
    assert (network["hostname"], network["fqdn"]) == ("node-a", None)
    assert network["etc_hosts"][1] == {
        "address": "127.0.1.1",
        "names": ["node-a.lab", "node-a"],
        "raw": "127.0.1.1\tnode-a.lab node-a # set by the installer",
    }
    assert network["resolved"] == {"node-a": ["127.0.1.1", "10.0.0.11"], "node-b": []}
    assert observed["probes"]["hosts"]["notes"] == ["/etc/hosts: cannot be read: garbage here"]
