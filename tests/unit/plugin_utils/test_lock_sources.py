"""Source archives in a lock: by content, wherever they are; anything else is one clear error."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import gzip
import hashlib
import http.server
import threading

import pytest
from ansible_collections.trainrig.gpu.plugins.plugin_utils.lock_sources import SourceError, locked_source

ROW = {"name": "nccl-tests", "tag": "v2.0"}


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "nccl-tests.tar.gz"
    path.write_bytes(b"x" * 3_000_000)
    return path


@pytest.fixture
def simulated_server(monkeypatch):
    """Starts a server that answers everything with this body and these headers; returns host:port."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    started = []

    def start(body, status=200, **headers):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return f"127.0.0.1:{server.server_port}"

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def refusal(archive):
    with pytest.raises(SourceError) as caught:
        locked_source({**ROW, "archive": str(archive)})
    assert caught.value.__cause__ is None, "Ansible prints causes"
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    text = str(caught.value)
    assert text.startswith("trainrig_lock.sources.nccl-tests.archive: ")
    assert ". To fix it: " in text
    return text


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_an_archive(archive, form):
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    locked = locked_source({**ROW, "archive": form.format(archive)})
    assert locked == {**ROW, "size": 3_000_000, "sha256": digest}


def test_the_bytes_are_those_that_are_served(simulated_server):
    body = gzip.compress(b"a tar", mtime=0)
    place = simulated_server(body, Content_Encoding="gzip", Content_Length=str(len(body)))
    locked = locked_source({**ROW, "archive": f"http://me:hunter2@{place}/x.tar.gz"})
    assert locked["sha256"] == hashlib.sha256(body).hexdigest()


def test_an_empty_archive(archive, simulated_server):
    archive.write_bytes(b"")
    assert "is empty (0 bytes)" in refusal(archive)
    assert "is empty (0 bytes)" in refusal(f"http://{simulated_server(b'', Content_Length='0')}/x.tar.gz")


def test_an_archive_that_did_not_come_whole(simulated_server):
    text = refusal(f"http://me:hunter2@{simulated_server(b'half', Content_Length='8')}/x.tar.gz")
    assert "4 of 8 bytes came" in text
    assert "hunter2" not in text


def test_the_reason_is_told(archive, simulated_server):
    assert "cannot be read: No such file or directory. " in refusal("/nowhere/at/all.tar.gz")
    assert "cannot be read: Is a directory. " in refusal(archive.parent)
    assert "cannot be read: HTTP 404. " in refusal(f"http://{simulated_server(b'', 404)}/x.tar.gz")
    assert "cannot be read: Connection refused. " in refusal("http://me:hunter2@127.0.0.1:9/x.tar.gz")
    assert "unknown url type: htps" in refusal("htps://host/x.tar.gz")


@pytest.mark.parametrize(
    "place",
    [
        "http://me:hunter2@127.0.0.1:9/x.tar.gz",
        "http://me:hunter2#raw@127.0.0.1:9/x.tar.gz",
        "http://me:hunter2/raw@127.0.0.1:9/x.tar.gz",
        "http://me:hunter2 raw@127.0.0.1:9/x.tar.gz",
        "http://[me:hunter2@127.0.0.1:9/x.tar.gz",
        "http://hunter2@127.0.0.1:9/x.tar.gz",
        "http://127.0.0.1:9/x.tar.gz?token=hunter2",
        "htps://me:hunter2@127.0.0.1/x.tar.gz",
        "me:hunter2@127.0.0.1/x.tar.gz",
        "http:/me:hunter2@127.0.0.1/x.tar.gz",
    ],
)
def test_no_error_shows_a_password(place):
    text = refusal(place)
    assert "cannot be read" in text
    assert "hunter2" not in text
    assert "raw" not in text
