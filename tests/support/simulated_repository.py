"""A simulated Debian package repository: stub packages, signed, served on this machine, and wrong on purpose if asked.

    repository = SimulatedRepository(directory)
    index = repository.flat("ubuntu2404/x86_64", {"Origin": "NVIDIA", "Label": "NVIDIA CUDA"}, "amd64")
    index.add("nvidia-open-570", "570.124.06-0ubuntu1", depends="nvidia-driver-570-open")
    repository.publish()
    index.source_line()      # deb [signed-by=...] http://127.0.0.1:PORT/ubuntu2404/x86_64/ /

Nothing outside Python but gpg is needed; the same content gives the same bytes, signatures and dates aside.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import io
import shutil
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple

Signature = Literal["good", "stranger", "tampered", "missing"]

# The day of the first publication. It is long past, so that no clock finds it in the future.
FIRST_DAY = 1735689600  # 2025-01-01
DIGESTS = {"MD5sum": "md5", "SHA1": "sha1", "SHA256": "sha256"}
FIELDS = ("pre_depends", "depends", "recommends", "suggests", "conflicts", "breaks", "replaces", "provides")


class File(NamedTuple):
    """A file of a package that is more than a text of mode 644; `link`: a symbolic link to there, and nothing else."""

    text: str = ""
    mode: int = 0o644
    link: str = ""


#: Files of a package by their path.
Files = Mapping[str, str | File]


class Package(NamedTuple):
    """One version of one package, as an index holds it."""

    name: str
    version: str
    architecture: str
    control: str  # the control paragraph, without an empty line at the end
    deb: bytes

    @property
    def file_name(self) -> str:
        """As archives name files: the epoch is left out."""
        return f"{self.name}_{self.version.rpartition(':')[2]}_{self.architecture}.deb"


def control_paragraph(
    name: str, version: str, architecture: str, source: str = "", essential: bool = False, **relations: str
) -> str:
    """The control paragraph of a stub; relations are depends, conflicts, provides and the like."""
    unknown = set(relations) - set(FIELDS)
    if unknown:
        raise ValueError(f"{name}: no field of a package: {', '.join(sorted(unknown))}; there are {', '.join(FIELDS)}")
    lines = [f"Package: {name}"]
    if source and source != name:
        lines.append(f"Source: {source}")
    lines += [f"Version: {version}", f"Architecture: {architecture}", "Maintainer: simulated <simulated@example.com>"]
    if essential:
        lines.append("Essential: yes")
    for field in FIELDS:
        if relations.get(field):
            lines.append(f"{field.replace('_', '-').title()}: {relations[field]}")
    lines += ["Section: misc", "Priority: optional", f"Description: simulated {name}"]
    return "\n".join(lines)


Entries = tuple[tuple[str, str | File], ...]


@functools.lru_cache(maxsize=None)
def stub(control: str, files: Entries = (), scripts: Entries = ()) -> bytes:
    """A .deb with this control paragraph and these (path, text) files; the same input gives the same bytes.

    scripts: what lies beside the control paragraph: postinst, prerm, triggers and the like.
    """
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", _tar((("control", control + "\n"), *scripts))),
        ("data.tar.gz", _tar(files)),
    ]
    archive = b"!<arch>\n"
    for name, content in members:
        archive += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        archive += content + b"\n" * (len(content) % 2)
    return archive


@functools.lru_cache(maxsize=None)
def _tar(files: Entries) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        folders = {parent for path, _ in files for parent in Path(path).parents}
        for folder in sorted(map(str, folders)) or ["."]:
            entry = tarfile.TarInfo("./" if folder == "." else f"./{folder}/")
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for path, content in sorted(files):
            file = File(content) if isinstance(content, str) else content
            entry = tarfile.TarInfo(f"./{path}")
            entry.mode = file.mode
            if file.link:
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, file.link, 0o777
                tar.addfile(entry)
                continue
            entry.size = len(file.text.encode())
            tar.addfile(entry, io.BytesIO(file.text.encode()))
    return gzip.compress(buffer.getvalue(), mtime=0)


class SigningKey:
    """A throw-away key in a gpg home of its own. The home is short: gpg's socket must fit into 108 characters."""

    def __init__(self, name: str = "simulated repository") -> None:
        self.home = Path(tempfile.mkdtemp(prefix="simulated-key-"))
        # gpg 2.2 refuses a home whose folder others can read with a warning only; mkdtemp gives 0700 already.
        self._gpg(
            "--passphrase", "", "--quick-generate-key", f"{name} <simulated@example.com>", "ed25519", "sign", "never"
        )
        listing = self._gpg("--list-keys", "--with-colons", "--fingerprint").decode()
        self.fingerprint = next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))
        self.public = self._gpg("--export")
        self.public_armored = self._gpg("--armor", "--export").decode()

    def clear_signed(self, text: str) -> str:
        return self._gpg("--clearsign", stdin=text.encode()).decode()

    def detached(self, text: str) -> str:
        return self._gpg("--armor", "--detach-sign", stdin=text.encode()).decode()

    def close(self) -> None:
        subprocess.run(["gpgconf", "--homedir", str(self.home), "--kill", "all"], capture_output=True, check=False)
        shutil.rmtree(self.home, ignore_errors=True)

    def _gpg(self, *words: str, stdin: bytes = b"") -> bytes:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--yes", "--quiet", "--pinentry-mode", "loopback"]
        run = subprocess.run([*command, *words], input=stdin, capture_output=True, check=False)
        if run.returncode:
            raise RuntimeError(f"gpg {' '.join(words)}: {run.stderr.decode(errors='replace')}")
        return run.stdout


