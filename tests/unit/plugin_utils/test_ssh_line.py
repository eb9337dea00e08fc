"""The ssh line to type: the words of the inventory, and nothing where a host is reached in another way."""

import pytest
from ansible_collections.trainrig.gpu.plugins.plugin_utils.ssh_line import ssh_line


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({}, "ssh n1 true"),
        ({"ansible_host": "203.0.113.9"}, "ssh 203.0.113.9 true"),
        ({"ansible_ssh_host": "h", "ansible_ssh_port": 22, "ansible_ssh_user": "me"}, "ssh -p 22 me@h true"),
        ({"ansible_user": "me", "ansible_port": "2222"}, "ssh -p 2222 me@n1 true"),
        ({"ansible_private_key_file": "~/my key"}, "ssh -i '/home/me/my key' n1 true"),
        ({"ansible_ssh_private_key_file": "/k", "ansible_ssh_common_args": "-J gate"}, "ssh -i /k -J gate n1 true"),
        ({"ansible_ssh_extra_args": "-o 'ProxyCommand=nc %h %p'"}, "ssh -o 'ProxyCommand=nc %h %p' n1 true"),
        ({"ansible_connection": "ansible.builtin.ssh"}, "ssh n1 true"),
        ({"ansible_connection": "local"}, None),
        ({"ansible_connection": "community.docker.docker"}, None),
    ],
)
def test_the_line(variables, line, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert ssh_line({"inventory_hostname": "n1", **variables}) == line
