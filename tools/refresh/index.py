"""Reads what indexes say of a package: its files (PEP 503 or 691), and the METADATA of one wheel without the wheel.

METADATA is a file of its own where the index has that (PEP 658). Elsewhere it is read out of the wheel: from this
machine's disk, or by byte range (the archive's directory stands at its end, some 2 MB of a gigabyte).
"""

from __future__ import annotations

import hashlib
import html.parser
import io
import json
import subprocess
import sys
import urllib.parse
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_options import mask
from ansible_collections.trainrig.gpu.plugins.plugin_utils.index_client import Answer, Client, ReadError, shown
from ansible_collections.trainrig.gpu.plugins.plugin_utils.remote_file import RemoteFile, opened

_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


class Places(NamedTuple):
    """Where the user's settings say that packages are: indexes in their order, and directories or pages of links."""

    indexes: list[str]
    links: list[str]


class File(NamedTuple):
    """One file of a package as a place lists it."""

    name: str
    url: str
    place: str
    requires_python: str | None
    uploaded: str | None  # day
    yanked: bool
    metadata: bool  # has METADATA beside it, as a file of its own
    metadata_sha256: str | None


class Page(NamedTuple):
    """What one place lists."""

    place: str
    form: str  # JSON, HTML or directory
    files: list[File]


def places(uv: str, options: Sequence[str], env: Mapping[str, str]) -> Places:
    """As uv itself understands its settings, its files and its default included; nothing is asked for that."""
    command = [uv, "pip", "compile", "-", "--offline", "--python", sys.executable, "--no-header"]
    command += ["--emit-index-url", "--emit-find-links", *options]
    done = subprocess.run(command, input="", env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode:
        text = " ".join(mask(done.stderr).split())
        raise ReadError(f"uv does not understand the settings of the index: {text}. To fix it: correct that setting")
    found: dict[str, list[str]] = {"--index-url": [], "--extra-index-url": [], "--find-links": []}
    for line in done.stdout.splitlines():
        option, _space, value = line.partition(" ")
        if option in found:
            found[option].append(value.strip())
    return Places(found["--index-url"] + found["--extra-index-url"], found["--find-links"])


def pages(client: Client, where: Places, package: str) -> list[Page]:
    """Every place that lists files of the package."""
    found = [_index_page(client, index, package) for index in where.indexes]
    found += [_links_page(client, links) for links in where.links]
    start = package + "-"
    kept = [page._replace(files=[file for file in page.files if file.name.startswith(start)]) for page in found]
    return [page for page in kept if page.files]


def metadata(client: Client, file: File) -> tuple[str, str] | None:
    """(text, how it was read); None where this place gives no METADATA without the whole wheel."""
    if file.metadata:
        answer = client.get(_beside(file.url))
        if answer.status == 404:
            raise ReadError(f"{file.place} lists METADATA of {file.name} and does not have it. {_OTHER_INDEX}")
        digest = hashlib.sha256(answer.body).hexdigest()
        if file.metadata_sha256 and digest != file.metadata_sha256:
            raise ReadError(f"METADATA of {file.name} is not what {file.place} says: sha256 {digest}. {_OTHER_INDEX}")
        return answer.body.decode("utf-8", "replace"), "metadata file"
    try:
        stream = opened(client, file.url)
        if stream is None:
            return None
        way = "byte range of the wheel" if isinstance(stream, RemoteFile) else "wheel on this machine"
        return _from_archive(stream), way
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        text = mask(str(error)) or "it has no METADATA"
        raise ReadError(f"{file.name} of {file.place} is no readable wheel: {text}. {_OTHER_INDEX}") from error


_OTHER_INDEX = "To fix it: tell who runs it, or set PIP_INDEX_URL (or UV_DEFAULT_INDEX) to another index"


def _index_page(client: Client, index: str, package: str) -> Page:
    url = f"{index.rstrip('/')}/{package}/"
    if urllib.parse.urlsplit(url).scheme in ("", "file"):
        url += "index.html"
    answer = client.get(url, accept=_ACCEPT)
    return _page(index, answer) if answer.status == 200 else Page(shown(index), "nothing", [])


def _links_page(client: Client, links: str) -> Page:
    parts = urllib.parse.urlsplit(links)
    path = Path(urllib.parse.unquote(parts.path))
    if parts.scheme in ("", "file") and path.is_dir():
        files = [
            File(wheel.name, str(wheel), shown(links), None, None, False, False, None)
            for wheel in sorted(path.glob("*.whl"))
        ]
        return Page(shown(links), "directory", files)
    answer = client.get(links, accept="text/html")
    if answer.status != 200:
        raise ReadError(f"{shown(links)} has nothing. To fix it: correct PIP_FIND_LINKS (or UV_FIND_LINKS)")
    return _page(links, answer)


def _page(place: str, answer: Answer) -> Page:
    try:
        if answer.kind.endswith("json"):
            rows = json.loads(answer.body)["files"]
            return Page(shown(place), "JSON", [_file(shown(place), answer.url, row) for row in rows])
        parser = _Links()
        parser.feed(answer.body.decode("utf-8"))
        return Page(shown(place), "HTML", [_file(shown(place), answer.url, row) for row in parser.rows])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReadError(f"{shown(answer.url)} is no page of an index ({error}). {_OTHER_INDEX}") from error


def _file(place: str, page: str, row: Mapping[str, Any]) -> File:
    beside = row.get("core-metadata", row.get("dist-info-metadata"))
    return File(
        row["filename"],
        urllib.parse.urljoin(page, row["url"]),
        place,
        row.get("requires-python") or None,
        (row.get("upload-time") or "")[:10] or None,
        bool(row.get("yanked")),
        bool(beside),
        beside.get("sha256") if isinstance(beside, dict) else None,
    )


class _Links(html.parser.HTMLParser):
    """The links of a page in HTML, as rows of one in JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag != "a" or not found.get("href"):
            return
        url = str(found["href"]).partition("#")[0]
        beside = found.get("data-core-metadata", found.get("data-dist-info-metadata"))
        name, _equals, digest = (beside or "").partition("=")
        self.rows.append(
            {
                "filename": urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2]),
                "url": url,
                "requires-python": found.get("data-requires-python"),
                "yanked": "data-yanked" in found,
                "core-metadata": {"sha256": digest} if name == "sha256" else beside == "true",
            }
        )


def _beside(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(path=parts.path + ".metadata", fragment=""))


def _from_archive(stream: RemoteFile | io.BufferedReader) -> str:
    with stream, zipfile.ZipFile(stream) as archive:
        name = next(
            name for name in archive.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1
        )
        return archive.read(name).decode("utf-8", "replace")
