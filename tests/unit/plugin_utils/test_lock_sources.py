"""Source archives in a lock: by content, wherever they are; anything else is one clear error."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib

import pytest
from ansible_collections.trainrig.gpu.plugins.plugin_utils.lock_sources import SourceError, locked_source


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "nccl-tests.tar.gz"
    path.write_bytes(b"x" * 3_000_000)
    return path


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_an_archive(archive, form):
    row = {"name": "nccl-tests", "tag": "v2.0", "archive": form.format(archive)}
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert locked_source(row) == {"name": "nccl-tests", "tag": "v2.0", "size": 3_000_000, "sha256": digest}


@pytest.mark.parametrize("key", ["name", "tag", "archive"])
@pytest.mark.parametrize("value", [None, "", 2.17])
def test_a_key_that_is_missing(archive, key, value):
    row = {"name": "nccl-tests", "tag": "v2.0", "archive": str(archive), key: value}
    with pytest.raises(SourceError, match=rf"trainrig_lock\.sources\..*\.{key}: must be text\. To fix it: write"):
        locked_source(row)


@pytest.mark.parametrize("place", ["/nowhere/at/all.tar.gz", "http://me:hunter2@127.0.0.1:9/x.tar.gz"])
def test_an_archive_that_cannot_be_read(place):
    with pytest.raises(SourceError, match=r"sources\.nccl-tests\.archive: .* cannot be read") as caught:
        locked_source({"name": "nccl-tests", "tag": "v2.0", "archive": place})
    assert "hunter2" not in str(caught.value)
