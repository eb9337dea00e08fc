"""Lines of a known_hosts file."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import shutil
import subprocess

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt import known_hosts
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.known_hosts import HostKey, with_keys

M = "0123456789abcdef0123456789abcdef"
KEY = HostKey("[203.0.113.7]:20022", "ssh-ed25519", "AAAAC3Nz", M)
OTHERS = (
    "# ours\na,b ssh-rsa AAAAB3Nz me@desk\n@cert-authority *.example.com ssh-rsa AAAAB3Nz\n|1|x=|y= ssh-rsa AAAAB4Nz\n"
)


def test_places():
    assert known_hosts.place("Node-A.Example.com", None) == "node-a.example.com"
    assert known_hosts.place("203.0.113.7", 22) == "203.0.113.7"
    assert known_hosts.place("2001:db8::5", 2222) == "[2001:db8::5]:2222"


def test_keys():
    found = known_hosts.keys(OTHERS + KEY.line())
    assert [one.place for one in found] == ["a", "b", "|1|x=|y=", KEY.place]
    assert found[-1] == KEY


def test_what_is_there_stays_and_nothing_stands_twice():
    text = with_keys(OTHERS, [KEY])
    assert text == OTHERS + KEY.line() + "\n"
    assert with_keys(text, [KEY]) == text
    assert with_keys(text, [KEY._replace(machine="")]) == text, "what was known of it is not forgotten"
    assert with_keys(text, [KEY._replace(place="a", kind="ssh-rsa", blob="AAAAB3Nz")]) == text


def test_the_machine_id_is_added_where_no_other_comment_is():
    bare = KEY._replace(machine="").line() + "\n"
    assert with_keys(bare, [KEY]) == KEY.line() + "\n"
    mine = KEY._replace(machine="my own words").line() + "\n"
    assert with_keys(mine, [KEY]) == mine


def test_a_place_that_is_no_nodes_any_more_goes():
    text = with_keys(OTHERS, [KEY, KEY._replace(place="new")])
    assert with_keys(text, [KEY._replace(place="new")], [KEY.place]) == OTHERS + KEY._replace(place="new").line() + "\n"
    assert with_keys(OTHERS, [], ["a"]) == OTHERS, "a line for several places stays"


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen on this machine")
def test_fingerprints_are_those_of_ssh_keygen(tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    said = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True).stdout.split()[1]
    assert known_hosts.fingerprint(key.with_suffix(".pub").read_text().split()[1]) == said
    assert known_hosts.fingerprint("!") == "unreadable"
