"""Configuration that changes what a job sees: module options, NCCL's files, where paths are set, compilers."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, raw
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.schema import (
    LibraryPath,
    ModprobeDirective,
    SharedLibrary,
    Variable,
)

LOGIN = "login: env"
LDCONFIG = "ldconfig -p"
_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]{0,127})=(.*)$")
_LIBRARY = re.compile(r"\s*(\S{1,200}) \(([^)]{0,200})\) => (\S{1,1000})$")
# The release stands behind the bracket that names the build: `gcc (Debian 12.2.0-14) 12.2.0`.
_BRACKET = re.compile(r"\([^()]{0,200}\)")
_RELEASE = re.compile(r"\b([0-9]{1,3}\.[0-9]{1,3}(?:\.[0-9]{1,4})?)\b")


def modprobe(reading: Reading) -> Facts:
    """Files of modprobe.d and modules-load.d, and their directives."""
    files = _files(reading)
    directives: list[ModprobeDirective] = []
    for file, text in files.items():
        loads = "/modules-load.d/" in file or file == "/etc/modules"
        # A backslash at the end of a line continues it.
        for line in re.sub(r"\\\n", " ", text).split("\n"):
            words = line.split()
            if not words or words[0][0] in "#;":
                continue
            if loads:
                words = ["load", *words]
            if len(words) < 2:
                reading.note(f"{file}: cannot be read: {line.strip()[:120]}")
                continue
            directives.append(
                {
                    "file": file,
                    "directive": words[0],
                    # modprobe takes `-` and `_` for the same; /proc/modules prints `_`.
                    "module": words[1].replace("-", "_"),
                    "arguments": " ".join(words[2:]),
                    "raw": raw(line),
                }
            )
    return {"configuration.modprobe": files, "configuration.modprobe_directives": directives}


def nccl_conf(reading: Reading) -> Facts:
    """NCCL's own files, read as NCCL reads them: everything behind the first `=` is the value, quotes and all."""
    found: dict[str, dict[str, str]] = {}
    for file, text in _files(reading).items():
        values: dict[str, str] = {}
        for line in text.split("\n"):
            name, sign, value = line.partition("=")
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if not sign or not re.match(r"[A-Za-z_][A-Za-z0-9_]{0,127}$", name):
                # Blanks and `export` become part of the name, so NCCL sets something nobody reads.
                reading.note(f"{file}: NCCL sets nothing by this line: {line[:120]}")
                continue
            values[name] = value
        found[file] = values
    return {"configuration.nccl_conf": found}


def env_paths(reading: Reading) -> Facts:
    """Where variables and library paths are set, and which libraries the loader finds."""
    files = _files(reading)
    variables: list[Variable] = []
    paths: list[LibraryPath] = []
    libraries: list[SharedLibrary] = []
    for name, text in files.items():
        for line in text.split("\n"):
            plain = line.strip()
            if not plain or plain.startswith("#"):
                continue
            assignment = _ASSIGNMENT.match(line)
            library = _LIBRARY.match(line) if name == LDCONFIG else None
            if library:
                libraries.append({"name": library[1], "flags": library[2], "path": library[3], "raw": raw(line)})
            elif "/ld.so.conf" in name and plain.startswith("/"):
                paths.append({"file": name, "path": plain, "raw": raw(line)})
            elif name != LDCONFIG and assignment:
                value = assignment[2].strip() if name == LOGIN else _unquoted(assignment[2])
                variables.append({"file": name, "name": assignment[1], "value": value, "raw": raw(line)})
    return {
        "configuration.environment": files,
        "configuration.variables": variables,
        "configuration.library_paths": paths if any("/ld.so.conf" in name for name in files) else None,
        "configuration.libraries": libraries if LDCONFIG in files else None,
    }


def _unquoted(value: str) -> str:
    """A shell's value: quotes off, a comment behind it off."""
    value = value.strip()
    quoted = re.match(r"""(["'])(.*?)\1(?:;|\s|$)""", value)
    if quoted:
        return quoted[2]
    return re.split(r"\s#|;", value, maxsplit=1)[0].strip()


def compilers(reading: Reading) -> Facts:
    """Releases of gcc and nvcc, and of the compiler that built the running kernel."""
    nvcc = re.search(r"release [0-9.]{1,12}, V([0-9.]{3,20})", reading.section("nvcc --version") or "")
    kernel = re.split(r"gcc|clang", _first_line(reading, "/proc/version"), maxsplit=1)
    found = {
        "gcc --version": _release(_first_line(reading, "gcc --version")),
        "nvcc --version": nvcc[1] if nvcc else None,
        "/proc/version": _release(kernel[1]) if len(kernel) > 1 else None,
    }
    for name, release in found.items():
        if release is None and (reading.section(name) or "").strip():
            reading.note(f"{name} names no release")
    gcc, nvcc_release, kernel_release = found.values()
    return {"configuration.compilers": {"gcc": gcc, "nvcc": nvcc_release, "kernel": kernel_release}}


def _first_line(reading: Reading, name: str) -> str:
    return next((line for line in (reading.section(name) or "").split("\n") if line.strip()), "")


def _release(line: str) -> str | None:
    found = _RELEASE.search(_BRACKET.sub(" ", line)) or _RELEASE.search(line)
    return found[1] if found else None


def _files(reading: Reading) -> dict[str, str]:
    if not reading.sections and reading.text.strip():
        reading.unreadable("no section header (==> NAME <==)")
    return {name: section.text for name, section in reading.sections.items() if not section.rc}
