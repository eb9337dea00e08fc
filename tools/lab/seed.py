"""The files that make a base system one particular node: a read-only layer between the base and the node's disk.

So the disk's own layer holds what happened on the node since, and nothing else. Pure.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tools.lab.names import Addresses, NodeSpec

#: The user with sudo whom every node has; its number is the first that a system gives to a person.
USER = "debian"
USER_ID = 1000
HOST_KEY = "etc/ssh/ssh_host_ed25519_key"


@dataclass(frozen=True)
class File:
    """A file of a seed; `owner`: user and group number."""

    content: bytes
    mode: int = 0o644
    owner: int = 0


@dataclass(frozen=True)
class Surroundings:
    """What all nodes of a lab have in common."""

    lab: str
    number: int
    addresses: Addresses
    cache_url: str
    nodes: tuple[NodeSpec, ...]
    authorized_key: str
    apt_settings: str = ""  # of this machine's apt, as apt.conf(5) text
    files: Mapping[str, bytes] = field(default_factory=dict)  # more, by their path: pip's settings, certificates
    directories: tuple[str, ...] = ()  # of this machine, seen by the nodes under the same path, read-only


def seed(spec: NodeSpec, around: Surroundings, host_key: bytes, host_key_public: bytes) -> dict[str, File]:
    """Path below the root -> file."""
    texts = {
        "etc/hostname": f"{spec.name}\n",
        "etc/hosts": hosts(around),
        "etc/resolv.conf": "# The lab has no name server: /etc/hosts knows every node.\n",
        "etc/machine-id": machine_id(around.authorized_key, spec),
        "etc/systemd/network/10-lab.network": network(spec, around),
        "etc/apt/apt.conf.d/90lab": apt(around),
    }
    files = {name: File(text.encode()) for name, text in texts.items()}
    files[HOST_KEY] = File(host_key, 0o600)
    files[f"{HOST_KEY}.pub"] = File(host_key_public)
    key = around.authorized_key.encode() + b"\n"
    files[f"home/{USER}/.ssh/authorized_keys"] = File(key, 0o600, USER_ID)
    files.update({path.lstrip("/"): File(content) for path, content in around.files.items()})
    return files


def hosts(around: Surroundings) -> str:
    """Every node by its name. The own name too is the address that others use, never 127.0.1.1."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    lines += [f"{around.addresses.node(around.number, spec.number)} {spec.name}" for spec in around.nodes]
    return "".join(f"{line}\n" for line in lines)


def network(spec: NodeSpec, around: Surroundings) -> str:
    """No default route: besides the other nodes a node reaches the uplink, where the cache is, and nothing else."""
    addresses = around.addresses
    address = f"{addresses.node(around.number, spec.number)}/{addresses.nodes.prefixlen}"
    return (
        f"[Match]\nName=host0\n\n[Network]\nAddress={address}\nIPv6AcceptRA=no\n\n"
        f"[Route]\nDestination={addresses.uplink}\nGateway={addresses.bridge}\n"
    )


def apt(around: Surroundings) -> str:
    """The cache for all but a repository on this machine's end of the cable, as tests start one."""
    own = (
        f'Acquire::http::Proxy "{around.cache_url}";\nAcquire::https::Proxy "{around.cache_url}";\n'
        f'Acquire::http::Proxy::{around.addresses.cache} "DIRECT";\n'
    )
    return f"{around.apt_settings}{own}"


def machine_id(authorized_key: str, spec: NodeSpec) -> str:
    """Another one for every node of every lab, the same one after a reset."""
    return f"{uuid.UUID(bytes=hashlib.md5(f'{authorized_key} {spec.name}'.encode()).digest(), version=4).hex}\n"


def digest(files: Mapping[str, File], directories: Iterable[str]) -> str:
    """One value for a seed: another one means that the node has to start anew."""
    total = hashlib.sha256("\n".join(directories).encode())
    for path in sorted(files):
        file = files[path]
        total.update(f"{path} {file.mode} {file.owner} {hashlib.sha256(file.content).hexdigest()}\n".encode())
    return total.hexdigest()