class SimulatedIndex:
    """The packages that one `deb` line names: a flat repository, or one suite with its components."""

    def __init__(
        self,
        repository: SimulatedRepository,
        path: str,
        release: dict[str, str],
        architecture: str,
        components: tuple[str, ...] = (),
    ) -> None:
        self.repository, self.path, self.release, self.architecture = repository, path, release, architecture
        self.components = components
        self.packages: dict[tuple[str, str, str], Package] = {}  # (component, name, version)
        self.wrong_hashes: set[tuple[str, str]] = set()

    def add(
        self,
        package: str,
        version: str,
        *,
        architecture: str = "",
        component: str = "",
        source: str = "",
        essential: bool = False,
        files: Files | None = None,
        scripts: Files | None = None,
        **relations: str,
    ) -> Package:
        """One more version; older ones stay, as in NVIDIA's repositories. architecture: that of the index, or `all`.

        scripts: its maintainer scripts, and what else lies beside the control paragraph (see `stub`).
        """
        component = component or (self.components[0] if self.components else "")
        if self.components and component not in self.components:
            raise ValueError(
                f"{package}: {self.path} has no component {component}; it has {', '.join(self.components)}"
            )
        architecture = architecture or self.architecture
        control = control_paragraph(package, version, architecture, source, essential, **relations)
        deb = stub(control, tuple(sorted((files or {}).items())), tuple(sorted((scripts or {}).items())))
        added = Package(package, version, architecture, control, deb)
        self.packages[component, package, version] = added
        return added

    def drop(self, package: str, version: str) -> None:
        """A version that vanishes with the next publication."""
        found = [key for key in self.packages if key[1:] == (package, version)]
        if not found:
            raise KeyError(
                f"{self.path} has no {package}={version}; it has {', '.join(self.versions(package)) or 'none'}"
            )
        for key in found:
            del self.packages[key]

    def wrong_hash(self, package: str, version: str) -> None:
        """From the next publication on the index promises another file than the one that is served."""
        if version not in self.versions(package):
            raise KeyError(f"{self.path} has no {package}={version}")
        self.wrong_hashes.add((package, version))

    def versions(self, package: str) -> list[str]:
        """The versions of a package, in the order they were added."""
        return [version for _, name, version in self.packages if name == package]

    def source_line(self, signed_by: Path | None = None) -> str:
        """What sources.list says to use it."""
        keyring = signed_by or self.repository.keyring
        where = f"{self.repository.url}/{self.path}/ /" if not self.components else f"{self.repository.url} {self.path}"
        return " ".join([f"deb [signed-by={keyring}] {where}", *self.components])

    def files(self, date: str) -> dict[str, bytes]:
        """Everything it publishes, by path below the root of the repository; Release is still unsigned."""
        published: dict[str, bytes] = {}
        hashed: dict[str, bytes] = {}
        for component in self.components or ("",):
            stanzas = []
            for (where, _, _), package in self.packages.items():
                if where != component:
                    continue
                file_name = f"pool/{component}/{package.file_name}" if component else f"./{package.file_name}"
                published[file_name if component else f"{self.path}/{package.file_name}"] = package.deb
                stanzas.append(self._stanza(package, file_name))
            inside = f"{component}/binary-{self.architecture}/Packages" if component else "Packages"
            packages = "\n".join(stanzas).encode()
            hashed[inside], hashed[f"{inside}.gz"] = packages, gzip.compress(packages, compresslevel=1, mtime=0)
        folder = f"dists/{self.path}" if self.components else self.path
        published.update({f"{folder}/{name}": content for name, content in hashed.items()})
        published[f"{folder}/Release"] = self._release(hashed, date).encode()
        return published

    def _stanza(self, package: Package, file_name: str) -> str:
        content = package.deb
        if (package.name, package.version) in self.wrong_hashes:
            content = content[:-1] + bytes([content[-1] ^ 1])  # the size stays: only the hash can tell
        lines = [package.control, f"Filename: {file_name}", f"Size: {len(package.deb)}"]
        lines += [f"{field}: {hashlib.new(name, content).hexdigest()}" for field, name in DIGESTS.items()]
        return "\n".join(lines) + "\n"

    def _release(self, hashed: dict[str, bytes], date: str) -> str:
        lines = [f"{field}: {value}" for field, value in self.release.items()]
        lines.append(f"Date: {date}")
        for field, name in DIGESTS.items():
            lines.append(f"{'MD5Sum' if field == 'MD5sum' else field}:")
            lines += [
                f" {hashlib.new(name, content).hexdigest()} {len(content)} {path}" for path, content in hashed.items()
            ]
        return "\n".join(lines) + "\n"


