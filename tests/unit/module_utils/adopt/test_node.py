"""A node's own answer, its name, its address, its identity, and why ssh did not get there."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import subprocess

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt import identity, names, network, node, reasons, table
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.identity import Seen
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.known_hosts import HostKey

M = "0123456789abcdef0123456789abcdef"
BEFORE = "kex_exchange_identification: Connection closed by remote host\n"
ANSWER = f"""Last login: today
user=ubuntu
uid=1000
hostname=node-a
machine_id={M}
boot_id=b
pid_namespace=pid:[1]
init=systemd
systemd=yes
python=/usr/bin/python3 3.10
manager=apt-get
sudo=works
"""


def answer(**changes):
    """The answer with other lines; None: without it."""
    lines = [line for line in ANSWER.splitlines() if line.partition("=")[0] not in changes]
    return node.node("\n".join([*lines, *(f"{key}={value}" for key, value in changes.items() if value is not None)]))


def test_a_usual_node():
    found = answer()
    assert found.user == "ubuntu" and not found.root and found.machine_id == M and found.live == "b pid:[1]"
    assert (found.python(), found.manager, found.sudo, found.is_container()) == (
        "/usr/bin/python3",
        "apt-get",
        "works",
        False,
    )


def test_this_machine_answers():
    done = subprocess.run(["sh"], input=node.SCRIPT, capture_output=True, text=True, check=False)
    found = node.node(done.stdout)
    assert done.stderr == "" and found.python() and found.live


def test_no_answer():
    assert node.node("Please change your password\n") is None


@pytest.mark.parametrize(
    ("pythons", "chosen"),
    [
        (["/usr/bin/python3 3.6"], None),
        (["/usr/bin/python3 3.6", "/usr/bin/python3.9 3.9", "/usr/bin/python3.11 3.11"], "/usr/bin/python3.11"),
        (["/usr/bin/python3 3.8", "/usr/bin/python3.11 3.11"], "/usr/bin/python3"),
        (["/usr/bin/python3 "], None),
        (["/usr/bin/python3.8-config 3.8"], None),
    ],
)
def test_the_python_for_modules(pythons, chosen):
    text = ANSWER.replace("python=/usr/bin/python3 3.10\n", "".join(f"python={one}\n" for one in pythons))
    assert node.node(text).python() == chosen


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("works", "works"),
        ("there", "there"),
        ("sudo: a password is required", "password"),
        ("sudo: a terminal is required to read the password; either use the -S option", "password"),
        ("sudo: sorry, you must have a tty to run sudo", "tty"),
        ("ubuntu is not in the sudoers file.  This incident will be reported.", "refused"),
        (None, None),
    ],
)
def test_sudos_refusals_are_told_apart(said, kind):
    assert answer(sudo=said).sudo == kind


@pytest.mark.parametrize(
    ("changes", "observation", "container"),
    [
        ({}, None, False),
        ({"init": "init", "systemd": None}, None, False),
        ({"init": "sshd", "systemd": None}, None, True),
        ({"mark": "/.dockerenv"}, None, True),
        ({}, {"machine": {"container": True}}, True),
        ({}, {"machine": {"container": None}}, False),
        ({}, {"machine": None}, False),
    ],
)
def test_containers(changes, observation, container):
    assert answer(**changes).is_container(observation) is container


@pytest.mark.parametrize(
    ("hostname", "taken", "name"),
    [
        ("node-a", (), "node-a"),
        ("Node_A.example.com", (), "node_a"),
        ("node-a", ("node-a",), "node-a-2"),
        ("node-a", ("node-a", "node-a-2"), "node-a-3"),
        ("localhost.localdomain", (), "node-203-0-113-7"),
        ("", (), "node-203-0-113-7"),
        ("1234", (), "node-1234"),
        ("yes", (), "node-203-0-113-7"),
        ("verify", ("verify",), "verify-2"),
        ("b\u00fcro {{ x }}", (), "b-ro-x"),
    ],
)
def test_names(hostname, taken, name):
    assert names.inventory_name(hostname, "203.0.113.7", taken) == name


def observed(**interfaces):
    links = [
        {
            "ifname": name.replace("_", "-"),
            "operstate": "UP",
            "addr_info": [{"local": one.split("/")[0], "prefixlen": int(one.split("/")[1]), "scope": "global"}],
        }
        for name, one in interfaces.items()
    ]
    return {"network": {"addresses": links, "routes": [{"dst": "default", "dev": "eth0"}]}}


@pytest.mark.parametrize(
    ("nodes", "options", "addresses"),
    [
        ({"a": observed(eth0="203.0.113.7/24", eth1="10.0.0.1/16")}, {}, ["10.0.0.1"]),
        ({"a": observed(eth0="203.0.113.7/24")}, {}, [None]),
        ({"a": observed(docker0="172.17.0.1/16", br_1="192.168.9.1/24")}, {}, [None]),
        ({"a": observed(eth0="10.0.0.1/24", ib0="192.168.1.1/24")}, {"network": "192.168.0.0/16"}, ["192.168.1.1"]),
        ({"a": observed(eth0="10.0.0.1/24")}, {"network": "192.168.0.0/16"}, [None]),
        ({"a": observed(eth0="203.0.113.7/24")}, {"network": "203.0.113.0/24"}, ["203.0.113.7"]),
        ({"a": observed(eth0="10.0.0.1/24", eth1="10.1.0.1/24")}, {"declared": ["10.1.0.5"]}, ["10.1.0.1"]),
        (
            {
                "a": observed(eth0="10.9.0.1/24", eth1="10.1.0.1/24"),
                "b": observed(eth0="10.8.0.1/24", eth1="10.1.0.2/24"),
            },
            {},
            ["10.1.0.1", "10.1.0.2"],
        ),
        ({"a": observed(eth0="10.1.0.1/24"), "b": observed(eth0="10.2.0.1/24")}, {}, ["10.1.0.1", "10.2.0.1"]),
        ({"a": observed(eth0="fd00::1%{{ x }}/64")}, {}, [None]),
        ({"a": observed(eth0="fd00::1%{{ x }}/64")}, {"network": "fd00::/8"}, [None]),
        ({"a": observed(eth0="fd00::1%{{ x }}/64"), "b": observed(eth0="fd00::2%{{ x }}/64")}, {}, [None, None]),
        ({"a": observed(eth0="10.0.2.15/24")}, {"declared": ["10.0.2.15"]}, [None]),
        ({"a": observed(eth0="10.0.2.15/24"), "b": observed(eth0="10.0.2.15/24")}, {}, [None, None]),
    ],
)
def test_private_addresses(nodes, options, addresses):
    assert list(network.private_addresses(nodes, **options).values()) == addresses


def test_the_same_running_system_twice():
    one, two = Seen("a", {"K"}, M, "b 1"), Seen("b", {"L"}, M, "b 2")
    assert identity.first_alike([one, two, one._replace(place="c")]) == [None, None, 0]
    unknown = one._replace(live="")
    assert identity.first_alike([unknown, unknown]) == [None, None]


def test_a_node_is_known_by_key_and_machine_id_together():
    known = [HostKey("old", "t", "K", M)]
    assert identity.former_places(Seen("new", {"K"}, M, ""), known) == ["old"]
    for seen in (
        Seen("new", {"L"}, M, ""),
        Seen("new", {"K"}, "", ""),
        Seen("new", {"K"}, M[::-1], ""),
        Seen("old", {"K"}, M, ""),
    ):
        assert identity.former_places(seen, known) == []


@pytest.mark.parametrize(
    ("host", "port", "resolved", "name"),
    [
        ("203.0.113.7", 2, 2, "a"),
        ("203.0.113.7", 3, 3, None),
        ("b", None, 22, "b"),
        ("b", 22, 22, "b"),
        ("b", 2, 2, None),
        ("b", None, 2222, "b"),
    ],
)
def test_at_an_address(host, port, resolved, name):
    inventory = {"a": {"ansible_host": "203.0.113.7", "ansible_port": 2}, "b": {}}
    assert identity.at_address(host, port, resolved, inventory) == name


def test_copies_of_an_image_are_named():
    seen = {"a": Seen("a", {"K"}, M, "1"), "b": Seen("b", {"K"}, M, "2"), "c": Seen("c", {"L"}, "", "3")}
    notes = identity.copies(seen)
    assert len(notes) == 2 and all(note.startswith("b and a have the same") for note in notes)


@pytest.mark.parametrize(
    ("said", "jump", "text"),
    [
        ("ssh: connect to host x port 1: Connection refused\r\n", None, "nothing listens on that port"),
        ("ssh: connect to host x port 22: Connection timed out", None, "no answer"),
        ("ssh: Could not resolve hostname x: Name or service not known", None, "the name does not resolve"),
        ("Welcome!\nroot@x: Permission denied (publickey).", None, "every key was refused"),
        (
            "Host key verification failed.\nkex_exchange_identification: Connection closed by remote host\n",
            "hop",
            "the jump host hop did not let us through: its host key is not known here",
        ),
        (
            "channel 0: open failed: connect failed: Connection refused\nstdio forwarding failed\n" + BEFORE,
            "hop",
            "seen from the jump host hop: nothing listens on that port",
        ),
        (
            "me@hop: Permission denied (publickey).\n" + BEFORE,
            "hop",
            "the jump host hop did not let us through: every key was refused",
        ),
        ("something new", None, "something new"),
        ("", None, "ssh said nothing"),
    ],
)
def test_reasons(said, jump, text):
    assert reasons.reason(said, jump).text == text
    assert reasons.reason(said, jump).fix


@pytest.mark.parametrize(
    ("said", "jump", "reached", "changed"),
    [
        ("root@x: Permission denied (publickey).\n", None, True, False),
        ("Connection closed by 203.0.113.7 port 22\n", None, True, False),
        ("me@hop: Permission denied (publickey).\n" + BEFORE, "hop", False, False),
        ("Host key verification failed.\n", "hop", False, True),
        ("Host key verification failed.\n" + BEFORE, "hop", False, False),
        ("Host key verification failed.\nConnection closed by UNKNOWN port 65535\n", "hop", False, False),
        (BEFORE, None, False, False),
    ],
)
def test_whose_key_it_is_about(said, jump, reached, changed):
    assert (reasons.is_reached(said), reasons.is_changed_key(said, jump)) == (reached, changed)


def test_what_a_node_says_moves_no_cursor():
    assert table.printable("a\x1b[2Jb\r\nc\x9bd") == "a?[2Jb?\nc?d"


def test_the_table():
    gpu = {"model": "M", "name": "N", "memory_mib": 1}
    seen = {
        "os": {"id": "ubuntu", "version_id": "24.04", "arch": "x86_64"},
        "nvidia": {"gpus": [gpu, gpu, {**gpu, "lost": True}], "driver": {"module": "5"}},
    }
    text = table.shown([table.Row("node-a", "adopted", "", seen, True, "10.0.0.1"), table.Row("b", "failed", "fix it")])
    assert [line.split("  ") for line in text.splitlines()][1:] and text.splitlines()[0].split() == " ".join(
        table.HEAD
    ).split()
    assert "ubuntu 24.04 x86_64 (container)  2 x M, 1 lost  5       10.0.0.1         adopted  -" in text
    assert text.splitlines()[2].split() == ["b", "-", "-", "-", "-", "failed", "fix", "it"]
