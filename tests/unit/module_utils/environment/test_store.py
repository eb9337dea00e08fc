"""Which environments stay, and what a difference is called."""

from __future__ import annotations

import os

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.environment import differences, store
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.requirements import Requirement
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.store import Environment
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import environment_users, installer_settings


def intact(name, used=False):
    return Environment(name, True, used)


def broken(name, used=False):
    return Environment(name, False, used)


@pytest.mark.parametrize(
    ("environments", "current", "previous", "keep", "removed"),
    [
        ([], None, None, 1, []),
        ([intact("c")], "c", None, 1, []),
        ([intact("a"), intact("b"), intact("c")], "c", "b", 1, ["a"]),
        ([intact("a"), intact("b"), intact("c")], "c", None, 1, ["a"]),
        # after a way back the one used last is kept, not the newest
        ([intact("a"), intact("b"), intact("c")], "b", "a", 1, ["c"]),
        ([intact("a"), broken("b"), intact("c")], "c", "b", 1, ["b"]),
        ([intact("a", used=True), intact("b"), intact("c")], "c", "b", 1, []),
        ([broken("a", used=True), intact("c")], "c", None, 1, []),
        ([intact("a"), intact("b"), intact("c")], "c", "b", 0, ["a", "b"]),
        ([intact("a"), intact("b"), intact("c")], "c", "b", 5, []),
    ],
)
def test_what_is_removed(environments, current, previous, keep, removed):
    assert store.removable(environments, current, previous, keep) == removed


def test_names_sort_by_time_and_are_recognised():
    first, second = store.new_name(0, "0123456789ab"), store.new_name(3600, "0123456789ab")
    assert first < second
    assert store.is_ours(first)
    for name in ("mine", "envs", first + "x", "20260101-abc"):
        assert not store.is_ours(name)


def wanted(**versions):
    return {name: Requirement(name, version, "", ("sha256:a",), 1) for name, version in versions.items()}


def test_lock_changes():
    locked = {
        "same": ("1", ["sha256:a"]),
        "moved": ("1", ["sha256:a"]),
        "gone": ("1", []),
        "other": ("1", ["sha256:b"]),
    }
    assert differences.lock_changes(wanted(same="1", moved="2", new="3", other="1"), locked) == [
        "lock changed: package gone 1 is no longer in it",
        "lock changed: package moved 1 -> 2",
        "lock changed: package new 3 is new",
        "lock changed: package other 1 has other hashes",
    ]


def test_more_hashes_are_no_change():
    assert differences.lock_changes(wanted(a="1"), {"a": ("1", [])}) == []


def test_package_changes():
    installed = {"same": ["1"], "moved": ["3"], "twice": ["1", "2"], "foreign": ["9"]}
    assert differences.package_changes({"same": "1", "moved": "2", "missing": "1", "twice": "1"}, installed) == [
        "package foreign 9 is not in the lock",
        "package missing missing",
        "package moved moved 2 -> 3",
        "package twice is installed more than once: 1, 2",
    ]


def test_file_changes():
    site = "lib/python3.11/site-packages/"
    recorded = {f"{site}a/x.py": (0o644, "1"), f"{site}a/y.py": (0o644, "2"), "bin/tool": (0o755, "3")}
    present = {f"{site}a/x.py": (0o644, "9"), "bin/tool": (0o644, "3"), f"{site}z.pth": (0o644, "4")}
    assert differences.file_changes(recorded, present) == [
        "file a/x.py edited",
        "file bin/tool has mode 0644, was 0755",
        "file z.pth is foreign",
        "file a/y.py missing",
    ]
    assert differences.file_changes(recorded, recorded) == []


def process(proc, pid, exe="/usr/bin/python3", cwd="/", cmdline=b"python3\0", maps=b""):
    directory = proc / str(pid)
    directory.mkdir(parents=True)
    for name, target in (("exe", exe), ("cwd", cwd)):
        os.symlink(target, directory / name)
    (directory / "cmdline").write_bytes(cmdline)
    (directory / "maps").write_bytes(maps)


def test_who_uses_an_environment(tmp_path):
    proc, env = tmp_path / "simulated_proc", tmp_path / "envs" / "one"
    env.mkdir(parents=True)
    (proc / "self").mkdir(parents=True)
    process(proc, 1)
    process(proc, 2, cwd=f"{env}/lib")
    process(proc, 3, maps=f"7f00-7f01 r-xp 0 08:01 1 {env}/lib/torch.so\n".encode())
    process(proc, 4, cmdline=f"{env}/bin/python\0-m\0x\0".encode())
    process(proc, 5, cwd=f"{env}-other/lib")
    process(proc, 6, exe=f"{env}/bin/tool")
    assert environment_users.processes_using(env, proc) == [2, 3, 4, 6]


def test_room_is_counted_once_per_file_system(tmp_path):
    assert installer_settings.missing_space([(str(tmp_path / "not" / "there"), 1)]) == []
    place, needed, free = installer_settings.missing_space([(str(tmp_path), 10**18), (str(tmp_path / "x"), 1)])[0]
    assert (place, needed) == (str(tmp_path), 10**18 + 1)
    assert 0 < free < needed
