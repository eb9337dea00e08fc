"""Build nccl-tests with MPI against the NCCL that a job loads, once for each set of inputs; say what is wrong if not.

    python build_nccl_tests.py --archive nccl-tests.tar.gz --sha256 ... --into /opt/trainrig/nccl-tests \\
        --python /opt/trainrig/env/bin/python

The result lies in a directory named by a hash of all that it depends on: the archive, CUDA, NCCL, MPI and the GPUs'
architectures. What is there already is not built again. One line of JSON says where it is, which libraries it loads, or
which of the pieces (archive, compiler, cuda, nccl, mpi) is wrong and what was said about it. Standard library only.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import bounded

PROGRAMS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall")
#: What a compiler or linker says, and which piece that is. The first that fits counts.
SAID = (
    ("compiler", r"unsupported GNU version|host compiler|g\+\+: (?:not found|No such file)|cc1plus"),
    ("cuda", r"Unsupported gpu architecture|cannot find -lcudart|cuda_runtime\.h: No such|nvcc fatal|nvcc: not found"),
    ("nccl", r"\bnccl\.h: No such|cannot find -lnccl\b|undefined reference to [`']nccl"),
    ("nccl", r"\bnccl[A-Z]\w+\W+(?:is undefined|was not declared)"),
    ("mpi", r"\bmpi\.h: No such|cannot find -lmpi|undefined reference to [`'](?:MPI_|ompi_)"),
)
KEPT_LINES = 30


class Wrong(Exception):
    """A piece that is wrong: its name, and what is known about it."""

    def __init__(self, piece: str, text: str, lines: list[str] | None = None) -> None:
        super().__init__(text)
        self.piece, self.text, self.lines = piece, text, lines or []


def output(*words: str) -> str:
    """What a command prints; empty where it cannot be run or fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def find_cuda(options: argparse.Namespace) -> dict[str, str]:
    places = [options.cuda] if options.cuda else [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    nvcc = next((f"{place}/bin/nvcc" for place in places if place and os.access(f"{place}/bin/nvcc", os.X_OK)), None)
    nvcc = nvcc or (None if options.cuda else shutil.which("nvcc"))
    if nvcc is None:
        looked = ", ".join(filter(None, [*places, "PATH"]))
        raise Wrong("cuda", f"no nvcc in {looked}: install the CUDA toolkit (layer cuda)")
    release = re.search(r"release (\S+),", output(nvcc, "--version"))
    if release is None:
        raise Wrong("cuda", f"{nvcc} does not say its version")
    return {"home": str(Path(nvcc).parent.parent), "version": release[1]}


def find_compiler() -> str:
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    version = output(compiler, "-dumpfullversion") if compiler else ""
    if not version or shutil.which("make") is None:
        raise Wrong("compiler", "g++ or make is not there: install them (Debian and Ubuntu: g++, make)")
    return version.strip()


def nccl_version(header: Path) -> str | None:
    text = header.read_text(encoding="utf-8", errors="replace")
    numbers = [re.search(rf"#define NCCL_{name} (\d+)", text) for name in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(number[1] for number in numbers if number) or None


def find_nccl(options: argparse.Namespace) -> dict[str, str]:
    """Header and library: of the environment, whose library the job loads, or of the system."""
    if options.nccl == "environment":
        code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
        packages = output(options.python, "-c", code).strip()
        home = Path(packages) / "nvidia" / "nccl"
        found = [(home / "include" / "nccl.h", sorted((home / "lib").glob("libnccl.so*")))]
        where = f"{home} of {options.python}"
    else:
        listed = re.findall(r"libnccl\.so\S* \(.*\) => (\S+)", output("/sbin/ldconfig", "-p"))
        libraries = [Path(path) for path in listed]
        found = [(Path(folder) / "nccl.h", libraries) for folder in ("/usr/include", "/usr/local/include")]
        where = "the system"
    for header, libraries in found:
        if header.exists() and libraries:
            version = nccl_version(header)
            if version is None:
                raise Wrong("nccl", f"{header} names no version")
            return {"header": str(header), "library": str(libraries[0]), "version": version}
    raise Wrong("nccl", f"no nccl.h with its libnccl in {where}")


def find_mpi() -> dict[str, str]:
    folders = {kind: output("mpicc", f"--showme:{kind}dirs").split() for kind in ("inc", "lib")}
    version = re.search(r"(\d+\.\d+\.\d+)", output("mpirun", "--version"))
    header = next((folder for folder in folders["inc"] if (Path(folder) / "mpi.h").exists()), None)
    library = next((folder for folder in folders["lib"] if (Path(folder) / "libmpi.so").exists()), None)
    if not (header and library and version):
        raise Wrong("mpi", "no OpenMPI to compile with (mpicc, mpi.h, libmpi.so): Debian and Ubuntu: libopenmpi-dev")
    return {"include": header, "lib": library, "version": version[1]}


def architectures(options: argparse.Namespace) -> list[str]:
    if options.architectures:
        return sorted(set(options.architectures.split(",")))
    said = output("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader").split()
    found = sorted({text.replace(".", "") for text in said if re.fullmatch(r"\d+\.\d+", text)})
    if not found:
        raise Wrong("cuda", "no GPU says its compute capability: name one (verify_nccl_tests_architectures)")
    return found


def unpack(options: argparse.Namespace, into: Path) -> Path:
    """The source's own directory. The archive must be the one of the lock."""
    digest = hashlib.sha256(options.archive.read_bytes()).hexdigest()
    if digest != options.sha256:
        raise Wrong("archive", f"{options.archive}: SHA-256 is {digest}, the lock says {options.sha256}")
    try:
        with tarfile.open(options.archive) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(into, filter="data")
            else:
                names = [one for one in archive.getmembers() if one.isfile() or one.isdir()]
                inside = [one for one in names if ".." not in Path(one.name).parts and one.name[0] != "/"]
                archive.extractall(into, inside)
    except (tarfile.TarError, OSError) as error:
        raise Wrong("archive", f"{options.archive}: cannot be unpacked: {error}") from error
    found = sorted(path.parent.parent for path in into.glob("**/src/all_reduce.cu"))
    if not found:
        raise Wrong("archive", f"{options.archive}: there is no src/all_reduce.cu in it: that is not nccl-tests")
    return found[0]


def stage(work: Path, nccl: dict[str, str], mpi: dict[str, str]) -> tuple[Path, Path]:
    """Directories as the Makefile wants them: include/ and lib/ with names that a linker looks for."""
    nccl_home, mpi_home = work / "nccl", work / "mpi"
    (nccl_home / "lib").mkdir(parents=True)
    (nccl_home / "include").symlink_to(Path(nccl["header"]).parent)
    (nccl_home / "lib" / "libnccl.so").symlink_to(nccl["library"])
    mpi_home.mkdir()
    (mpi_home / "include").symlink_to(mpi["include"])
    (mpi_home / "lib").symlink_to(mpi["lib"])
    return nccl_home, mpi_home


def compile_into(target: Path, source: Path, work: Path, facts: dict[str, Any], options: argparse.Namespace) -> None:
    nccl_home, mpi_home = stage(work, facts["nccl"], facts["mpi"])
    gencode = " ".join(f"-gencode=arch=compute_{one},code=sm_{one}" for one in facts["architectures"])
    words = ["make", "-C", str(source / "src"), f"-j{os.cpu_count() or 1}", "build", f"BUILDDIR={work / 'build'}"]
    words += ["MPI=1", f"MPI_HOME={mpi_home}", f"CUDA_HOME={facts['cuda']['home']}", f"NCCL_HOME={nccl_home}"]
    words += [f"NVCC_GENCODE={gencode}", f"BIN_FILES_LIST={' '.join(facts['programs'])}"]
    log = work / "make.log"
    outcome = bounded.run(words, options.seconds, log)
    if outcome.timed_out:
        raise Wrong("compiler", f"not built within {options.seconds:.0f} s", outcome.tail[-KEPT_LINES:])
    if outcome.rc:
        text = log.read_text(encoding="utf-8", errors="replace")
        piece = next((name for name, pattern in SAID if re.search(pattern, text)), "compiler")
        lines = [line for line in text.splitlines() if re.search(r"(?i)error|fatal|cannot find|undefined", line)]
        raise Wrong(piece, f"make ended with exit status {outcome.rc}", (lines or outcome.tail)[:KEPT_LINES])
    target.mkdir()
    for name in facts["programs"]:
        shutil.copy2(work / "build" / f"{name}_perf", target)


def key_of(facts: dict[str, Any]) -> str:
    """What the programs depend on: versions, not the places that they were found in."""
    versions = {name: one["version"] if isinstance(one, dict) else one for name, one in facts.items()}
    return hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()[:16]


def build(options: argparse.Namespace) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "schema": 1,
        "tag": options.tag,
        "sha256": options.sha256,
        "compiler": find_compiler(),
        "cuda": find_cuda(options),
        "nccl": find_nccl(options),
        "mpi": find_mpi(),
        "architectures": architectures(options),
        "programs": sorted(options.programs.split(",")),
    }
    target = options.into / key_of(facts)
    libraries = f"{Path(facts['nccl']['library']).parent}:{facts['cuda']['home']}/lib64"
    told = {"path": str(target), "libraries": libraries, "inputs": facts, "error": None}
    if (target / "manifest.json").exists():
        return {**told, "built": False}
    options.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=options.into) as directory:
        work = Path(directory)
        compile_into(work / "done", unpack(options, work / "source"), work, facts, options)
        (work / "done" / "manifest.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
        (work / "done").chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        (work / "done").rename(target)
    return {**told, "built": True}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--archive", type=Path, required=True, help="source archive of nccl-tests")
    parser.add_argument("--sha256", required=True, help="what the lock says of it")
    parser.add_argument("--tag", default="", help="its tag, for the record")
    parser.add_argument("--into", type=Path, required=True, help="directory of all builds")
    parser.add_argument("--nccl", choices=["environment", "system"], default="environment")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment whose NCCL is meant")
    parser.add_argument("--cuda", default="", help="home of the CUDA toolkit; default: it is looked for")
    parser.add_argument("--architectures", default="", help="as 90,100; default: those of the GPUs here")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="collectives whose programs are wanted")
    parser.add_argument("--seconds", type=float, default=1800.0, help="time budget")
    options = parser.parse_args()
    bounded.stop_on_signals()
    try:
        told = build(options)
    except Wrong as wrong:
        told = {"path": None, "error": {"piece": wrong.piece, "text": wrong.text, "lines": wrong.lines}, "built": False}
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
