"""The files that make a base one particular node."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import re
from dataclasses import replace

from tools.lab.names import NETWORKS, Addresses, NodeSpec
from tools.lab.seed import HOST_KEY, USER, Surroundings, digest, seed

ADDRESSES = Addresses(NETWORKS[0])
NODES = (NodeSpec(1, "debian12"), NodeSpec(2, "debian13"))
AROUND = Surroundings(
    lab="lab",
    number=3,
    addresses=ADDRESSES,
    cache_url="http://192.0.2.1:3144",
    nodes=NODES,
    authorized_key="ssh-ed25519 AAAA lab",
    apt_settings='Acquire::Check-Date "false";\n',
    files={"/etc/pip.conf": b"[global]\n"},
    directories=("/srv/wheels",),
)


def made(spec=NODES[0], around=AROUND):
    return seed(spec, around, b"private", b"public")


def text(name, **how):
    return made(**how)[name].content.decode()


def test_every_node_knows_every_node_and_itself_by_its_real_address():
    for spec in NODES:
        rows = dict(reversed(line.split(maxsplit=1)) for line in text("etc/hosts", spec=spec).splitlines()[2:])
        assert rows == {"node-1": str(ADDRESSES.node(3, 1)), "node-2": str(ADDRESSES.node(3, 2))}
        assert "127.0.1.1" not in text("etc/hosts", spec=spec)


def test_the_only_way_out_is_to_the_cache():
    unit = text("etc/systemd/network/10-lab.network")
    assert "DHCP" not in unit
    destinations = [ipaddress.ip_network(word) for word in re.findall(r"^Destination=(.*)$", unit, re.MULTILINE)]
    assert destinations == [ADDRESSES.uplink]
    assert re.findall(r"^Gateway=(.*)$", unit, re.MULTILINE) == [str(ADDRESSES.bridge)]
    assert f"Address={ADDRESSES.node(3, 1)}/{ADDRESSES.nodes.prefixlen}\n" in unit


def test_apt_goes_through_the_cache_and_is_as_strict_as_this_machine():
    lines = text("etc/apt/apt.conf.d/90lab").splitlines()
    assert 'Acquire::http::Proxy "http://192.0.2.1:3144";' in lines
    assert 'Acquire::https::Proxy "http://192.0.2.1:3144";' in lines
    assert f'Acquire::http::Proxy::{ADDRESSES.cache} "DIRECT";' in lines, "a test's repository is no mirror to keep"
    assert 'Acquire::Check-Date "false";' in lines


def test_secrets_are_readable_for_their_owner_only():
    files = made()
    assert (files[HOST_KEY].mode, files[HOST_KEY].owner) == (0o600, 0)
    key = files[f"home/{USER}/.ssh/authorized_keys"]
    assert (key.mode, key.owner, key.content) == (0o600, 1000, b"ssh-ed25519 AAAA lab\n")


def test_a_machine_id_is_a_node_s_own_and_stays():
    one, again, other = text("etc/machine-id"), text("etc/machine-id"), text("etc/machine-id", spec=NODES[1])
    assert one == again != other
    assert re.fullmatch(r"[0-9a-f]{32}\n", one)
    assert one != text("etc/machine-id", around=replace(AROUND, authorized_key="ssh-ed25519 BBBB lab"))


def test_paths_are_below_the_root():
    assert made()["etc/pip.conf"].content == b"[global]\n"
    assert not [name for name in made() if name.startswith("/")]


def test_the_digest_changes_with_everything_that_needs_a_new_start():
    first = digest(made(), AROUND.directories)
    assert digest(made(), AROUND.directories) == first
    grown = replace(AROUND, nodes=(*NODES, NodeSpec(3, "debian12")))
    others = {digest(made(around=grown), AROUND.directories), digest(made(), ())}
    others.add(digest({**made(), HOST_KEY: replace(made()[HOST_KEY], mode=0o644)}, AROUND.directories))
    assert len(others | {first}) == 4
