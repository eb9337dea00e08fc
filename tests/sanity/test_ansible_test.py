"""ansible-test sanity on the built collection (through the checkout's symlink it would silently check nothing)."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.checkout import copy_tree

#: Left out, with the reason.
LEFT_OUT = {
    "pslint": "needs PowerShell, and there is no PowerShell in trainrig",
    "shellcheck": "needs the shellcheck program; the shell scripts are not part of the collection",
    "pep8": "ruff format decides how the code looks",
    "pylint": "ruff and mypy check the same code with the project's own settings",
}


def no_settings(directory):
    """An empty ansible.cfg: the checkout's own would lead back into the checkout."""
    path = directory / "ansible.cfg"
    path.write_text("", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """The collection as it is built, unpacked where ansible-test wants it."""
    work = tmp_path_factory.mktemp("sanity")
    copy_tree(work / "copy")
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    command = [galaxy, "collection", "build", str(work / "copy"), "--output-path", str(work)]
    subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, "ANSIBLE_CONFIG": str(no_settings(work))}
    )
    path = work / "ansible_collections/trainrig/gpu"
    with tarfile.open(next(work.glob("*.tar.gz"))) as archive:
        # Older maintenance releases of Python do not know filters; it is our own archive.
        archive.extractall(path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "copy"]):
        subprocess.run([*git, *command], cwd=path, check=True)
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """ansible-test wants to download pip's installer: the standard library's own does the same."""
    home = tmp_path_factory.mktemp("home")
    cache = home / ".ansible/test/cache"
    cache.mkdir(parents=True)
    for version in ("24_2", "25_0", "25_1", "25_2", "26_0"):
        (cache / f"get_pip_{version}.py").write_text("import ensurepip\nensurepip.bootstrap(default_pip=True)\n")
    return home


def test_sanity(collection, home):
    binary = Path(sys.executable).with_name("ansible-test")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    left_out = [argument for name in LEFT_OUT for argument in ("--skip-test", name)]
    environment = {**os.environ, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["ANSIBLE_CONFIG"] = str(no_settings(home))
    environment["PATH"] = f"{binary.parent}:{environment['PATH']}"
    done = subprocess.run(
        [str(binary), "sanity", "--color", "no", "--python", python, *left_out],
        cwd=collection,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout[-4000:], done.stderr[-8000:])
    assert done.returncode == 0
    assert "Running sanity test" in done.stdout + done.stderr, "a run that checks nothing is no success"
