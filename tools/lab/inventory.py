"""The inventory of a lab: the nodes, how they are reached, and the declaration and lock of inventories/node."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tools.lab.names import LabError, NodeSpec
from tools.lab.seed import USER

NODES = "nodes.yml"
#: Copied from inventories/node: a lab's node is such a machine.
_DECLARATION = ("group_vars", "stack.lock.yml", "requirements")
#: Debian 12, because its Python is one that PyTorch's wheels for the CPU are kept for on machines with a local index.
_TRAINING_BASES = ("debian12",)
_HEADER = "---\n# Made by `make lab`, removed by `make lab-clean`; declaration and lock are inventories/node's.\n"


def text(specs: Sequence[NodeSpec], addresses: Mapping[str, str], ssh: Path) -> str:
    """`addresses` by node name; `ssh`: the directory with the lab's key and known_hosts."""
    hosts: dict[str, Any] = {
        spec.name: {"ansible_host": addresses[spec.name], "trainrig_private_address": addresses[spec.name]}
        for spec in specs
    }
    variables = {
        # No GPU and this machine's kernel: packages and files are put in place, nothing is loaded or started.
        "trainrig_hardware": "absent",
        "ansible_user": USER,
        "ansible_ssh_private_key_file": f"{ssh}/key",
        "ansible_ssh_common_args": " ".join(f"-o {key}={value}" for key, value in _options(ssh).items()),
    }
    groups: dict[str, Any] = {"all": {"hosts": hosts, "vars": variables}}
    for base in sorted({spec.base for spec in specs}):
        groups[base] = {"hosts": {spec.name: None for spec in specs if spec.base == base}}
    for layer in ("pytorch", "verify"):
        groups[layer] = {"hosts": {spec.name: None for spec in specs if spec.base in _TRAINING_BASES}}
    return _HEADER + yaml.dump(groups, Dumper=_Dumper, sort_keys=False, width=200)


def ssh_config(specs: Sequence[NodeSpec], addresses: Mapping[str, str], ssh: Path) -> str:
    """The same for ssh itself: `ssh -F FILE node-1`."""
    lines = [f"Host {spec.name}\n  HostName {addresses[spec.name]}\n" for spec in specs]
    common = {"User": USER, "IdentityFile": f"{ssh}/key", **_options(ssh)}
    return "".join([*lines, "Host *\n", *(f"  {key} {value}\n" for key, value in common.items())])


def _options(ssh: Path) -> dict[str, str]:
    return {
        "UserKnownHostsFile": f"{ssh}/known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        "ConnectTimeout": "10",
        # A connection that is kept open must notice soon that its node was switched off.
        "ServerAliveInterval": "2",
        "ServerAliveCountMax": "3",
    }


def check(directory: Path) -> None:
    """Refuse a directory that holds somebody's inventory."""
    foreign = [name for name in _DECLARATION if (directory / name).exists()]
    if foreign and not is_ours(directory):
        raise LabError(f"{directory / foreign[0]}: not the lab's. To fix it: name another directory with --inventory.")


def write(directory: Path, nodes: str, declaration: Path) -> None:
    """A file of nodes without any comes first: it marks the directory as the lab's, and nothing can go half-way."""
    check(directory)
    directory.mkdir(parents=True, exist_ok=True)
    _replace(directory / NODES, f"{_HEADER}all:\n  hosts: {{}}\n")
    for name in _DECLARATION:
        _remove(directory / name)
        if (declaration / name).is_dir():
            shutil.copytree(declaration / name, directory / name)
        else:
            shutil.copy2(declaration / name, directory / name)
    _replace(directory / NODES, nodes)


def remove(directory: Path) -> None:
    """What `write` made, its mark last, and the directory if nothing else is in it."""
    if not is_ours(directory):
        return
    for name in (*_DECLARATION, NODES):
        _remove(directory / name)
    if not any(directory.iterdir()):
        directory.rmdir()


def written(directory: Path) -> list[Path]:
    """Every path that `write` made."""
    roots = [directory / name for name in (*_DECLARATION, NODES)]
    return [path for root in roots for path in (root, *(root.rglob("*") if root.is_dir() else ()))]


def is_ours(directory: Path) -> bool:
    """Whether a lab's inventory was written there."""
    path = directory / NODES
    return path.is_file() and path.read_text(encoding="utf-8").startswith(_HEADER)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class _Dumper(yaml.SafeDumper):
    """An empty value is written as nothing."""


_Dumper.add_representer(type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", ""))
