"""Where wheels come from: pip's settings, uv's own, the inventory's, PyTorch's index last. Errors are clear."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.simulated_index import wheel

SECRET = "someone:hunter2-hunter2"


@pytest.fixture
def bare(place, monkeypatch):
    """One locked package; no index of any kind is set."""
    place.options["find_links"] = []
    monkeypatch.delenv("PIP_CONFIG_FILE")
    monkeypatch.delenv("PIP_NO_INDEX")
    # What uv does by default must not reach a real index from a test.
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    place.alpha = place.wheel("alpha", "1.0")
    place.lock(place.alpha)
    return place


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    """uv keeps answers of an index for minutes, and wheels for ever."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "fresh-cache"))


def pip_conf(place, text):
    path = Path(os.environ["HOME"]) / ".config" / "pip" / "pip.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_find_links_of_pips_file(bare):
    path = pip_conf(bare, f"[global]\nno-index = true\nfind-links = {bare.wheels}\n")
    result = bare.ensure()
    assert result["packages"] == {"alpha": "1.0"}
    assert result["settings"]["find-links"] == f"{path} [global] find-links"


def test_find_links_of_pips_variable(bare, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(bare.wheels))
    monkeypatch.setenv("PIP_NO_INDEX", "yes")
    assert bare.ensure()["settings"]["find-links"] == "environment variable PIP_FIND_LINKS"


def test_index_of_pips_file(bare, simulated_index, monkeypatch, fresh_cache):
    monkeypatch.delenv("UV_DEFAULT_INDEX")
    index = simulated_index(bare.wheels)
    pip_conf(bare, f"[install]\nindex-url = {index.url}\n")
    bare.ensure()
    assert "/simple/alpha/" in index.asked


def test_uvs_own_variable_goes_before_pips(bare, simulated_index, monkeypatch, fresh_cache):
    index, other = simulated_index(bare.wheels), simulated_index(bare.wheels)
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
    pip_conf(bare, f"[global]\nindex-url = {other.url}\n")
    bare.ensure()
    assert index.asked
    assert not other.asked


def test_the_inventory_goes_before_both(bare, simulated_index, fresh_cache):
    index = simulated_index(bare.wheels)
    pip_conf(bare, "[global]\nindex-url = http://127.0.0.1:9/simple\n")
    result = bare.ensure(index_url=index.url)
    assert index.asked
    assert result["settings"]["index-url"] == "inventory variable pytorch_index_url"


def test_extra_indexes(bare, simulated_index, tmp_path, fresh_cache):
    empty = simulated_index(tmp_path / "empty")
    full = simulated_index(bare.wheels)
    bare.ensure(index_url=empty.url, extra_index_urls=[full.url])
    assert "/simple/alpha/" in empty.asked
    assert any("alpha" in path for path in full.asked)


def test_an_old_version_in_one_index_hides_nothing_in_another(bare, simulated_index, tmp_path, fresh_cache):
    wheel(tmp_path / "old", "alpha", "0.9")
    old, new = simulated_index(tmp_path / "old"), simulated_index(bare.wheels)
    assert bare.ensure(index_url=new.url, extra_index_urls=[old.url])["packages"] == {"alpha": "1.0"}


def test_another_file_of_the_same_name_is_refused(bare, simulated_index, tmp_path, fresh_cache):
    """What mixes indexes must never mix files: every one is checked against the lock."""
    wheel(tmp_path / "evil", "alpha", "1.0", files={"alpha/extra.py": "print('not what was locked')\n"})
    failure = bare.failure(index_url=simulated_index(tmp_path / "evil").url)
    assert failure.kind == "hash_mismatch"
    assert "alpha==1.0" in failure.text
    assert str(bare.requirements) in failure.text
    assert bare.stored() == [], "nothing half done stays"


def test_torchs_index_is_not_asked_where_it_is_not_needed(bare, simulated_index, tmp_path, fresh_cache):
    torch = simulated_index(tmp_path / "torch", status=500)
    bare.ensure(find_links=[str(bare.wheels)], index_url=simulated_index(tmp_path / "empty").url, torch_index=torch.url)
    assert not torch.asked


