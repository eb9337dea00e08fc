"""A build that fails names the piece that is wrong; what is there is not built twice."""

from __future__ import annotations

import argparse
import hashlib
import json
import tarfile

import pytest

from tests.unit.roles.verify.scripts import script

builder = script("build_nccl_tests")
FACTS = {
    "compiler": "12.2.0", "cuda": {"home": "/usr", "version": "12.4"},
    "mpi": {"include": "/i", "lib": "/l", "version": "4.1.4"},
    "nccl": {"header": "/n/nccl.h", "library": "/n/libnccl.so.2", "version": "2.22.3"}, "architectures": ["90"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "piece"),
    [
        ("crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later", "compiler"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'", "cuda"),
        ("/usr/bin/ld: cannot find -lcudart: No such file or directory", "cuda"),
        ("common.h:10:10: fatal error: nccl.h: No such file or directory", "nccl"),
        ("/usr/bin/ld: cannot find -lnccl: No such file or directory", "nccl"),
        ("common.cu(1): error: identifier \"ncclCommWindowRegister\" is undefined", "nccl"),
        ("common.h:12:10: fatal error: mpi.h: No such file or directory", "mpi"),
        ("/usr/bin/ld: common.o: undefined reference to `MPI_Allgather'", "mpi"),
        ("common.h:10:10: fatal error: cuda_runtime.h: No such file or directory", "cuda"),
    ],
)  # fmt: skip
def test_what_a_compiler_says_names_the_piece(line, piece):
    assert next(name for name, pattern in builder.SAID if builder.re.search(pattern, line)) == piece


def archive(tmp_path, name):
    path = tmp_path / "a.tar.gz"
    (tmp_path / "text").write_text("x")
    with tarfile.open(path, "w:gz") as stream:
        stream.add(tmp_path / "text", name)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def options(tmp_path, name="nccl-tests-2/src/all_reduce.cu", **changes):
    path, digest = archive(tmp_path, name)
    values = {
        "archive": path, "sha256": digest, "tag": "v2", "into": tmp_path / "into", "nccl": "system",
        "python": "python3", "cuda": "", "architectures": "90", "programs": "all_reduce", "seconds": 60.0,
    }  # fmt: skip
    return argparse.Namespace(**{**values, **changes})


def test_only_the_locked_archive_is_taken(tmp_path):
    with pytest.raises(builder.Wrong, match="the lock says 00") as caught:
        builder.unpack(options(tmp_path, sha256="00"), tmp_path / "out")
    assert caught.value.piece == "archive"


def test_another_archive_is_told(tmp_path):
    with pytest.raises(builder.Wrong, match="is not nccl-tests"):
        builder.unpack(options(tmp_path, "other/README"), tmp_path / "out")


def test_a_missing_toolkit_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(builder, "find_compiler", lambda: "12.2.0")
    with pytest.raises(builder.Wrong, match="no nvcc in") as caught:
        builder.build(options(tmp_path, cuda=str(tmp_path)))
    assert caught.value.piece == "cuda"


def test_it_is_built_once_and_the_place_of_nccl_does_not_matter(tmp_path, monkeypatch):
    calls = []

    def compile_into(target, source, work, facts, given):
        calls.append(source.name)
        target.mkdir()
        (target / "all_reduce_perf").write_text("program")

    monkeypatch.setattr(builder, "compile_into", compile_into)
    for name in ("compiler", "cuda", "nccl", "mpi"):
        monkeypatch.setattr(builder, f"find_{name}", lambda *_ignored, name=name: FACTS[name])
    given = options(tmp_path)
    first, second = builder.build(given), builder.build(given)
    assert calls == ["nccl-tests-2"] and first["built"] and not second["built"] and first["path"] == second["path"]
    assert (
        json.loads((tmp_path / "into" / first["path"].rpartition("/")[2] / "manifest.json").read_text())["tag"] == "v2"
    )
    monkeypatch.setattr(builder, "find_nccl", lambda _options: {**FACTS["nccl"], "library": "/elsewhere/libnccl.so.2"})
    assert builder.build(given)["path"] == first["path"]
    monkeypatch.setattr(builder, "find_nccl", lambda _options: {**FACTS["nccl"], "version": "2.30.7"})
    assert builder.build(given)["path"] != first["path"]
    assert [path for path in (tmp_path / "into").iterdir() if path.name.startswith(".")] == [], (
        "no work directory stays"
    )
