"""Bad input: one clear error that names file, key, value and the fix; nothing half done."""

import http.server
import threading

import pytest


def fresh_prefix(tmp_path):
    return tmp_path / "prefix"


@pytest.fixture
def refused(checkout, first_run, tmp_path):
    """Runs site with a bad setting on a fresh prefix; asserts that it failed and left nothing; returns the output."""
    first_run.ok()

    def run(*arguments, prefix=None, leaves_nothing=True):
        prefix = prefix or fresh_prefix(tmp_path)
        done = checkout.make("site", *arguments, f"-e trainrig_prefix={prefix}")
        assert done.status != 0, done.output
        if leaves_nothing:
            assert not (prefix / "env").exists()
        return done.output

    return run


def settings(checkout, text):
    """Write the inventory's stack as a user would edit it; give the old text back."""
    path = checkout.path / "inventories/local/group_vars/all.yml"
    before = path.read_text(encoding="utf-8")
    head = before.partition("trainrig_stack:")[0]
    path.write_text(f"{head}trainrig_stack:\n{text}", encoding="utf-8")
    return path, before


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        ("  pytroch: auto\n", ["inventories/local/group_vars/all.yml", "pytroch", "pytorch"]),
        ('  pytorch: "9.9.9"\n', ["inventories/local/group_vars/all.yml", "pytorch", "9.9.9"]),
        ("  pytorch: 2.10\n", ["inventories/local/group_vars/all.yml", "pytorch", "quote it as you wrote it"]),
        ("  variant: cu999\n", ["inventories/local/group_vars/all.yml", "variant", "cu999"]),
        ('  python: "3.7"\n', ["inventories/local/group_vars/all.yml", "python", "3.7"]),
        ("  accelerator: tpu\n", ["inventories/local/group_vars/all.yml", "accelerator", "tpu", "cpu"]),
    ],
)
def test_a_bad_stack(checkout, refused, stack, words):
    path, before = settings(checkout, stack)
    try:
        output = refused()
    finally:
        path.write_text(before, encoding="utf-8")
    for word in words:
        assert word in output


def test_a_declaration_that_was_changed_after_the_lock(checkout, refused):
    path, before = settings(checkout, '  pytorch: "2.13.0"\n')
    try:
        output = " ".join(refused().split())
    finally:
        path.write_text(before, encoding="utf-8")
    assert "inventories/local/stack.lock.yml" in output
    assert 'pool default: {"pytorch": "2.13.0"}: the declaration was changed after the lock was made' in output
    assert "playbooks/lock.yml" in output


def test_data_that_were_changed_after_the_lock(checkout, refused):
    path = checkout.path / "data/nccl.yml"
    before = path.read_text(encoding="utf-8")
    path.write_text(before + "# a fact more\n", encoding="utf-8")
    try:
        output = " ".join(refused().split())
    finally:
        path.write_text(before, encoding="utf-8")
    assert "files of data/ that the lock was made from were changed after it" in output
    assert "playbooks/lock.yml" in output


def test_a_prefix_without_write_permission(refused, tmp_path):
    # A file where a directory is needed stops root too.
    (tmp_path / "file").write_text("", encoding="utf-8")
    output = refused(prefix=tmp_path / "file" / "prefix")
    assert "trainrig_prefix" in output
    assert str(tmp_path / "file") in output


def test_too_little_disk(checkout, refused, small_disk):
    output = refused(prefix=small_disk / "prefix")
    assert "GB" in output
    assert str(small_disk) in output
    assert "trainrig_prefix" in output


@pytest.fixture
def small_disk(checkout, tmp_path):
    """A real file system of 64 MB, mounted for the test."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = checkout.run("mount", "-t", "tmpfs", "-o", "size=64m", "simulated_small_disk", str(place))
    if mounted.status:
        pytest.skip(f"cannot mount a small file system here: {mounted.output.strip()}")
    yield place
    checkout.run("umount", str(place)).ok()


class SilentIndex(http.server.BaseHTTPRequestHandler):
    """simulated_silent_index: takes the connection and never answers."""

    stop = threading.Event()

    def do_GET(self):
        self.stop.wait(120)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def silent_index():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SilentIndex)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    SilentIndex.stop.set()
    server.shutdown()


def test_an_index_that_times_out(checkout, refused, silent_index, tmp_path, monkeypatch):
    monkeypatch.setitem(checkout.variables, "UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(checkout.variables, "PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setitem(checkout.variables, "UV_HTTP_TIMEOUT", "3")
    monkeypatch.setitem(checkout.variables, "PIP_FIND_LINKS", "")
    output = refused(f"-e pytorch_index_url={silent_index}", f"-e pytorch_torch_index={silent_index}")
    assert "pytorch_index_url" in output
    assert "time" in output


def test_a_lock_that_was_edited(checkout, refused):
    path = checkout.path / "inventories/local/stack.lock.yml"
    before = path.read_text(encoding="utf-8")
    path.write_text(before.replace("variant: cpu", "variant: cpX", 1), encoding="utf-8")
    try:
        output = refused()
    finally:
        path.write_text(before, encoding="utf-8")
    assert "inventories/local/stack.lock.yml" in output
    assert "lock.yml" in output


def test_a_lock_that_is_missing(checkout, refused):
    path = checkout.path / "inventories/local/stack.lock.yml"
    before = path.read_text(encoding="utf-8")
    path.unlink()
    try:
        output = refused()
    finally:
        path.write_text(before, encoding="utf-8")
    assert "inventories/local/stack.lock.yml" in output


def test_a_hash_that_differs(checkout, refused):
    """A wheel that is not the locked one is never installed."""
    import hashlib
    import re

    requirement = next((checkout.path / "inventories/local/requirements").glob("cpu*.txt"))
    lock = checkout.path / "inventories/local/stack.lock.yml"
    texts = {path: path.read_text(encoding="utf-8") for path in (requirement, lock)}
    sick = re.sub(r"(numpy==.*?sha256:)\w{8}", r"\g<1>00000000", texts[requirement], count=0, flags=re.S)
    requirement.write_text(sick, encoding="utf-8")
    old, new = (hashlib.sha256(text.encode()).hexdigest() for text in (texts[requirement], sick))
    lock.write_text(texts[lock].replace(old, new), encoding="utf-8")
    try:
        output = refused()
    finally:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    assert "sha256" in output or "hash" in output or "digest" in output
