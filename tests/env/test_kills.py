"""A build that is killed at any moment leaves what was in use in use; the next run converges and leaves nothing."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

COUNT = 10


@pytest.fixture
def large(place):
    """Enough files that a build takes a while."""
    files = {f"gamma/m{number:04}.py": "x = 1\n" * 200 for number in range(1500)}
    place.small, place.large = place.wheel("alpha", "1.0"), place.wheel("gamma", "1.0", files=files)
    place.lock(place.small)
    place.ensure()
    return place


def measured(place, name):
    started = time.monotonic()
    result = place.ensure(path=str(place.prefix / name), store=str(place.prefix / f"{name}s"))
    assert result["changed"]
    return time.monotonic() - started


def test_killed_at_random_moments(large):
    large.lock(large.small, large.large)
    measured(large, "measured")  # fills uv's cache; the killed runs find it filled
    duration = measured(large, "again") + 0.2  # the interpreter starts too
    seed = int(os.environ.get("TRAINRIG_SEED") or random.SystemRandom().randrange(2**32))
    print(f"TRAINRIG_SEED={seed} over {duration:.2f} s")
    draw = random.Random(seed)
    killed = 0
    for number in range(COUNT):
        before = large.target
        moment = duration * (number + draw.random()) / COUNT
        run = large.background("")
        time.sleep(moment)
        if run.poll() is None:
            killed += 1
        run.send_signal(signal.SIGKILL)
        run.communicate()
        assert large.python("import alpha; print(alpha.version)") == "1.0", f"unusable after a kill at {moment:.2f} s"
        if large.target != before:
            assert large.ensure(check_mode=True)["reasons"] == [], f"switched to something unfinished at {moment:.2f} s"
            # Done before it was killed. The next one has to have something to do again.
            large.lock(large.small)
            large.ensure()
            large.lock(large.small, large.large)
    assert killed > COUNT // 2, "most runs had ended: this says nothing about kills"
    result = large.ensure()
    assert result["packages"] == {"alpha": "1.0", "gamma": "1.0"}
    assert not large.ensure()["changed"]
    assert len(large.stored()) <= 2, "unfinished builds stayed"
    left = {path.name for path in large.prefix.iterdir()}
    assert left == {"env", "envs", "measured", "measureds", "again", "agains"}


def test_uv_dies_with_the_run_that_started_it(large, tmp_path):
    """An orphan would write into a directory that the next run removes."""
    slow = tmp_path / "simulated_uv"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 300\n", encoding="utf-8")
    slow.chmod(0o755)
    large.lock(large.small, large.large)
    run = large.background("", uv=str(slow))
    pid_file = tmp_path / "pid"
    deadline = time.monotonic() + 30
    while not (pid_file.exists() and pid_file.read_text(encoding="utf-8").strip()) and time.monotonic() < deadline:
        time.sleep(0.05)
    pid = int(pid_file.read_text(encoding="utf-8"))
    run.kill()
    run.communicate()
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(pid)
    assert large.ensure(lock_timeout=5)["changed"]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_removing_an_old_one_may_be_cut_short(large):
    """Half-removed, it is not taken for a way back."""
    first = large.target
    large.lock(large.small, large.large)
    large.ensure()
    (first / ".trainrig.json").unlink()
    result = large.ensure()
    assert result["actions"] == [f"remove {first}"]


def test_a_link_cut_short_is_removed(large):
    (large.prefix / ".env.0123456789abcdef").symlink_to("envs/nothing")
    large.lock(large.small, large.large)
    large.ensure()
    assert sorted(path.name for path in large.prefix.iterdir()) == ["env", "envs"]
