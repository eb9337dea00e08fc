"""The client of package indexes: whom it tells credentials, how often it asks, what it says when that fails."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import base64
import http.server
import socket
import threading

import pytest
from ansible_collections.trainrig.gpu.plugins.plugin_utils import index_client
from ansible_collections.trainrig.gpu.plugins.plugin_utils.index_client import Client, ReadError

from tests.support.simulated_index import SimulatedIndex, wheel

ONCE = {"UV_HTTP_RETRIES": "0"}
USER = "me:secret"
HEADER = "Basic " + base64.b64encode(USER.encode()).decode()


class SimulatedRedirects(SimulatedIndex):
    """Leads from /old/ to /files/, of its own or of `elsewhere`. `proxy_told`: credentials of a proxy that came."""

    def __init__(self, directory, elsewhere="", **how):
        self.elsewhere, self.proxy_told, self.busy = elsewhere, [], 0
        super().__init__(directory, **how)

    def answer(self, request):
        self.proxy_told.append(request.headers.get("Proxy-Authorization"))
        path = request.path.removeprefix("http://simulated-index.invalid")
        if self.busy:
            self.busy -= 1
            self._send(request, 503, b"")
        elif path.startswith("/old/"):
            self.told.append(request.headers.get("Authorization"))
            address = self.elsewhere or self.address
            self._send(request, 302, b"", more={"Location": f"http://{address}{path.replace('/old/', '/files/')}"})
        else:
            super().answer(request)


@pytest.fixture
def path(tmp_path):
    return wheel(tmp_path / "wheels", "numpy", "1.0")


def test_credentials_go_along_within_a_server(serve, path):
    index = serve(path.parent, SimulatedRedirects, user=USER)
    answer = Client(ONCE, [index.url]).get(f"http://{index.address}/old/{path.name}")
    assert answer.body == path.read_bytes()
    assert index.told == [HEADER, HEADER]


@pytest.mark.parametrize("said_by", ["index", "address", "netrc"])
def test_credentials_go_to_no_other_server(serve, path, tmp_path, said_by):
    other = serve(path.parent)
    index = serve(path.parent, SimulatedRedirects, elsewhere=other.address, user=USER)
    addresses = [index.url] if said_by == "index" else []
    if said_by == "netrc":
        (tmp_path / "home").mkdir()
        netrc = tmp_path / "home" / ".netrc"
        netrc.write_text("machine 127.0.0.1 login me password secret\n", encoding="utf-8")
        netrc.chmod(0o600)
    user = f"{USER}@" if said_by == "address" else ""
    assert Client(ONCE, addresses).get(f"http://{user}{index.address}/old/{path.name}").body == path.read_bytes()
    assert (index.told, other.told) == ([HEADER], [None])


def test_credentials_that_a_redirect_names_are_left_out(serve, path):
    other = serve(path.parent)
    index = serve(path.parent, SimulatedRedirects, elsewhere=f"you:hidden@{other.address}")
    assert Client(ONCE, []).get(f"http://{index.address}/old/{path.name}").body == path.read_bytes()
    assert other.told == [None]


def test_credentials_of_https_are_not_for_http(serve, path):
    index = serve(path.parent)
    Client(ONCE, [f"https://{USER}@{index.address}/simple"]).get(f"http://{index.address}/files/{path.name}")
    assert index.told == [None]


def test_credentials_of_a_proxy_are_for_the_proxy(serve, path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    other = serve(path.parent, SimulatedRedirects)
    proxy = serve(path.parent, SimulatedRedirects, elsewhere=other.address)
    client = Client({**ONCE, "HTTP_PROXY": f"http://{USER}@{proxy.address}"}, [])
    assert client.get(f"http://simulated-index.invalid/old/{path.name}").body == path.read_bytes()
    assert (proxy.proxy_told, other.proxy_told) == ([HEADER], [None])


@pytest.fixture
def no_waiting(monkeypatch):
    monkeypatch.setattr(index_client.time, "sleep", lambda _seconds: None)


def test_a_busy_server_is_asked_again(serve, path, no_waiting):
    index = serve(path.parent, SimulatedRedirects)
    index.busy = 2
    client = Client({"UV_HTTP_RETRIES": "2"}, [])
    address = f"http://{index.address}/files/{path.name}"
    assert client.get(address).body == path.read_bytes()
    assert client.requests == 3
    index.busy = 3
    with pytest.raises(ReadError, match=r"HTTP 503\. To fix it: try again later"):
        client.get(address)


def test_https_stays_https_behind_a_proxy(no_waiting):
    """urllib forgets it where one request is sent again."""
    first_bytes = []

    class SimulatedTunnel(http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self):
            self.send_response(200)
            self.end_headers()
            first_bytes.append(self.rfile.read(1))

        def log_message(self, *_arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), SimulatedTunnel) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True).start()
        env = {"UV_HTTP_RETRIES": "2", "HTTPS_PROXY": f"http://127.0.0.1:{proxy.server_address[1]}"}
        with pytest.raises(ReadError, match="cannot be reached"):
            Client(env, []).get("https://simulated-index.invalid/simple/numpy/")
        proxy.shutdown()
    assert first_bytes == [b"\x16"] * 3, "how TLS begins"


def test_a_server_that_does_not_answer():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/simple/numpy/"
        with pytest.raises(ReadError, match="cannot be reached: timed out"):
            Client({**ONCE, "HTTP_TIMEOUT": "1"}, []).get(address)


@pytest.mark.parametrize("name", ["UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES"])
def test_a_number_that_is_none(name):
    with pytest.raises(ReadError, match=f"{name}: soon: is no whole number. To fix it: write one"):
        Client({name: "soon"}, [])