class SimulatedRepository:
    """Repositories below one address, with one key. Nothing shows before `publish`; `asked` lists what was fetched.

    address: that of this machine at which it listens; others than this machine reach it at theirs only.
    """

    def __init__(self, directory: Path, key: SigningKey | None = None, address: str = "127.0.0.1") -> None:
        self.directory = directory
        self.root = directory / "www"
        self.root.mkdir(parents=True)
        self._owns_key = key is None
        self.key = key or SigningKey()
        self.fingerprint = self.key.fingerprint
        self.keyring = directory / "keyring.gpg"
        self.keyring.write_bytes(self.key.public)
        self.key_armored = directory / "key.asc"
        self.key_armored.write_text(self.key.public_armored, encoding="ascii")
        self.indexes: list[SimulatedIndex] = []
        self.asked: list[str] = []
        self.published = 0
        self._server = http.server.ThreadingHTTPServer((address, 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://{address}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def flat(self, path: str, release: dict[str, str], architecture: str) -> SimulatedIndex:
        """A flat repository, as NVIDIA's: `deb URL/path/ /`."""
        return self._with(SimulatedIndex(self, path.strip("/"), release, architecture))

    def suite(
        self, name: str, release: dict[str, str], architecture: str, components: tuple[str, ...] = ("main",)
    ) -> SimulatedIndex:
        """A suite with a pool: `deb URL name component...`."""
        fields = {"Suite": name, "Codename": name, "Architectures": architecture, "Components": " ".join(components)}
        return self._with(SimulatedIndex(self, name, {**fields, **release}, architecture, components))

    def publish(self, signature: Signature = "good") -> None:
        """Makes the state of all indexes visible, files that vanished included.

        signature: `stranger`, by a key that nobody knows; `tampered`, changed after signing; `missing`, none at all.
        """
        # Each publication is later than the one before, as in an archive that goes forward.
        date = formatdate(FIRST_DAY + self.published, usegmt=True)
        self.published += 1
        wanted: dict[Path, bytes] = {}
        signing = SigningKey("simulated stranger") if signature == "stranger" else self.key
        for index in self.indexes:
            files = index.files(date)
            release = next(path for path in files if path.endswith("/Release"))
            if signature != "missing":
                files.update(_signed(release, files[release].decode(), signing, signature == "tampered"))
            for path, content in files.items():
                if wanted.setdefault(self.root / path, content) != content:
                    raise ValueError(f"{path}: two suites of one pool mean different files by it")
        if signing is not self.key:
            signing.close()
        for old in [path for path in self.root.rglob("*") if path.is_file() and path not in wanted]:
            old.unlink()
        for place, content in wanted.items():
            if place.suffix != ".deb" or not place.is_file() or place.read_bytes() != content:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self._owns_key:
            self.key.close()

    def __enter__(self) -> SimulatedRepository:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _with(self, index: SimulatedIndex) -> SimulatedIndex:
        self.indexes.append(index)
        return index

    def _handler(self) -> type[http.server.SimpleHTTPRequestHandler]:
        repository = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(repository.root))

            def send_head(self) -> Any:
                repository.asked.append(self.path)
                # Times of files are whole seconds: of two publications within one, the second would look unchanged.
                del self.headers["If-Modified-Since"]
                return super().send_head()

            def log_message(self, *_arguments: object) -> None:
                pass

        return Handler


def _signed(release: str, text: str, key: SigningKey, tampered: bool) -> dict[str, bytes]:
    """InRelease and Release.gpg; tampered: the text was changed after it had been signed."""
    clear, detached = key.clear_signed(text), key.detached(text)
    found = {release.replace("/Release", "/InRelease"): clear.encode(), f"{release}.gpg": detached.encode()}
    if tampered:
        found[release.replace("/Release", "/InRelease")] = clear.replace("Date: ", "Date:  ", 1).encode()
        found[release] = text.replace("Date: ", "Date:  ", 1).encode()
    return found
