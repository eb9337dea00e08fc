"""Keys of one run: granted with limits, taken back byte for byte, nothing of somebody else's touched."""

from __future__ import annotations

import argparse
import io
import json
import subprocess

import pytest

from tests.unit.roles.verify.scripts import script

access = script("mpi_access")
PLACE = {
    "address": "10.0.0.12",
    "said": {
        "public": "ssh-ed25519 AAAA trainrig-verify-trainrig-mpi-x",
        "host_keys": ["ssh-ed25519 BBBB"], "user": "u", "port": 22,
    },
}  # fmt: skip
OTHERS = b'ssh-rsa CCCC somebody@else\n# a word about it\nfrom="10.1.1.1" ssh-rsa DDDD with space'


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "home", lambda: tmp_path)
    (tmp_path / "trainrig-mpi-work").mkdir()
    return tmp_path


def options(home, **changes):
    return argparse.Namespace(work=home / "trainrig-mpi-work", seconds=600.0, mpirun="mpirun", programs="", **changes)


def grant(home, monkeypatch, **places):
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(places or {"b": PLACE})))
    return access.grant(options(home))


def keys(home):
    return (home / ".ssh/authorized_keys").read_bytes()


def test_a_key_is_limited_and_goes_again(home, monkeypatch):
    (home / ".ssh").mkdir(mode=0o700)
    (home / ".ssh/authorized_keys").write_bytes(OTHERS + b"\n")
    (home / ".ssh/authorized_keys").chmod(0o600)
    grant(home, monkeypatch)
    line = keys(home).decode().splitlines()[-1]
    assert line.startswith('restrict,from="10.0.0.12",expiry-time="20') and line.endswith(PLACE["said"]["public"])
    assert keys(home).startswith(OTHERS) and (home / ".ssh/authorized_keys").stat().st_mode & 0o777 == 0o600
    assert access.revoke(options(home)) == {"removed": 1}
    assert keys(home) == OTHERS + b"\n" and not (home / "trainrig-mpi-work").exists()


def test_a_file_that_was_not_there_is_not_there_afterwards(home, monkeypatch):
    grant(home, monkeypatch)
    assert (home / ".ssh/authorized_keys").stat().st_mode & 0o777 == 0o600
    access.revoke(options(home))
    assert not (home / ".ssh/authorized_keys").exists()


def test_nothing_of_ours_means_nothing_is_written(home):
    (home / ".ssh").mkdir()
    (home / ".ssh/authorized_keys").write_bytes(OTHERS)
    before = (home / ".ssh/authorized_keys").stat().st_ino
    assert access.revoke(options(home)) == {"removed": 0}
    assert keys(home) == OTHERS and (home / ".ssh/authorized_keys").stat().st_ino == before


def test_what_a_killed_run_left_goes_with_the_next(home, monkeypatch):
    grant(home, monkeypatch)
    grant(home, monkeypatch)
    assert len(keys(home).splitlines()) == 1


def test_host_keys_are_those_that_the_nodes_said_and_no_others_count(home, monkeypatch):
    other = {"address": "10.0.0.13", "said": {**PLACE["said"], "port": 2222}}
    grant(home, monkeypatch, b=PLACE, c=other)
    known = (home / "trainrig-mpi-work/known_hosts").read_text().splitlines()
    assert known == ["10.0.0.12 ssh-ed25519 BBBB", "[10.0.0.13]:2222 ssh-ed25519 BBBB"]
    config = home / "trainrig-mpi-work/ssh_config"
    said = subprocess.run(["ssh", "-F", config, "-G", "10.0.0.13"], capture_output=True, text=True, check=True).stdout
    settings = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
    assert settings["port"] == "2222" and settings["user"] == "u" and settings["batchmode"] == "yes"
    assert settings["stricthostkeychecking"] in ("true", "yes")
    assert settings["userknownhostsfile"] == str(home / "trainrig-mpi-work/known_hosts")
