"""An environment is built beside, verified, switched to; found damaged, it is repaired; nobody's is taken away."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.node import files
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.environment_state import is_intact


@pytest.fixture
def two(place):
    """Two packages, locked."""
    place.alpha, place.beta = place.wheel("alpha", "1.0+cpu"), place.wheel("beta-pack", "2.0")
    place.lock(place.alpha, place.beta)
    return place


@pytest.fixture
def built(two):
    two.ensure()
    return two


def test_fresh(two):
    result = two.ensure()
    assert result["changed"]
    assert result["packages"] == {"alpha": "1.0+cpu", "beta-pack": "2.0"}
    assert result["reasons"] == [f"{two.link} does not exist"]
    assert two.python("import alpha; print(alpha.version)") == "1.0+cpu"
    assert os.readlink(two.link) == f"envs/{two.target.name}"


def test_second_run_changes_nothing(built):
    before = built.target
    result = built.ensure()
    assert (result["changed"], result["reasons"], result["actions"]) == (False, [], [])
    assert built.target == before


def test_using_it_changes_nothing(built):
    built.python("import alpha.late, beta_pack")
    assert list(built.site().glob("alpha/__pycache__/*.pyc"))
    assert not built.ensure()["changed"]


def test_check_mode_on_a_fresh_host_writes_nothing(two):
    result = two.ensure(check_mode=True)
    assert result["changed"]
    assert not two.prefix.exists()


def test_check_mode_before_the_requirement_file_was_copied(two):
    two.requirements.unlink()
    assert two.ensure(check_mode=True)["changed"]
    assert two.failure().kind == "requirements"


def test_a_new_lock_builds_beside_and_keeps_the_previous(built):
    first = built.target
    built.lock(built.wheel("alpha", "1.1+cpu"), built.beta)
    result = built.ensure()
    assert result["reasons"] == ["lock changed: package alpha 1.0+cpu -> 1.1+cpu"]
    assert result["previous"] == str(first)
    assert sorted(built.stored()) == sorted([first.name, built.target.name])
    assert built.python("import alpha; print(alpha.version)", f"{first}/bin/python") == "1.0+cpu"


def test_only_one_previous_stays(built):
    first = built.target
    built.lock(built.wheel("alpha", "1.1+cpu"), built.beta)
    built.ensure()
    second = built.target
    built.lock(built.wheel("alpha", "1.2+cpu"), built.beta)
    result = built.ensure()
    assert built.stored() == sorted([second.name, built.target.name])
    assert f"remove {first}" in result["actions"]


def test_the_way_back_needs_no_build(built):
    first, text = built.target, built.requirements.read_text(encoding="utf-8")
    built.lock(built.wheel("alpha", "1.1+cpu"), built.beta)
    built.ensure()
    built.requirements.write_text(text, encoding="utf-8")
    result = built.ensure(uv="/nowhere/uv")
    assert result["actions"] == [f"switch to {first}, which is intact and fits"]
    assert built.target == first


def test_the_same_version_of_another_build_is_another_package(two):
    two.ensure()
    two.lock(two.wheel("alpha", "1.0+cu124"), two.beta)
    assert two.ensure()["reasons"] == ["lock changed: package alpha 1.0+cpu -> 1.0+cu124"]


def test_another_interpreter_builds_anew(built, tmp_path):
    other = tmp_path / "python"
    shutil.copy(built.options["python"], other)
    result = built.ensure(check_mode=True, python=str(other))
    assert result["reasons"] == [f"interpreter changed: made for {built.options['python']}, now {other}"]


def edit(place):
    path = place.site() / "alpha" / "late.py"
    path.write_text("version = 'edited'\n", encoding="utf-8")
    return "file alpha/late.py edited"


def edit_without_a_trace_in_size_and_mtime(place):
    path = place.site() / "alpha" / "late.py"
    stat = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace("1", "7"), encoding="utf-8")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return "file alpha/late.py edited"


def remove_a_file(place):
    (place.site() / "alpha" / "late.py").unlink()
    return "file alpha/late.py missing"


def remove_a_package(place):
    shutil.rmtree(place.site() / "beta_pack")
    shutil.rmtree(place.site() / "beta_pack-2.0.dist-info")
    return "package beta-pack missing"


def change_a_version(place):
    old = place.site() / "beta_pack-2.0.dist-info"
    text = (old / "METADATA").read_text(encoding="utf-8")
    (old / "METADATA").write_text(text.replace("Version: 2.0", "Version: 1.9"), encoding="utf-8")
    old.rename(old.with_name("beta_pack-1.9.dist-info"))
    return "package beta-pack moved 2.0 -> 1.9"


def change_the_local_version(place):
    old = place.site() / "alpha-1.0+cpu.dist-info"
    text = (old / "METADATA").read_text(encoding="utf-8")
    (old / "METADATA").write_text(text.replace("1.0+cpu", "1.0+cu124"), encoding="utf-8")
    return "package alpha moved 1.0+cpu -> 1.0+cu124"


def install_into_it(place):
    wheel = place.wheel("gamma", "3.0")
    command = [place.options["uv"], "pip", "install", "-q", "--python", str(place.link / "bin" / "python"), str(wheel)]
    subprocess.run(command, check=True)
    return "package gamma 3.0 is not in the lock"


def add_a_module(place):
    (place.site() / "sitecustomize.py").write_text("", encoding="utf-8")
    return "file sitecustomize.py is foreign"


def let_it_see_the_system(place):
    path = place.target / "pyvenv.cfg"
    path.write_text(path.read_text(encoding="utf-8").replace("false", "true"), encoding="utf-8")
    return "file pyvenv.cfg edited"


def take_a_permission_away(place):
    (place.site() / "alpha" / "late.py").chmod(0o000)
    return "file alpha/late.py"


def remove_the_interpreter(place):
    (place.target / "bin" / "python").unlink()
    return "is missing or points to nothing"


def delete_half(place):
    shutil.rmtree(place.site())
    return "package alpha missing"


def remove_the_record(place):
    (place.target / ".trainrig.json").unlink()
    return "is not a finished build"


def damage_the_record(place):
    (place.target / ".trainrig.json").write_text('{"schema": 1', encoding="utf-8")
    return "is not a finished build"


def remove_the_target(place):
    shutil.rmtree(place.target)
    return "points to nothing"


def remove_the_link(place):
    place.link.unlink()
    return "does not exist"


DRIFTS = [
    edit,
    edit_without_a_trace_in_size_and_mtime,
    remove_a_file,
    remove_a_package,
    change_a_version,
    change_the_local_version,
    install_into_it,
    add_a_module,
    let_it_see_the_system,
    take_a_permission_away,
    remove_the_interpreter,
    delete_half,
    remove_the_record,
    damage_the_record,
    remove_the_target,
    remove_the_link,
]


@pytest.mark.parametrize("drift", DRIFTS, ids=lambda drift: drift.__name__)
def test_a_drift_is_named_and_repaired(built, drift):
    words = drift(built)
    planned = built.ensure(check_mode=True)
    assert planned["changed"]
    assert any(words in reason for reason in planned["reasons"]), planned["reasons"]
    result = built.ensure()
    assert result["reasons"] == planned["reasons"]
    assert built.python("import alpha.late, beta_pack; print(alpha.late.version)") == "1.0+cpu"
    again = built.ensure()
    assert (again["changed"], again["reasons"]) == (False, [])
    assert built.stored() == [built.target.name], "a damaged environment is no way back"


def test_many_files_are_counted(built):
    for number in range(30):
        (built.site() / f"m{number:02}.py").write_text("", encoding="utf-8")
    reasons = built.ensure(check_mode=True)["reasons"]
    assert len(reasons) == 5
    assert reasons[-1] == "and 26 more files"


def test_touched_files_are_no_drift(built):
    for path in built.site().rglob("*.py"):
        path.touch()
    assert not is_intact(built.target)
    assert not built.ensure(check_mode=True)["changed"]
    assert not built.ensure()["changed"]
    assert is_intact(built.target), "the next look need not read every file again"


def test_a_damaged_cache_of_uv_does_not_reach_an_environment(built, shared_cache, monkeypatch, tmp_path):
    own = tmp_path / "cache"
    shutil.copytree(shared_cache, own, symlinks=True)
    monkeypatch.setenv("UV_CACHE_DIR", str(own))
    cached = list(own.rglob("alpha/late.py"))
    assert cached
    for path in cached:
        path.write_text("version = 'from a damaged cache'\n", encoding="utf-8")
    edit(built)
    built.ensure()
    assert built.python("import alpha.late; print(alpha.late.version)") == "1.0+cpu"
    assert any("uv's cache is damaged" in warning for warning in built.warnings)


def test_an_edit_never_reaches_uvs_cache(built):
    edit(built)
    built.ensure()
    assert built.warnings == []


def test_foreign_things_in_the_store_stay(built):
    (built.store / "mine").mkdir()
    (built.store / "20260101T000000.000Z-0123abcd").mkdir()
    result = built.ensure()
    assert result["actions"] == [f"remove {built.store / '20260101T000000.000Z-0123abcd'}"]
    assert (built.store / "mine").is_dir()


def test_a_directory_in_the_links_place_is_not_ours(two):
    two.link.mkdir(parents=True)
    failure = two.failure()
    assert failure.kind == "not_ours"
    assert "trainrig_prefix" in failure.fix


WAITING = """
import sys
print(sys.prefix, flush=True)
sys.stdin.readline()
import alpha.late
print(alpha.late.version, sys.executable, flush=True)
"""


def start(python):
    return subprocess.Popen(
        [str(python), "-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def test_a_running_program_keeps_the_environment_it_began_in(built):
    first = built.target
    program = start(built.link / "bin" / "python")
    try:
        assert program.stdout.readline().strip() == str(first)
        for version in ("1.1+cpu", "1.2+cpu"):
            built.lock(built.wheel("alpha", version), built.beta)
            built.ensure()
        out, _err = program.communicate("go on\n", timeout=60)
    finally:
        program.kill()
    assert out.split() == ["1.0+cpu", f"{first}/bin/python"], "not the modules of the new environment"


def test_an_environment_in_use_is_not_removed(built):
    first = built.target
    program = start(first / "bin" / "python")
    try:
        program.stdout.readline()
        for version in ("1.1+cpu", "1.2+cpu"):
            built.lock(built.wheel("alpha", version), built.beta)
            built.ensure()
        assert first.name in built.stored()
    finally:
        program.kill()
        program.wait()
    assert built.ensure()["actions"] == [f"remove {first}"]


def test_two_runs_at_once_build_once(two):
    runs = [two.background(""), two.background("")]
    results = [json.loads(run.communicate(timeout=120)[0].splitlines()[-1]) for run in runs]
    assert sorted(result["changed"] for result in results) == [False, True]
    assert len(two.stored()) == 1


@pytest.mark.parametrize("compiled", ["always", "never"])
def test_bytecode(two, compiled):
    two.ensure(compile_bytecode=compiled)
    assert bool(list(two.site().rglob("*.pyc"))) == (compiled == "always")
    assert not two.ensure(compile_bytecode=compiled)["changed"]


def test_everybody_may_read_what_is_built(two):
    before = os.umask(0o077)
    try:
        two.ensure()
    finally:
        os.umask(before)
    for path in [two.target, two.site() / "alpha" / "late.py", two.target / ".trainrig.json"]:
        assert path.stat().st_mode & 0o044, path


def test_the_link_never_names_an_unfinished_environment(built, monkeypatch):
    """Whatever is interrupted, a reader of the link meets a finished build."""
    seen = []
    real = files.link_atomically

    def spy(link, target):
        seen.append((link.parent / target / ".trainrig.json").is_file())
        real(link, target)

    monkeypatch.setattr(files, "link_atomically", spy)
    edit(built)
    built.ensure()
    assert seen == [True]
