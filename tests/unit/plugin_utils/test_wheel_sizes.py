"""Sizes of wheels for a lock: the same by every way to read them, or one clear error."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import zipfile

import pytest
from ansible_collections.trainrig.gpu.plugins.plugin_utils import remote_file
from ansible_collections.trainrig.gpu.plugins.plugin_utils.wheel_sizes import SizeError, WheelSizes

from tests.support.simulated_index import wheel

ONCE = {"UV_HTTP_RETRIES": "0"}


@pytest.fixture
def path(tmp_path):
    return wheel(tmp_path / "wheels", "numpy", "1.0", {f"numpy/{at}.py": "x = 1\n" * at for at in range(50)})


@pytest.fixture
def sizes(path):
    with zipfile.ZipFile(path) as archive:
        return path.stat().st_size, sum(entry.file_size for entry in archive.infolist())


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_of_a_wheel_on_this_machine(path, sizes, form):
    assert WheelSizes(ONCE).of(form.format(path)) == sizes


@pytest.mark.parametrize("tail", [1 << 21, 30, 1000])
def test_by_byte_range(serve, path, sizes, monkeypatch, tail):
    monkeypatch.setattr(remote_file, "_TAIL_BYTES", tail)
    index = serve(path.parent, ranges=True)
    asked = WheelSizes(ONCE)
    assert asked.of(f"http://{index.address}/files/{path.name}") == sizes
    before = len(index.asked)
    assert asked.of(f"http://{index.address}/files/{path.name}") == sizes
    assert len(index.asked) == before, "asked once"


def test_a_server_without_parts_sends_the_wheel(serve, path, sizes):
    index = serve(path.parent)
    assert WheelSizes(ONCE).of(f"http://{index.address}/files/{path.name}") == sizes


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("UV_DEFAULT_INDEX", "{}"),
        ("UV_INDEX", "http://other.invalid/simple mine={}"),
        ("UV_FIND_LINKS", "/srv/wheels,{}"),
    ],
)
def test_credentials_of_the_index(serve, path, sizes, name, form):
    index = serve(path.parent, user="me:secret")
    address = f"http://{index.address}/files/{path.name}"
    assert WheelSizes({**ONCE, name: form.format(index.url)}).of(address) == sizes
    with pytest.raises(SizeError, match=r"cannot learn the size of http://127.*HTTP 401\. To fix it: put valid"):
        WheelSizes(ONCE).of(address)


def test_credentials_are_not_printed(serve, path):
    index = serve(path.parent, user="me:secret")
    with pytest.raises(SizeError) as caught:
        WheelSizes(ONCE).of(f"http://me:wrong-secret@{index.address}/files/{path.name}?signature=secret")
    assert f"cannot learn the size of http://***@{index.address}/files/{path.name}: " in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_wheel_that_is_none_or_not_there(serve, path, ranges):
    index = serve(path.parent, ranges=ranges)
    (path.parent / "page.whl").write_text("<html>sign in</html>", encoding="utf-8")
    with pytest.raises(SizeError, match=r"cannot learn the size of .*/page\.whl: File is not a zip file"):
        WheelSizes(ONCE).of(f"http://{index.address}/files/page.whl")
    with pytest.raises(SizeError, match=r"cannot learn the size of .*/other\.whl: .*HTTP 404"):
        WheelSizes(ONCE).of(f"http://{index.address}/files/other.whl")


def test_settings_that_do_not_work():
    with pytest.raises(SizeError, match=r"cannot learn the sizes of wheels: a certificate file .* To fix it"):
        WheelSizes({"SSL_CERT_FILE": "/nowhere/ca.pem"})
    with pytest.raises(SizeError, match="cannot learn the sizes of wheels: Port"):
        WheelSizes({"UV_INDEX": "http://me:secret@127.0.0.1:port/simple"})
