"""The nodes that a text names: many spellings, each beside the sibling that must not be taken for one."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.lines import Target, targets

NODE = Target("203.0.113.7", "root")
SSH = [
    ("ssh root@203.0.113.7", NODE),
    ("ssh -p 20022 root@203.0.113.7", NODE._replace(port=20022)),
    ("ssh -p20022 root@203.0.113.7", NODE._replace(port=20022)),
    ("ssh root@203.0.113.7 -p 20022", NODE._replace(port=20022)),
    ("ssh -oPort=20022 root@203.0.113.7", NODE._replace(port=20022)),
    ("ssh -o 'Port 20022' root@203.0.113.7", NODE._replace(port=20022)),
    ("ssh -l root 203.0.113.7", NODE),
    ("ssh -o User=root 203.0.113.7", NODE),
    ("/usr/bin/ssh root@203.0.113.7", NODE),
    ("$ ssh root@203.0.113.7", NODE),
    ("me@laptop:~$ ssh root@203.0.113.7", NODE),
    ("ssh://root@203.0.113.7", NODE),
    ("ssh://root@203.0.113.7:20022/", NODE._replace(port=20022)),
    ("ssh ssh://root@203.0.113.7:20022", NODE._replace(port=20022)),
    ("ssh root@203.0.113.7 nvidia-smi -L", NODE),
    ("ssh root@203.0.113.7 -L 8080:localhost:8080 -N", NODE),
    ("ssh -NfL 8080:localhost:8080 root@203.0.113.7", NODE),
    ("ssh -A -t root@203.0.113.7", NODE),
    ("sshpass -p geheim ssh root@203.0.113.7", NODE),
    ("ssh root@203.0.113.7 (port 20022)", NODE._replace(port=20022)),
    ("ssh -i ~/.ssh/key.pem root@203.0.113.7", NODE._replace(key="~/.ssh/key.pem")),
    ("ssh -i '/home/me/my keys/a.pem' root@203.0.113.7", NODE._replace(key="/home/me/my keys/a.pem")),
    ("ssh -J me@bastion:2222,hop root@203.0.113.7", NODE._replace(jump="me@bastion:2222,hop")),
    ("ssh -o ProxyJump=bastion root@203.0.113.7", NODE._replace(jump="bastion")),
    (
        "ssh -o KexAlgorithms=a,b -4 root@203.0.113.7",
        NODE._replace(options=("KexAlgorithms=a,b", "AddressFamily=inet")),
    ),
    ("ssh root@2001:db8::5", Target("2001:db8::5", "root")),
    ("ssh -p 22 root@2001:db8::5", Target("2001:db8::5", "root", 22)),
    ("ssh root@[2001:db8::5]:2222", Target("2001:db8::5", "root", 2222)),
    ("ssh ubuntu@node-1.example.com", Target("node-1.example.com", "ubuntu")),
    ("ssh node-a", Target("node-a")),
]
AROUND = [
    "{}",
    "> {}",
    "> > {}",
    "1. `{}`",
    "- **{}**",
    "Node 1: {}.",
    "\u201c{}\u201d,",
    "({})",
    "\ufeff{}\r",
    "* `{}`;",
]


@pytest.mark.parametrize(("line", "target"), SSH)
def test_an_ssh_line(line, target):
    assert targets(line).targets == [target]
    assert targets(line, typed=True).targets == [target]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(
    "line", ["ssh -p 20022 root@203.0.113.7", "ssh root@203.0.113.7 -p 20022", "root@203.0.113.7:20022"]
)
def test_what_mail_programs_put_around_it(line, around):
    assert targets(f"Hello,\n\n{around.format(line)}\nRegards\n").targets == [NODE._replace(port=20022)]


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("root@203.0.113.7", NODE),
        ("root@203.0.113.7:20022", NODE._replace(port=20022)),
        ("root@203.0.113.7 -p 20022", NODE._replace(port=20022)),
        ("-p 20022 root@203.0.113.7", NODE._replace(port=20022)),
        ("[2001:db8::5]:2222", Target("2001:db8::5", None, 2222)),
        ("2001:db8::5", Target("2001:db8::5")),
        ("203.0.113.7", Target("203.0.113.7")),
        ("node-a:2222", Target("node-a", None, 2222)),
        ("a.example.com", Target("a.example.com")),
        ("ubuntu@a.example.com", Target("a.example.com", "ubuntu")),
        ("Node 4: root@203.0.113.7, port: 20022", NODE._replace(port=20022)),
        ("| gpu | root@203.0.113.7 |", NODE),
        ("ssh \u2013p 20022 root@203.0.113.7", NODE._replace(port=20022)),
        ("ssh\u00a0-p\u00a020022 root@203.0.113.7", NODE._replace(port=20022)),
        ("ssh -p 20022 \\\n    root@203.0.113.7", NODE._replace(port=20022)),
        ("Use SSH: root@203.0.113.7", NODE),
    ],
)
def test_other_spellings_in_a_letter(line, target):
    assert targets(f"Hello there,\n{line}\n").targets == [target]


@pytest.mark.parametrize(
    "line",
    [
        "Hello,",
        "ssh",
        "ssh to the node and look",
        "use ssh keys",
        "Thanks",
        "-- ",
        "580.65.06",
        "10:30",
        "20022",
        "user@host:port",
        "ssh -p <port> root@<address>",
        "ssh -p 99999 root@203.0.113.7",
        "ssh -p root@203.0.113.7",
        "ssh root@203.0.113",
        "ssh root@-oProxyCommand=x",
        "ssh -l '-oProxyCommand=x' 203.0.113.7",
        "ssh -J '-oProxyCommand=x' root@203.0.113.7",
        "ssh -i '$(x)' root@203.0.113.7",
        "https://console.example.com/nodes",
        "Questions? support@example.com",
        "Gateway: 203.0.113.1",
        "hunter2",
        "Password for ssh: hunter-2",
        "password ssh hunter2",
        "# ssh root@203.0.113.7",
    ],
)
def test_what_is_no_node(line):
    found = targets(f"Dear all\n{line}\n")
    assert found.targets == []
    secret = [word for word in line.split() if "hunter" in word]
    assert not any(word in note for word in secret for note in found.notes), "a line's text is never repeated"


def test_a_list_of_names_is_a_list():
    assert [one.host for one in targets("node-a\ngpu01\n# a comment\n\nnode-b:22\n").targets] == [
        "node-a",
        "gpu01",
        "node-b",
    ]
    assert [one.host for one in targets("node-a\nand a letter\n").targets] == [], "in a letter a lone word is a word"


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node-a", ["node-a"]),
        ("node", ["node"]),
        ("node-a, node-b", ["node-a", "node-b"]),
        ("node-a,node-b node-c", ["node-a", "node-b", "node-c"]),
        ("root@a -p 2 b", ["a", "b"]),
        ("a; b", ["a", "b"]),
    ],
)
def test_every_typed_word_is_meant(text, hosts):
    assert [one.host for one in targets(text, typed=True).targets] == hosts


def test_a_typed_word_that_is_no_address_is_named():
    found = targets("node-a bad:port", typed=True)
    assert [one.host for one in found.targets] == ["node-a"]
    assert found.notes == ["line 1: a word in it is no address ([ssh] [options] [user@]host[:port])"]


def test_several_in_a_line_and_each_once():
    found = targets("ssh -p 1 root@a1 and ssh -p 2 root@a2\nssh root@a1 -p1\nroot@203.0.113.7, root@203.0.113.8")
    assert [(one.host, one.port) for one in found.targets] == [
        ("a1", 1),
        ("a2", 2),
        ("203.0.113.7", None),
        ("203.0.113.8", None),
    ]


@pytest.mark.parametrize(
    ("option", "note"),
    [
        ("StrictHostKeyChecking=no", "host keys"),
        ("UserKnownHostsFile=/dev/null", "host keys"),
        ("ProxyCommand=sh", "proxycommand is not taken over"),
        ("LocalCommand=sh", "localcommand is not taken over"),
        ("KexAlgorithms={{x}}", "kexalgorithms is not taken over"),
        ("HostName=%h", "hostname is not taken over"),
        ("LogLevel=ERROR", None),
        ("ServerAliveInterval=30", None),
    ],
)
def test_only_harmless_options_are_taken_over(option, note):
    found = targets(f"ssh -o {option} root@203.0.113.7")
    (target,) = found.targets
    assert target.options == (("ServerAliveInterval=30",) if "Alive" in option else ())
    assert (note in found.notes[0]) if note else found.notes == []


def test_a_password_in_a_line_is_dropped_and_not_shown():
    found = targets("ssh://root:hunter2@203.0.113.7:22\nsshpass -p hunter2 ssh root@203.0.113.8\nPassword: hunter2\n")
    assert [one.host for one in found.targets] == ["203.0.113.7", "203.0.113.8"]
    assert "hunter2" not in repr(found)
    assert any("--password" in note for note in found.notes)


def test_notes_say_which_lines():
    notes = targets("Hello\nthere\nssh root@203.0.113.7\nBye\nssh -p x root@203.0.113.8\n").notes
    assert notes == [
        "line 5: what stands behind ssh in it cannot be read (a port, user, key, jump host or address)",
        "no address in lines 1-2, 4: left out",
    ]
