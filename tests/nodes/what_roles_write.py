"""What roles wrote on a node, against what they say they put in place (meta/resources.yml, as the manifest has it).

unexplained(node, lock)     paths that nobody named: neither a resource, nor a file of a locked package, nor ALLOWED
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from tools.lab.node import Node

#: Paths that are nobody's resource, each with the reason; a pattern fits a whole path.
ALLOWED = {
    r"/home/debian/\.ansible(/.*)?": "Ansible's own directory for what it runs",
    r"/etc/trainrig(/manifest\.json|/hmac\.key)?": "the manifest, which has the resources, and its key",
    r"/opt/trainrig/(bin/uv|cache/.*|envs/.*)": "below the prefix: uv, its cache, what the environment links to",
    r"/etc/apt/keyrings": "the directory of keys",
    r"/var/lib/apt/.*|/var/cache/apt/.*": "apt's index and what it computes from it",
    r"/var/lib/dpkg/.*|/var/cache/debconf/.*": "dpkg's state: packages and holds are resources",
    r"/var/lib/dkms/.*": "DKMS builds the module of a locked package",
    r"/(usr/)?lib/modules/[^/]*/(updates/dkms/.*|modules\..*)": "the built module, and depmod's index of modules",
    r"/boot/initrd\.img-.*": "initial RAM disks, which must not load what the driver keeps off",
    r"/etc/(passwd|group|shadow|gshadow)-?": "users of the packages' daemons",
    r"/etc/ld\.so\.cache|/var/cache/ldconfig/.*": "the loader's index of libraries",
    r"/etc/systemd/system/[^/]*\.wants/nvidia-[^/]*\.service": "links of enabled units: units are resources",
    r"/var/lib/systemd/deb-systemd-helper-enabled/.*": "what packages note of units they enabled",
    r"/etc/alternatives/cuda[^/]*|/var/lib/alternatives/cuda.*|/usr/local/cuda(-[0-9]+)?": "the toolkit's alternatives",
    r"/var/log/.*|/var/lib/systemd/.*|/var/tmp/systemd-private-.*|/etc/\.pwd\.lock": "what a boot and a log write",
    r"/usr/local/bin/(lspci|mokutil|nvidia-smi|systemd-detect-virt|uname)": "stand-ins of the simulated hardware",
    r"/(usr/)?var/cache/man/.*|/tmp/.*": "caches that packages' triggers write",
}


def unexplained(node: Node, lock: Path) -> list[str]:
    """Paths that were written or removed since the last snapshot and that nobody named. The node runs."""
    root = Path(f"/proc/{node.leader}/root")
    known = {*_resources(root), *_of_packages(root, lock)}
    allowed = re.compile("|".join(f"(?:{pattern})" for pattern in ALLOWED))
    return sorted(path for path in node.changed() if path not in known and not allowed.fullmatch(path))


def _resources(root: Path) -> set[str]:
    """Paths of all layers' resources."""
    manifest = json.loads((root / "etc/trainrig/manifest.json").read_text(encoding="utf-8"))
    kinds = ("files", "absent", "links", "environments")
    entries = [
        one for entry in manifest["layers"].values() for kind in kinds for one in entry["resources"].get(kind, [])
    ]
    return {one["path"] if isinstance(one, dict) else one for one in entries}


def _of_packages(root: Path, lock: Path) -> set[str]:
    """Files that dpkg has for the packages of the lock, whatever path of a merged /usr they came by."""
    systems = yaml.safe_load(lock.read_text(encoding="utf-8"))["systems"]
    names = {row["name"] for system in systems for row in system["packages"]}
    lists = [path for path in (root / "var/lib/dpkg/info").glob("*.list") if path.stem.split(":")[0] in names]
    files = {line for path in lists for line in path.read_text(encoding="utf-8").splitlines()}
    return files | {f"/usr{path}" for path in files if path.startswith(("/lib/", "/bin/", "/sbin/"))}
