"""Lets the nodes of a pool start MPI programs on each other by SSH, for as long as a verification lasts.

    python mpi_access.py make                               a key pair of this run; says who this node is
    python mpi_access.py grant --work DIRECTORY < PLACES    the others' keys may log in, their host keys are known
    python mpi_access.py revoke --work DIRECTORY            takes all of that back

A key is good from the others' private addresses only, for one user, without forwarding, and until its time is up
(`--seconds`): it is of no use when nobody comes to revoke it. Host keys are the nodes' own, handed over by whoever is
logged in there already. Everything else of ~/.ssh stays as it is. DIRECTORY is what `make` said: made for the run and
for this user alone, and gone with it.

PLACES is JSON: {name: {address, said}}, `said` what `make` printed there.
Standard library only.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MARK = "trainrig-verify"  # the comment of our keys begins with it
PROGRAM = "all_reduce_perf"  # the one of nccl-tests that every stage needs
SSH = Path("/etc/ssh")
DIRECTORY = "trainrig-mpi-"


def home() -> Path:
    return Path(pwd.getpwuid(os.getuid()).pw_dir)


def ssh_port() -> int:
    """The port on which this node's SSH daemon took whoever runs this; a provider may lead another one to it."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return int(words[3]) if len(words) == 4 and words[3].isdigit() else 22


def make(options: argparse.Namespace) -> dict[str, Any]:
    sweep()
    work = Path(tempfile.mkdtemp(prefix=DIRECTORY))
    key = work / "mpi_key"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{MARK}-{work.name}", "-f", str(key)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    programs = Path(options.programs) if options.programs else None
    return {
        "work": str(work),
        "public": key.with_suffix(".pub").read_text(encoding="ascii").strip(),
        "host_keys": [" ".join(text.split()[:2]) for text in host_keys()],
        "user": pwd.getpwuid(os.getuid()).pw_name,
        "port": ssh_port(),
        "root": os.geteuid() == 0,
        "mpirun": shutil.which(options.mpirun),
        "programs": str(programs) if programs and os.access(programs / PROGRAM, os.X_OK) else None,
    }


def sweep() -> None:
    """Remove what a run left that was killed outright: ours, and a day old."""
    for path in Path(tempfile.gettempdir()).glob(f"{DIRECTORY}*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.getuid() and path.is_dir() and time.time() - status.st_mtime > 86400:
                shutil.rmtree(path)


def host_keys() -> list[str]:
    found = []
    for path in sorted(SSH.glob("ssh_host_*_key.pub")):
        with contextlib.suppress(OSError):
            found.append(path.read_text(encoding="ascii").strip())
    return found


def in_brackets(address: str, port: int) -> str:
    """An address as known_hosts names it."""
    return address if port == 22 else f"[{address}]:{port}"


def grant(options: argparse.Namespace) -> dict[str, Any]:
    places: dict[str, Any] = json.load(sys.stdin)
    ends = time.strftime("%Y%m%d%H%M", time.localtime(time.time() + options.seconds + 60))
    addresses = ",".join(place["address"] for place in places.values())
    limits = f'restrict,from="{addresses}",expiry-time="{ends}"'
    known, blocks = [], []
    for place in places.values():
        said = place["said"]
        known += [f"{in_brackets(place['address'], said['port'])} {key}" for key in said["host_keys"]]
        blocks.append(f"Host {place['address']}\n  User {said['user']}\n  Port {said['port']}\n")
    (options.work / "known_hosts").write_text("\n".join([*known, ""]), encoding="ascii")
    (options.work / "ssh_config").write_text("".join([*blocks, common(options.work)]), encoding="utf-8")
    rewrite(lambda lines: [*lines, *(f"{limits} {place['said']['public']}" for place in places.values())])
    return {"ssh_config": str(options.work / "ssh_config"), "until": ends}


def common(work: Path) -> str:
    settings = {
        "IdentityFile": work / "mpi_key", "IdentitiesOnly": "yes", "IdentityAgent": "none", "BatchMode": "yes",
        "UserKnownHostsFile": work / "known_hosts", "GlobalKnownHostsFile": "/dev/null", "StrictHostKeyChecking": "yes",
        "ConnectTimeout": 10, "ServerAliveInterval": 5, "ServerAliveCountMax": 3, "LogLevel": "ERROR",
    }  # fmt: skip
    return "Host *\n" + "".join(f"  {name} {value}\n" for name, value in settings.items())


def revoke(options: argparse.Namespace) -> dict[str, Any]:
    removed = rewrite(lambda lines: lines)
    if options.work.name.startswith(DIRECTORY):
        shutil.rmtree(options.work, ignore_errors=True)
    return {"removed": removed}


def rewrite(change: Any) -> int:
    """Put the keys file in order: without any key of ours, then what `change` adds. Returns how many were removed."""
    path = home() / ".ssh" / "authorized_keys"
    before = path.read_bytes() if path.exists() else None
    lines = (before or b"").decode("utf-8", errors="surrogateescape").splitlines()
    kept = [line for line in lines if not line.rpartition(" ")[2].startswith(f"{MARK}-")]
    wanted = "".join(f"{line}\n" for line in change(kept)).encode("utf-8", errors="surrogateescape")
    if kept == lines and wanted.splitlines() == (before or b"").splitlines():
        return 0  # its last line may have no end, and that is not ours to change
    if not wanted and before is not None and not kept:
        path.unlink()  # ours alone
        return len(lines)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    beside = path.with_name(f"{path.name}.{MARK}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(wanted)
        stream.flush()
        os.fsync(stream.fileno())
    if path.exists():
        shutil.copymode(path, beside)
    beside.replace(path)
    return len(lines) - len(kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["make", "grant", "revoke"])
    parser.add_argument("--work", type=Path, help="directory of this run, as `make` said")
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long the keys are good")
    parser.add_argument("--mpirun", default="mpirun", help="OpenMPI's launcher")
    parser.add_argument("--programs", default="", help="directory with nccl-tests' programs")
    options = parser.parse_args()
    if options.what != "make" and options.work is None:
        parser.error(f"{options.what} needs --work")
    print(json.dumps({"make": make, "grant": grant, "revoke": revoke}[options.what](options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
