"""`fab adopt`: from the lines of a mail to an inventory. The steps in order, each for all nodes at the same time."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ansible_collections.trainrig.gpu.plugins.module_utils.adopt import inventory, known_hosts, lines, table
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.lines import Target
from ansible_collections.trainrig.gpu.plugins.module_utils.adopt.reasons import reason
from ansible_collections.trainrig.gpu.plugins.plugin_utils import adopt_keys, adopt_record
from ansible_collections.trainrig.gpu.plugins.plugin_utils.adopt_files import InventoryFiles, Unusable
from ansible_collections.trainrig.gpu.plugins.plugin_utils.adopt_ssh import Refused, Ssh
from ansible_collections.trainrig.gpu.plugins.plugin_utils.adopt_terminal import NoTerminal, Progress, confirm, secret
from ansible_collections.trainrig.gpu.plugins.plugin_utils.adopt_visit import Visit, observe, visit
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT

_COMPARE = (
    "New host keys. Compare them with what the provider's console shows, or the node itself:\n"
    "  ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
)


class Stop(Exception):
    """Nothing was done; the text says why and what to do."""


class Request(NamedTuple):
    """What was asked for. ``texts``: (where it is from, text, whether it was typed)."""

    name: str
    texts: Sequence[tuple[str, str, bool]]
    key: str | None = None
    password: bool = False
    accept: bool = False
    network: str | None = None
    pool: str | None = None
    config: Path | None = None
    bundles: Path = Path("bundles")


def texts(hosts: Sequence[str], file: str) -> list[tuple[str, str, bool]]:
    """What was named on the command line, in a file, or on standard input where nothing else was named."""
    found = [("--hosts", one, True) for one in hosts]
    if not file and (found or sys.stdin is None):
        return found
    if file not in ("", "-"):
        try:
            return [*found, (file, Path(file).expanduser().read_text("utf-8", "replace"), False)]
        except OSError as error:
            raise Stop(f"--file {file}: {error.strerror}") from error
    if sys.stdin.isatty():
        print("Paste the mail, or lines such as `ssh -p 20022 root@203.0.113.7`; then Ctrl-D on a line of its own:")
    return [*found, ("standard input", sys.stdin.read(), False)]


def run(request: Request) -> int:
    """Adopt the nodes; the exit status: 0, or 1 where a node failed. Raises Stop."""
    try:
        files = InventoryFiles(request.name)
        network = str(ipaddress.ip_network(request.network, strict=False)) if request.network else None
    except (Unusable, ValueError) as error:
        raise Stop(str(error)) from error
    targets = _targets(request)
    try:
        own = adopt_keys.own_key(request.key, request.password)
        password = secret("Password of the nodes: ") if request.password else None
    except adopt_keys.NoKey as error:
        raise Stop(str(error)) from error
    except NoTerminal as error:
        raise Stop("--password asks on the terminal, and there is none") from error
    if own is None:
        print(
            "No public key of ours to install (no ~/.ssh/id_*.pub, no --key): the login that works stays the one used."
        )
    with tempfile.TemporaryDirectory(prefix="trainrig-") as folder, Progress() as progress:
        visits = [_visit(number, target, Path(folder), request) for number, target in enumerate(targets)]
        try:
            _check_keys(visits, files, request, progress)
            hosts = inventory.hosts(files.data)
            for one in visits:
                one.own_key, one.password, one.say = own, password, progress.say
                one.offer_keys(hosts)
            alive = [one for one in visits if one.problem is None]
            progress.each("Log in and prepare", alive, Visit.shown, lambda one: visit(one, files.known_hosts))
            alive = [one for one in alive if one.problem is None]
            adopt_record.name_all(alive, files, Path(folder), request.config)
            alive = [one for one in alive if one.same_as is None]
            bundles = request.bundles / files.name
            progress.each("Observe", alive, Visit.shown, lambda one: observe(one, bundles))
        finally:
            for one in visits:
                one.close()
        notes = adopt_record.record(visits, files, network, request.pool)
    return _end(visits, files, notes)


def _targets(request: Request) -> list[Target]:
    found: list[Target] = []
    for source, text, typed in request.texts:
        some, notes = lines.targets(text, typed)
        found += some
        for note in notes:
            print(f"{source}: {note}")
    if not found:
        raise Stop("no address found; a line is [ssh] [-p PORT] [-i KEY] [-J JUMP] [user@]host[:port]")
    return lines.unique(found)


def _visit(number: int, target: Target, folder: Path, request: Request) -> Visit:
    if target.key and not Path(os.path.expanduser(target.key)).is_file():
        print(f"{target.shown()}: there is no key file {target.key} here; going on without it")
        target = target._replace(key=None)
    if target.key:
        target = target._replace(key=target.key if target.key.startswith("~") else str(Path(target.key).absolute()))
    try:
        return Visit(target, Ssh(target, folder, number, request.config), request.config)
    except Refused as error:
        return Visit(target, None, request.config, problem=reason(str(error)))


def _check_keys(visits: Sequence[Visit], files: InventoryFiles, request: Request, progress: Progress) -> None:
    """Look at every host key; show them, ask once for the new ones, and write down what is to be believed."""

    def look(one: Visit) -> adopt_keys.HostKeys:
        return adopt_keys.host_keys(one.way(), files.known_hosts)

    there = [one for one in visits if one.problem is None]
    for one, keys in zip(there, progress.each("Look at host keys", there, Visit.shown, look)):
        one.keys, one.new_keys, one.problem = [*keys.trusted, *keys.new], bool(keys.new), keys.problem
        if keys.problem:
            progress.say(f"{one.shown()}: failed: {keys.problem.text}")
    known = [one for one in there if one.keys and not one.new_keys]
    new = [one for one in there if one.new_keys]
    if known:
        progress.say("\n".join(["Host keys that are known already:", *_shown(known)]))
    if new:
        progress.say("\n".join([_COMPARE, *_shown(new)]))
        _accept(request, [one.target for one in visits])
    files.write_keys(key for one in visits for key in one.keys)


def _shown(visits: Sequence[Visit]) -> list[str]:
    rows = [
        (one.shown(), key.kind.replace("ssh-", ""), known_hosts.fingerprint(key.blob))
        for one in visits
        for key in one.keys
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return [f"  {place.ljust(widths[0])}  {kind.ljust(widths[1])}  {mark}" for place, kind, mark in rows]


def _accept(request: Request, targets: Sequence[Target]) -> None:
    if request.accept:
        return
    try:
        if confirm("Are these the nodes' own keys?"):
            return
    except NoTerminal as error:
        again = shlex.join(_command(request, targets))
        raise Stop(f"There is no terminal to ask on. When the keys are right, type:\n  {again}") from error
    raise Stop("The keys were not accepted: nothing was done.")


def _command(request: Request, targets: Sequence[Target]) -> list[str]:
    """The command line that does the same and needs no answer."""
    config = ["-S", str(request.config)] if request.config else []
    words = ["fab", *config, "adopt", request.name]
    for target in targets:
        parts = ["ssh", *(["-p", str(target.port)] if target.port else []), *(["-i", target.key] if target.key else [])]
        parts += ["-J", target.jump] if target.jump else []
        parts += [word for option in target.options for word in ("-o", option)]
        words += ["--hosts", shlex.join([*parts, f"{target.user}@{target.host}" if target.user else target.host])]
    for name, value in (("--key", request.key), ("--private-network", request.network), ("--pool", request.pool)):
        words += [name, value] if value else []
    return [*words, *(["--password"] if request.password else []), "--accept-new-host-keys"]


def _end(visits: Sequence[Visit], files: InventoryFiles, notes: Sequence[str]) -> int:
    print()
    print(table.printable(table.shown([_row(one) for one in visits])))
    failed = [one for one in visits if one.problem is not None]
    remarks = [f"{one.name or one.shown()}: {one.problem.text}" for one in failed if one.problem]
    if remarks or notes:
        print(table.printable("\n".join(["", *remarks, *notes])))
    if len(failed) < len(visits):
        where = os.path.relpath(files.directory, ROOT) if files.directory.is_relative_to(ROOT) else files.directory
        words = " ARGS=--ask-become-pass" if any(one.asks_for_sudo for one in visits) else ""
        lock = "" if files.has_lock() else f"ansible-playbook playbooks/lock.yml -i {where} && "
        print(f"\nInventory: {files.shown()}\nNext: {lock}make plan INVENTORY={shlex.quote(str(where))}{words}")
    return 1 if failed else 0


def _row(one: Visit) -> table.Row:
    if one.problem is not None:
        return table.Row(one.name or one.shown(), "failed", one.problem.fix, one.observation)
    if one.same_as is not None:
        return table.Row(one.shown(), f"same node as {one.same_as.name}")
    container = bool(one.node and one.node.is_container(one.observation))
    step = "sudo asks for a password: ARGS=--ask-become-pass" if one.asks_for_sudo else ""
    return table.Row(one.name, one.result, step, one.observation, container, one.private_address)
