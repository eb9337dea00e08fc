"""Names, addresses and numbers of a lab."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from tools.lab.names import (
    MAX_LABS,
    MAX_NODES,
    NETWORKS,
    Addresses,
    LabError,
    NodeSpec,
    check_name,
    deal,
    free_network,
    free_number,
    machine_name,
)

KNOWN = ["debian12", "debian13"]


@pytest.mark.parametrize(
    ("bases", "nodes", "expected"),
    [
        (["debian12"], None, ["debian12", "debian12"]),
        (["debian13"], 1, ["debian13"]),
        (["debian12", "debian13"], 4, ["debian12", "debian13", "debian12", "debian13"]),
        (["debian12", "debian12", "debian13"], None, ["debian12", "debian12", "debian13"]),
    ],
)
def test_bases_are_dealt_in_turn(bases, nodes, expected):
    specs = deal(bases, nodes, KNOWN)
    assert [spec.base for spec in specs] == expected
    assert [spec.name for spec in specs] == [f"node-{number}" for number in range(1, len(expected) + 1)]


@pytest.mark.parametrize(
    ("bases", "nodes", "words"),
    [
        (["debian11"], 2, ["--base debian11", "debian12, debian13"]),
        (["debian12"], 0, ["--nodes 0", f"1 to {MAX_NODES}"]),
        (["debian12"], MAX_NODES + 1, [f"--nodes {MAX_NODES + 1}"]),
    ],
)
def test_what_cannot_be_is_told_with_the_fix(bases, nodes, words):
    with pytest.raises(LabError) as caught:
        deal(bases, nodes, KNOWN)
    assert all(word in str(caught.value) for word in [*words, "To fix it"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["lab", "a", "test2", "molecule"])
def test_good_names(name):
    assert check_name(name) == name
    longest = machine_name(name, NodeSpec(MAX_NODES, "debian12"))
    assert len(f"vb-{longest}") <= 15, "it is the name of a network interface too"


@pytest.mark.parametrize("name", ["", "Lab", "2lab", "a-b", "../x", "toolonger", "lab\n"])
def test_bad_names(name):
    with pytest.raises(LabError, match="not a lab's name"):
        check_name(name)


def test_every_node_of_every_lab_has_an_address_of_its_own():
    addresses = Addresses(NETWORKS[0])
    numbers = [(lab, node) for lab in range(1, MAX_LABS + 1) for node in range(1, MAX_NODES + 1)]
    given = {addresses.node(*pair) for pair in numbers}
    assert len(given) == len(numbers)
    assert all(address in addresses.nodes for address in given)
    assert not given & {addresses.bridge, addresses.cache, addresses.gateway}
    assert not addresses.nodes.overlaps(addresses.uplink)
    assert addresses.uplink.subnet_of(addresses.network)


def test_a_network_that_is_in_use_is_left_alone():
    assert free_network([IPv4Network("0.0.0.0/0"), IPv4Network("192.168.0.0/16")]) == NETWORKS[0]
    inside, around = IPv4Network(f"{NETWORKS[0][77]}/32"), IPv4Network("10.214.0.0/15")
    assert free_network([inside]) == NETWORKS[1]
    assert free_network([inside, around]) == IPv4Network("10.216.0.0/16")
    with pytest.raises(LabError, match="in use"):
        free_network([IPv4Network("10.0.0.0/8")])


def test_the_lowest_free_number():
    assert free_number([]) == 1
    assert free_number([0, 1, 3]) == 2
    with pytest.raises(LabError, match="lab-clean"):
        free_number(range(1, MAX_LABS + 1))
