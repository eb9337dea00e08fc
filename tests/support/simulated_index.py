"""Tiny wheels, and an index on this machine that serves them and can be slow, broken, closed or wrong on purpose."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import threading
import time
import zipfile
from pathlib import Path


def wheel(
    directory: Path,
    name: str,
    version: str,
    files: dict[str, str] | None = None,
    tag: str = "py3-none-any",
    metadata: str = "",
) -> Path:
    """A wheel with one module that knows its version (and any other files, more METADATA lines); returns its path."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    content = {
        f"{module}/__init__.py": f"version = {version!r}\n",
        f"{module}/late.py": f"version = {version!r}\n",
        **(files or {}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    lines = []
    for path, text in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text.encode())}\n")
    content[f"{info}/RECORD"] = "".join(lines) + f"{info}/RECORD,,\n"
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in content.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return target


def locked(*wheels: Path) -> str:
    """The hash-checked requirement file that asks for exactly these wheels."""
    by_name: dict[str, list[str]] = {}
    for path in wheels:
        name, version = path.name.split("-")[:2]
        by_name.setdefault(f"{name}=={version}", []).append(sha256(path))
    return "".join(
        f"{name} \\\n" + " \\\n".join(f"    --hash=sha256:{digest}" for digest in sorted(digests)) + "\n"
        for name, digests in sorted(by_name.items())
    )


def own_metadata(path: Path) -> bytes:
    """METADATA as it stands in a wheel."""
    with zipfile.ZipFile(path) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA")))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class SimulatedIndex:
    """A simple index over HTTP. `user`: credentials it wants; `delay`: its time to think; `status`: its only answer.

    `beside`: it has METADATA as files of its own; `ranges`: it serves parts of files; `html`: it knows no JSON.
    """

    def __init__(
        self,
        directory: Path,
        user: str = "",
        delay: float = 0,
        status: int = 0,
        beside: bool = False,
        ranges: bool = False,
        html: bool = False,
    ) -> None:
        self.directory, self.user, self.delay, self.status = directory, user, delay, status
        self.beside, self.ranges, self.html = beside, ranges, html
        self.moved_to = ""  # the address that files are redirected to
        self.told: list[str | None] = []  # the credentials that came with each request
        self.slipped_in = b""  # into METADATA files, behind the back of the page's hashes
        self.served: list[tuple[str, int]] = []  # file, bytes
        self.asked: list[str] = []
        self.uploaded: dict[str, str] = {}  # file -> when, where not at the beginning of 2026
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{self.user + '@' if self.user else ''}{self.address}/simple"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        self.asked.append(request.path)
        self.told.append(request.headers.get("Authorization"))
        time.sleep(self.delay)
        wanted = "Basic " + base64.b64encode(self.user.encode()).decode()
        if self.user and request.headers.get("Authorization") != wanted:
            self._send(request, 401, b"")
        elif self.status:
            self._send(request, self.status, b"")
        elif request.path.startswith("/simple/"):
            self._page(request, request.path.split("/")[2])
        elif self.moved_to:
            self._send(request, 302, b"", more={"Location": f"http://{self.moved_to}{request.path}"})
        else:
            self._file(request, request.path.rpartition("/")[2].replace("%2B", "+"))

    def _file(self, request: http.server.BaseHTTPRequestHandler, name: str) -> None:
        path = self.directory / name.removesuffix(".metadata")
        if not path.is_file() or (path.name != name and not self.beside):
            self._send(request, 404, b"")
            return
        content = path.read_bytes() if path.name == name else own_metadata(path) + self.slipped_in
        span = request.headers.get("Range", "").removeprefix("bytes=") if self.ranges else ""
        if not span:
            self.served.append((name, len(content)))
            self._send(request, 200, content)
            return
        first, _dash, last = span.partition("-")
        start = int(first) if first else max(0, len(content) - int(last))
        part = content[start : int(last) + 1 if first and last else None]
        self.served.append((name, len(part)))
        where = f"bytes {start}-{start + len(part) - 1}/{len(content)}"
        self._send(request, 206, part, more={"Content-Range": where})

    def _page(self, request: http.server.BaseHTTPRequestHandler, project: str) -> None:
        wheels = sorted(self.directory.glob("*.whl"))
        found = [path for path in wheels if path.name.split("-")[0].replace("_", "-") == project]
        status = 200 if found else 404
        digests = {path: hashlib.sha256(own_metadata(path)).hexdigest() for path in found if self.beside}
        if "json" in request.headers.get("Accept", "") and not self.html:
            files: list[dict[str, object]] = [
                {
                    "filename": path.name,
                    "url": f"/files/{path.name}",
                    "hashes": {"sha256": sha256(path)},
                    "upload-time": self.uploaded.get(path.name, "2026-01-01T00:00:00Z"),
                    "size": path.stat().st_size,
                    **({"core-metadata": {"sha256": digests[path]}} if self.beside else {}),
                }
                for path in found
            ]
            page = json.dumps({"meta": {"api-version": "1.1"}, "name": project, "files": files})
            self._send(request, status, page.encode(), "application/vnd.pypi.simple.v1+json")
            return
        links = "".join(
            f'<a href="/files/{path.name}#sha256={sha256(path)}"'
            + (f' data-core-metadata="sha256={digests[path]}"' if self.beside else "")
            + f">{path.name}</a>\n"
            for path in found
        )
        self._send(request, status, f"<html><body>{links}</body></html>".encode(), "text/html")

    @staticmethod
    def _send(
        request: http.server.BaseHTTPRequestHandler,
        status: int,
        body: bytes,
        kind: str = "application/octet-stream",
        more: dict[str, str] | None = None,
    ) -> None:
        request.send_response(status)
        for name, value in (more or {}).items():
            request.send_header(name, value)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)
