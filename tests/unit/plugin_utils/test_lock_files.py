"""The lock before: kept whole when it is replaced, and what it was made for counts where it is gone back to."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import document
from ansible_collections.trainrig.gpu.plugins.plugin_utils import lock_files

POOL = "default"


def write(directory, *names, declared=({"pytorch": "2.12"},), date="2026-11-30T00:00:00Z"):
    """A whole lock with a profile of each name; returns its digest."""
    texts = {f"requirements/{name}.txt": f"{name}==1 --hash=sha256:{date}\n" for name in names}
    profiles = [
        {
            "name": name,
            "pool": "",
            "platform": "",
            "python": ["3.11"],
            "accelerator": "cpu",
            "gpu_driver_min": {},
            "pytorch": {"version": "2.12.0", "variant": "cpu"},
            "requirements": {"file": file, "sha256": document.sha256(text)},
        }
        for name, (file, text) in zip(names, texts.items())
    ]
    lock = document.sealed(
        {
            "index_date": date,
            "data_revision": "r",
            "asked": "a",
            "declared": [document.declaration(POOL, stack) for stack in declared],
            "sources": [],
            "profiles": profiles,
            "systems": [],
        }
    )
    lock_files.write(directory, lock_files.written(lock, texts), [])
    lock_files.read_lock.cache_clear()
    return lock["digest"]


def test_what_is_replaced_is_kept_with_its_files_and_without_those_of_the_one_before(tmp_path):
    first = write(tmp_path, "a", "b")
    assert lock_files.keep(tmp_path)
    kept = tmp_path / "previous"
    assert lock_files.read_lock(str(kept))["digest"] == first
    second = write(tmp_path, "c", date="2026-12-01T00:00:00Z")
    (kept / "requirements/mine.txt").write_text("mine\n")
    assert lock_files.keep(tmp_path)
    lock_files.read_lock.cache_clear()
    assert lock_files.read_lock(str(kept))["digest"] == second
    assert sorted(path.name for path in (kept / "requirements").iterdir()) == ["c.txt", "mine.txt"]


def test_what_is_not_whole_is_not_kept_over_what_is(tmp_path):
    first = write(tmp_path, "a")
    lock_files.keep(tmp_path)
    write(tmp_path, "b")
    (tmp_path / "requirements/b.txt").write_text("edited\n")
    assert lock_files.keep(tmp_path) is False
    assert lock_files.read_lock(str(tmp_path / "previous"))["digest"] == first
    assert lock_files.keep(tmp_path / "requirements") is False, "there is none"


def test_what_the_other_lock_was_made_for_is_what_counts(tmp_path):
    write(tmp_path, "a", declared=[{"pytorch": "2.11", "python": "3.11"}])
    _lock, stack = lock_files.other_lock(str(tmp_path), POOL, {"pytorch": "2.12"})
    assert stack == {"pytorch": "2.11", "python": "3.11"}


def test_of_two_declarations_of_a_pool_the_hosts_own_counts_and_else_none(tmp_path):
    write(tmp_path, "a", declared=[{"pytorch": "2.11"}, {"pytorch": "2.10"}])
    assert lock_files.other_lock(str(tmp_path), POOL, {"pytorch": "2.10"})[1] == {"pytorch": "2.10"}
    with pytest.raises(lock_files.LockError, match=r"made for 2 declarations of this pool\. To fix it: "):
        lock_files.other_lock(str(tmp_path), POOL, {"pytorch": "2.12"})
    with pytest.raises(lock_files.LockError, match="pool other: the lock was made for 0 declarations"):
        lock_files.other_lock(str(tmp_path), "other", {})


def test_without_a_lock_before_there_is_one_clear_error(tmp_path):
    with pytest.raises(
        lock_files.LockError, match=r"previous/stack\.lock\.yml: there is no lock to go back to\. To fix"
    ):
        lock_files.other_lock(str(tmp_path / "previous"), POOL, {})


@pytest.mark.parametrize(
    ("named", "expected"), [(None, "/i"), ("", "/i"), ("previous", "/i/previous"), ("/i/.", "/i"), ("/x/", "/x")]
)
def test_the_place_of_the_lock(named, expected):
    assert lock_files.lock_place({"inventory_dir": "/i", "trainrig_lock_directory": named}) == expected