def test_torchs_index_is_asked_where_the_others_lack_a_wheel(bare, simulated_index, tmp_path, fresh_cache):
    empty, torch = simulated_index(tmp_path / "empty"), simulated_index(bare.wheels)
    result = bare.ensure(index_url=empty.url, torch_index=torch.url)
    assert result["packages"] == {"alpha": "1.0"}
    assert result["settings"]["torch-index"] == "inventory variable pytorch_torch_index"


def test_the_wheel_is_nowhere_and_torchs_index_is_out_of_reach(bare, simulated_index, tmp_path, fresh_cache):
    failure = bare.failure(index_url=simulated_index(tmp_path / "empty").url, torch_index="http://127.0.0.1:9/whl/cpu")
    assert failure.kind == "wheel_missing"
    for word in ("alpha", "pytorch_torch_index", "http://127.0.0.1:9", str(bare.requirements)):
        assert word in failure.text
    assert "pytorch_find_links" in failure.fix
    assert "Connection refused" in failure.detail or "no version" in failure.detail


def test_a_wheel_for_another_python_only(bare, tmp_path):
    alpha = bare.wheel("other", "1.0", tag="cp27-cp27m-manylinux1_x86_64")
    bare.lock(alpha)
    failure = bare.failure(find_links=[str(bare.wheels)], index_url=None)
    assert failure.kind in ("wheel_for_python", "wheel_missing", "index_unreachable")


def test_constraints_that_the_lock_meets(bare, tmp_path, monkeypatch):
    path = tmp_path / "constraints.txt"
    path.write_text("alpha<=1.4  # a comment\nunrelated==3\n", encoding="utf-8")
    monkeypatch.setenv("PIP_CONSTRAINT", str(path))
    pip_conf(bare, f"[global]\nno-index = 1\nfind-links = {bare.wheels}\n")
    assert bare.ensure()["packages"] == {"alpha": "1.0"}
    assert not bare.warnings


def test_constraints_that_the_lock_breaks(bare, tmp_path, monkeypatch):
    path = tmp_path / "constraints.txt"
    path.write_text("# site policy\nalpha<1.0\n", encoding="utf-8")
    pip_conf(bare, f"[global]\nno-index = 1\nfind-links = {bare.wheels}\nconstraint = {path}\n")
    failure = bare.failure()
    assert failure.kind == "constraint"
    assert f"{path}:2 wants alpha<1.0, the lock has 1.0" in failure.text
    assert "pip.conf [global] constraint" in failure.text


