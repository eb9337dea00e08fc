"""A file that is read in parts: what was asked is what is given, and no more comes over the net than is read."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import io
import random

import pytest
from ansible_collections.trainrig.gpu.plugins.plugin_utils import remote_file
from ansible_collections.trainrig.gpu.plugins.plugin_utils.index_client import Client, ReadError
from ansible_collections.trainrig.gpu.plugins.plugin_utils.remote_file import RemoteFile, opened

CONTENT = bytes(random.Random(7).randrange(256) for _at in range(3000))


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_file, "_TAIL_BYTES", 500)
    monkeypatch.setattr(remote_file, "_PIECE_BYTES", 64)
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "big.whl"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def client():
    return Client({"UV_HTTP_RETRIES": "0"}, [])


def test_it_reads_as_a_local_file_does(serve, path, client):
    index = serve(path.parent, ranges=True)
    remote, local = opened(client, f"http://{index.address}/files/{path.name}"), opened(client, str(path))
    assert isinstance(remote, RemoteFile) and not isinstance(local, RemoteFile)
    chance = random.Random(11)
    with remote, local:
        for _turn in range(60):
            whence = chance.choice([io.SEEK_SET, io.SEEK_CUR, io.SEEK_END])
            offset = {io.SEEK_SET: chance.randrange(3100), io.SEEK_CUR: 10, io.SEEK_END: -chance.randrange(3000)}
            assert remote.seek(offset[whence], whence) == local.seek(offset[whence], whence)
            size = chance.choice([-1, 0, 1, 50, 100, 700])
            assert remote.read(size) == local.read(size)
            assert remote.tell() == local.tell()


def test_only_what_is_read_is_fetched(serve, path, client):
    index = serve(path.parent, ranges=True)
    with opened(client, f"http://{index.address}/files/{path.name}") as remote:
        remote.seek(-500, io.SEEK_END)
        assert remote.read() == CONTENT[-500:]
        remote.seek(1000)
        assert remote.read(10) + remote.read(54) == CONTENT[1000:1064]
    assert index.served == [(path.name, 500), (path.name, 64)]


def test_a_server_without_parts(serve, path, client):
    index = serve(path.parent)
    assert opened(client, f"http://{index.address}/files/{path.name}") is None


def test_a_file_that_is_not_there(serve, path, client):
    index = serve(path.parent, ranges=True)
    with pytest.raises(FileNotFoundError, match="HTTP 404"):
        opened(client, f"http://{index.address}/files/other.whl")
    with pytest.raises(FileNotFoundError, match=r"other\.whl"):
        opened(client, f"file://{path.parent}/other.whl")


@pytest.mark.parametrize("change", ["shorter", "gone", "whole"])
def test_a_file_that_changes_while_it_is_read(serve, path, client, change):
    index = serve(path.parent, ranges=True)
    with opened(client, f"http://me:secret@{index.address}/files/{path.name}") as remote:
        if change == "shorter":
            path.write_bytes(CONTENT[:2900])
        elif change == "gone":
            path.unlink()
        else:
            index.ranges = False
        with pytest.raises(ReadError, match="became another file while it was read") as caught:
            remote.read(100)
    assert "secret" not in str(caught.value)
