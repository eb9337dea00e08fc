"""`fab bundle HOST...`: saves what nodes are by plain SSH, where Ansible cannot run on them.

Needs Fabric only, no Ansible: `pip install fabric` (pyproject.toml names the release).
`fab adopt NAME`: makes an inventory of the nodes that a mail names; it also needs PyYAML and OpenSSH's client.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Callable

from fabric import Connection, task
from fabric.tasks import Task
from invoke.exceptions import Exit
from invoke.parser import Argument
from paramiko import AutoAddPolicy, RejectPolicy
from paramiko.hostkeys import InvalidHostKey
from paramiko.ssh_exception import SSHException

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "collections"))

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.probes import Options  # noqa: E402 - needs the path
from ansible_collections.trainrig.gpu.plugins.plugin_utils import bundle_over_ssh as ssh  # noqa: E402 - needs the path

#: Options of `bundle` that take a value; what else stands behind it is a host.
_VALUES = ("-o", "--output", "-t", "--timeout")


def _host_words(words: list[str]) -> list[str]:
    """The hosts in a command line `fab [options] bundle HOST... [options]`."""
    behind = words[words.index("bundle") + 1 :] if "bundle" in words else []
    return [word for before, word in zip(["", *behind], behind) if not word.startswith("-") and before not in _VALUES]


class _OfHosts(Task):
    """A task with as many hosts as the command line names; Invoke itself knows fixed numbers only."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        _host, *options = super().get_arguments(ignore_unknown_help)
        hosts = range(len(_host_words(sys.argv)))
        return [*(Argument(name=f"host{number}", positional=True) for number in hosts), *options]

    def __call__(self, context: Any, **arguments: Any) -> Any:
        hosts = [arguments.pop(name) for name in sorted(arguments, key=len) if re.match(r"host[0-9]", name)]
        if not hosts:
            raise Exit("name at least one host: fab bundle [user@]name[:port]...", 2)
        return super().__call__(context, list(dict.fromkeys(hosts)), **arguments)


@task(
    klass=_OfHosts,
    positional=["host"],
    help={
        "host": "[user@]name[:port] of a node, as many as wanted; names of ~/.ssh/config work",
        "output": "directory that gets one bundle a host",
        "sudo": "ask as root (sudo without a password)",
        "timeout": "bound for each command in seconds, where its own is not shorter",
    },
)
def bundle(context: Any, host: list[str], output: str = "bundles", sudo: bool = False, timeout: float = 0.0) -> None:
    """Save bundles of nodes: bundles/<host>/<probe>, to be read by playbooks/diagnose.yml -e bundles=bundles."""
    same = ssh.same_name(host)
    if same:
        raise Exit(f"{' and '.join(same)} would write the same bundle; name each node once", 2)
    # Made here, one by one: Fabric's configuration is not made for several threads.
    connections = {one: Connection(one, config=context.config.clone()) for one in host}
    options = Options(peers=tuple(connection.host for connection in connections.values()))
    shell = "sudo -n sh" if sudo else "sh"

    def collect(one: str) -> ssh.Got:
        return ssh.collect(one, lambda: _log_in(connections[one], shell), Path(output), options, timeout or None)

    results = ssh.collect_all(host, collect)
    print(ssh.shown(results))
    if any(got.error is not None for got in results):
        raise Exit(code=1)


def _log_in(connection: Connection, shell: str) -> tuple[ssh.Execute, Callable[[], None]]:
    """A host key that is not known is refused, unless ~/.ssh/config says otherwise for that host."""
    known = connection.ssh_config.get("userknownhostsfile", "~/.ssh/known_hosts").split()
    trusting = connection.ssh_config.get("stricthostkeychecking", "yes") in ("no", "off", "accept-new")
    connection.client.set_missing_host_key_policy(AutoAddPolicy() if trusting else RejectPolicy())
    for path in (Path(name).expanduser() for name in ("/etc/ssh/ssh_known_hosts", *known)):
        try:
            if path.is_file():
                connection.client.load_system_host_keys(str(path))
        except (InvalidHostKey, SSHException, OSError, ValueError) as error:
            raise ssh.Unreachable(f"{path}: a line is no host key: {error}") from error
    try:
        connection.open()
    except (SSHException, OSError, EOFError) as error:
        hint = "; log in once with ssh and compare its key" if "known_hosts" in str(error) else ""
        raise ssh.Unreachable(f"{error or type(error).__name__}{hint}") from error
    return ssh.over_transport(connection.transport, shell), connection.close


@task(
    positional=["name"],
    iterable=["hosts"],
    auto_shortflags=False,
    help={
        "name": "the inventory: inventories/NAME, or a path",
        "hosts": "a line such as 'ssh -p 20022 root@203.0.113.7', or hosts; may be given several times",
        "file": "a file that holds such lines, a saved mail for example; - is standard input",
        "key": "our key that goes on the nodes (default: the first of ~/.ssh/id_*.pub)",
        "password": "ask once, without echo, for the password that the nodes have now",
        "accept-new-host-keys": "believe host keys that are not known yet, without asking",
        "private-network": "the network by which the nodes reach each other, such as 10.0.0.0/16",
        "pool": "the pool of these nodes: what trains together",
        "bundles": "directory that gets the first look, one bundle a host",
    },
)
def adopt(
    context: Any,
    name: str,
    hosts: list[str],
    file: str = "",
    key: str = "",
    password: bool = False,
    accept_new_host_keys: bool = False,
    private_network: str = "",
    pool: str = "",
    bundles: str = "bundles",
) -> None:
    """Make or update an inventory from lines like `ssh -p 20022 root@203.0.113.7`: docs/adopt.md."""
    # Here, so that `fab bundle` needs no PyYAML.
    from ansible_collections.trainrig.gpu.plugins.plugin_utils import adopt as adopting

    config = getattr(context.config, "_runtime_ssh_path", None)  # fab -S FILE
    try:
        status = adopting.run(
            adopting.Request(
                name=name,
                texts=adopting.texts(hosts, file),
                key=key or None,
                password=password,
                accept=accept_new_host_keys,
                network=private_network or None,
                pool=pool or None,
                config=Path(config).absolute() if config else None,
                bundles=Path(bundles),
            )
        )
    except adopting.Stop as stop:
        raise Exit(str(stop), 2) from stop
    if status:
        raise Exit(code=status)