def test_a_broken_pip_file_is_a_warning(bare, monkeypatch):
    path = pip_conf(bare, "this is no ini file\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    bare.ensure(find_links=[str(bare.wheels)])
    assert any(str(path) in warning for warning in bare.warnings)


def test_an_index_that_does_not_answer(bare, simulated_index, fresh_cache):
    index = simulated_index(bare.wheels, delay=20)
    failure = bare.failure(index_url=index.url, timeout=1)
    assert failure.kind == "index_timeout"
    assert index.address in failure.text
    assert "pytorch_index_url" in failure.text
    assert "pytorch_timeout" in failure.fix


@pytest.mark.parametrize(("status", "kind"), [(403, "index_denied"), (503, "index_error")])
def test_an_index_that_answers_with_an_error(bare, simulated_index, fresh_cache, status, kind):
    failure = bare.failure(index_url=simulated_index(bare.wheels, status=status).url)
    assert failure.kind in (kind, "wheel_missing")
    assert failure.fix


def test_an_index_out_of_reach(bare, fresh_cache):
    failure = bare.failure(index_url="http://no-such-host.invalid/simple")
    assert failure.kind == "index_unreachable"
    assert "http://no-such-host.invalid" in failure.text


def test_credentials_are_used_and_never_shown(bare, simulated_index, monkeypatch, fresh_cache):
    index = simulated_index(bare.wheels, user=SECRET)
    monkeypatch.delenv("UV_DEFAULT_INDEX")
    pip_conf(bare, f"[global]\nindex-url = {index.url}\n")
    result = bare.ensure()
    assert result["packages"] == {"alpha": "1.0"}
    assert "hunter2" not in json.dumps(result)


def test_credentials_are_not_shown_when_something_fails(bare, simulated_index, monkeypatch, fresh_cache):
    monkeypatch.delenv("UV_DEFAULT_INDEX")
    pip_conf(bare, f"[global]\nindex-url = http://{SECRET}@127.0.0.1:9/simple\n")
    failure = bare.failure()
    assert "hunter2" not in json.dumps(failure)
    assert "***@127.0.0.1:9" in json.dumps(failure) or "127.0.0.1:9" in failure.text


def test_no_interpreter(bare):
    failure = bare.failure(python="/usr/bin/python-of-nowhere")
    assert failure.kind == "python_missing"
    assert "/usr/bin/python-of-nowhere" in failure.text
    assert "trainrig_stack.python" in failure.fix


def test_no_uv(bare):
    failure = bare.failure(uv="/nowhere/uv")
    assert failure.kind == "uv_missing"
    assert "pytorch_uv" in failure.fix


def test_too_little_space_is_seen_before_anything_is_fetched(bare, simulated_index):
    index = simulated_index(bare.wheels)
    failure = bare.failure(index_url=index.url, download_bytes=10**17, installed_bytes=2 * 10**17)
    assert failure.kind == "no_space"
    assert "GB" in failure.text
    assert "trainrig_prefix" in failure.fix
    assert not index.asked


def test_no_permission(bare):
    place = bare.root / "a-file"
    place.write_text("", encoding="utf-8")
    failure = bare.failure(store=str(place / "envs"), path=str(place / "env"))
    assert failure.kind == "permission"
    assert str(place) in failure.text


def test_a_requirement_file_that_is_no_lock(bare):
    bare.requirements.write_text("alpha>=1.0\n", encoding="utf-8")
    failure = bare.failure()
    assert failure.kind == "requirements"
    assert "line 1" in failure.text
    assert "playbooks/lock.yml" in failure.fix


PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - trainrig.gpu.python_environment: {options}
"""


def run_module(place, python, **options):
    """The module as Ansible runs it, as verbosely as can be."""
    root = Path(__file__).resolve().parents[2]
    play = place.root / "play.yml"
    given = {key: value for key, value in {**place.options, **options}.items() if value is not None}
    play.write_text(PLAY.replace("{options}", json.dumps(given)), encoding="utf-8")
    command = [shutil.which("ansible-playbook", path=str(root / ".venv/bin")) or "ansible-playbook", "-vvv", str(play)]
    env = {**os.environ, "ANSIBLE_CONFIG": str(root / "ansible.cfg"), "ANSIBLE_HOME": str(place.root / "ansible")}
    command += ["-e", f"ansible_python_interpreter={python}"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def oldest_python():
    found = sorted(Path("/root/.pyenv/versions").glob("3.8.*/bin/python")) if os.geteuid() == 0 else []
    return str(found[0]) if found else shutil.which("python3.8")


def test_the_module_runs_on_the_oldest_python(bare, simulated_index, fresh_cache):
    python = oldest_python()
    if not python or subprocess.run([python, "-V"], capture_output=True, check=False).returncode:
        pytest.skip("no Python 3.8 here")
    done = run_module(bare, python, index_url=simulated_index(bare.wheels).url)
    assert done.returncode == 0, done.stdout + done.stderr
    again = run_module(bare, python, index_url="http://127.0.0.1:9/simple")
    assert "changed=0" in again.stdout, again.stdout


def test_ansible_shows_no_credentials(bare, simulated_index, fresh_cache):
    index = simulated_index(bare.wheels, user=SECRET)
    done = run_module(bare, bare.options["python"], index_url=index.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    other = {"path": f"{bare.prefix}/b", "store": f"{bare.prefix}/b-envs"}
    failed = run_module(bare, bare.options["python"], index_url=f"http://{SECRET}@127.0.0.1:9/simple", **other)
    assert failed.returncode != 0
    assert "hunter2" not in failed.stdout + failed.stderr
    assert "To fix it" in failed.stdout + failed.stderr
