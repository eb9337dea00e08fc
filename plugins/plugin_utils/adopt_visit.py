"""One node on its way into an inventory: log in, install our key, provide Python and sudo, look at it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.adopt import identity
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.identity import Seen
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.known_hosts import HostKey
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.lines import Target
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.node import Node
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.reasons import Reason, reason
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.build import build
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.enrich import enrich
from ansible_collections.trainrig.gpu.plugins.plugin_utils import adopt_node, bundle_over_ssh
from ansible_collections.trainrig.gpu.plugins.plugin_utils.adopt_keys import OwnKey
from ansible_collections.trainrig.gpu.plugins.plugin_utils.adopt_node import Failed
from ansible_collections.trainrig.gpu.plugins.plugin_utils.adopt_ssh import Refused, Ssh
from ansible_collections.trainrig.gpu.plugins.plugin_utils.bundle_over_ssh import Execute, Unreachable, framed
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

_SUDO_S = 20.0
_NO_SUDO = "let it, or adopt the node as root"


@dataclass
class Visit:
    """What is known of a node so far. ``problem``: why it goes no further."""

    target: Target
    ssh: Ssh | None
    config: Path | None = None
    problem: Reason | None = None
    keys: list[HostKey] = field(default_factory=list)
    new_keys: bool = False
    own_key: OwnKey | None = None
    password: str | None = field(default=None, repr=False)
    say: Callable[[str], None] = print
    node: Node | None = None
    name: str = ""
    new: bool = True
    result: str = ""
    same_as: Visit | None = None
    former_place: str | None = None  # where the inventory's known_hosts had it before
    observation: dict[str, Any] | None = None
    private_address: str | None = None
    asks_for_sudo: bool = False
    _shell: Execute | None = None
    _root: Execute | None = None

    def shown(self) -> str:
        return self.target.shown()

    def way(self) -> Ssh:
        if self.ssh is None:
            raise ValueError(f"{self.shown()}: there is no way to it yet")
        return self.ssh

    def reached(self) -> Node:
        """What was found on the node; there is nothing to ask of one that was not reached."""
        if self.node is None:
            raise ValueError(f"{self.shown()}: it was not reached")
        return self.node

    def offer_keys(self, hosts: Mapping[str, Mapping[str, Any]]) -> None:
        """Log in with the key that the inventory has for this node, and with ours where it is there already."""
        if self.ssh is None:
            return
        name = identity.at_address(self.target.host, self.target.port, self.ssh.port, hosts)
        recorded = hosts[name].get("ansible_ssh_private_key_file") if name else None
        own = self.own_key.private if self.own_key else None
        self.ssh.more_keys = [str(key) for key in dict.fromkeys((own, recorded)) if key and key != self.target.key]

    def seen(self) -> Seen:
        node = self.reached()
        return Seen(self.way().place(), {key.blob for key in self.keys}, node.machine_id, node.live)

    def close(self) -> None:
        if self.ssh is not None:
            self.ssh.close()


def visit(one: Visit, known_hosts: Path) -> None:
    """Everything up to the first look; what goes wrong becomes the node's problem, never an exception."""
    try:
        ssh = one.way()
        ssh.connect(known_hosts, one.password)
        one._shell = ssh.shells()
        one.node = adopt_node.ask(one._shell)
        done = []
        if one.own_key and adopt_node.authorize(one._shell, one.own_key.text):
            done.append(f"added our key {one.own_key.path}")
        one._root = _root(one)
        one.node, installed = adopt_node.provide(one.node, one._root, one._shell)
        done += [f"installed {', '.join(installed)}"] if installed else []
        one.say(f"{one.shown()}: logged in as {one.node.user}; {'; '.join(done) or 'nothing to do'}")
        _prove(one)
    except Refused as error:
        one.problem = reason(str(error), one.target.jump, one.password is not None)
    except Failed as error:
        one.problem = Reason(str(error), error.fix)
    except (Unreachable, OSError) as error:
        one.problem = Reason(str(error), "run it again")
    if one.problem:
        one.say(f"{one.shown()}: failed: {one.problem.text}")


def _root(one: Visit) -> Execute | None:
    """A shell as root, None where there is none; sudo's refusals told apart."""
    node, ssh = one.reached(), one.way()
    if node.root:
        return one._shell
    if node.sudo == "works":
        return ssh.shells("sudo -n sh")
    if node.sudo == "tty":
        raise Failed(
            f"sudo wants a terminal: {node.sudo_said[:120]}", f"there: Defaults:{node.user} !requiretty in sudoers"
        )
    if node.sudo == "refused":
        raise Failed(f"{node.user} cannot use sudo: {node.sudo_said[:120]}", _NO_SUDO)
    if node.sudo == "password":
        one.asks_for_sudo = True
        if one.password is not None:
            # -k: sudo must read the line, or the shell behind it would.
            root = ssh.shells("sudo -k -S -p '' sh", one.password)
            answer = root(framed("id -u"), _SUDO_S)
            if answer.text.strip() == "0":
                return root
            if "sudoers" in answer.err or "not allowed" in answer.err:
                raise Failed(f"{node.user} cannot use sudo: it is not in the sudoers file", _NO_SUDO)
    return None


def _prove(one: Visit) -> None:
    """The login that the inventory will say must work, on a connection of its own and without the password."""
    said = one.way().try_again(one.own_key.private if one.own_key else None)
    if said is None:
        return
    why = reason(said, one.target.jump).text
    if one.own_key:
        fix = "see AuthorizedKeysFile in its sshd_config, and that nobody else can write to the home directory"
        raise Failed(f"our key {one.own_key.path} is there, but a login with it fails: {why}", fix)
    raise Failed(f"a login without the password fails: {why}", "give --key")


def observe(one: Visit, bundles: Path) -> None:
    """The first look: a bundle as `fab bundle` writes it, and what it shows."""
    execute = one._root or one._shell
    if execute is None:
        raise ValueError(f"{one.shown()}: it has no shell")
    got = bundle_over_ssh.collect(one.name, lambda: (execute, lambda: None), bundles)
    if got.error is not None:
        one.problem = Reason(f"it could not be looked at: {got.error}", "run it again")
        return
    one.observation = enrich(dict(build(got.outputs)), load("gpus"))
