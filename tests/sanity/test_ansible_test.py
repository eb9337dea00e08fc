"""ansible-test sanity on a copy at a real ansible_collections path (through the symlink it silently checks nothing)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import copy_tree

#: Tests that need a download of their own, or a Python that is not here, are named by ansible-test itself as skipped.
TESTS = ["validate-modules", "compile", "import", "yamllint", "no-basestring", "no-get-exception", "shebang", "symlinks",
         "action-plugin-docs", "line-endings", "empty-init", "no-unicode-literals", "replace-urlopen", "use-argspec-type-path",
         "ansible-doc"]  # fmt: skip


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    path = tmp_path_factory.mktemp("sanity") / "ansible_collections/trainrig/gpu"
    copy_tree(path)
    (path / "collections/ansible_collections/trainrig/gpu").unlink()
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
    tests = [argument for name in TESTS for argument in ("--test", name)]
    environment = {**os.environ, "HOME": str(home), "ANSIBLE_CONFIG": "/dev/null", "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PATH"] = f"{binary.parent}:{environment['PATH']}"
    done = subprocess.run(
        [str(binary), "sanity", "--color", "no", "--python", python, *tests],
        cwd=collection,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout[-4000:], done.stderr[-8000:])
    assert done.returncode == 0
    assert "Running sanity test" in done.stdout + done.stderr, "a run that checks nothing is no success"
