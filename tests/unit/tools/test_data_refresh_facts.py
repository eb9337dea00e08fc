"""tools/refresh/torch_facts.py: what file names and METADATA say."""

from __future__ import annotations

import pytest

from tools.refresh import torch_facts
from tools.refresh.index import File

NAMES = {"nccl": ["nvidia-nccl-cu12"], "cuda_runtime": ["nvidia-cuda-runtime-cu12"], "triton": ["triton"]}
ROW = {
    "requires_python": ">=3.9.0",
    "python": {"x86_64": ["3.9", "3.10"], "aarch64": ["3.9", "3.10"]},
    "default": {"variant": "cu126", "nccl": "2.26.2", "cuda_runtime": "12.6.77", "triton": "==3.3.1"},
}


def file(name, **more):
    base = File(name, f"/files/{name}", "simulated place", None, None, False, False, None)
    return base._replace(**more)


def linux(version, tag, machine="x86_64", **more):
    return file(f"torch-{version}-{tag}-manylinux_2_28_{machine}.whl", **more)


def metadata(*lines, version="2.7.1", floor=">=3.9.0"):
    return "\n".join(
        ["Metadata-Version: 2.1", "Name: torch", f"Version: {version}", f"Requires-Python: {floor}", *lines]
    )


def test_wheels_of_other_systems_and_candidates_do_not_count():
    files = [
        linux("2.7.1", "cp310-cp310"),
        linux("2.7.1+cu118", "cp310-cp310"),
        linux("2.8.0rc1", "cp310-cp310"),
        file("torch-2.7.1-cp310-cp310-win_amd64.whl"),
        file("torch-2.7.1-cp310-none-macosx_11_0_arm64.whl"),
        file("torch-2.7.1.tar.gz"),
        linux("2.7.1", "cp310-cp310", url="/second/place"),
    ]
    assert torch_facts.wheels(files) == {("2.7.1", ""): [files[0]], ("2.7.1", "cu118"): [files[1]]}


def test_pythons_by_machine_without_free_threaded_builds():
    files = [
        linux("2.7.1", "cp39-cp39"),
        linux("2.7.1", "cp310-cp310"),
        linux("2.7.1", "cp313-cp313t"),
        linux("2.7.1", "cp310-cp310", "aarch64"),
    ]
    assert torch_facts.pythons(files, "x86_64", files) == ["3.9", "3.10"]
    assert torch_facts.pythons(files, "aarch64", files) == ["3.10"]


def test_the_wheel_to_read_is_the_one_installers_choose():
    old, new = linux("2.10.0", "cp310-cp310"), linux("2.10.0", "3-cp310-cp310")
    later = linux("2.10.0", "3-cp311-cp311")
    assert torch_facts.to_read([old, later, new, linux("2.10.0", "cp39-cp39", "aarch64")]) == new
    assert torch_facts.to_read([linux("2.10.0", "cp39-cp39", "aarch64")]) is None


def test_metadata_in_both_spellings_for_this_machine_only():
    text = metadata(
        'Requires-Dist: nvidia-nccl-cu12 (==2.26.2) ; platform_system == "Linux" and platform_machine == "x86_64"',
        'Requires-Dist: Nvidia_CUDA-runtime.cu12==12.6.77; platform_system == "Linux"',
        'Requires-Dist: triton==9.9; platform_machine == "aarch64"',
        'Requires-Dist: triton ~= 3.3.0; python_version < "3.13"',
        'Requires-Dist: triton==9.8; python_version >= "3.13"',
        'Requires-Dist: nvidia-nccl-cu12==1.0; extra == "other"',
    )
    build = torch_facts.build(linux("2.7.1", "cp39-cp39"), text, NAMES)
    assert build.pins == {"nccl": "2.26.2", "cuda_runtime": "12.6.77", "triton": "~=3.3.0"}
    assert build.variant == "cu126"


@pytest.mark.parametrize("text", ["", "<html>not found</html>", metadata(version="2.7.0")])
def test_text_that_is_not_this_wheels_metadata(text):
    with pytest.raises(ValueError, match=r"torch-2\.7\.1-cp39"):
        torch_facts.build(linux("2.7.1", "cp39-cp39"), text, NAMES)


def found(*lines, floor=">=3.9.0", **more):
    files = [linux("2.7.1", f"{tag}-{tag}", m, **more) for tag in ("cp39", "cp310") for m in ("x86_64", "aarch64")]
    build = torch_facts.build(files[0], metadata(*lines, floor=floor), NAMES)
    findings = torch_facts.of_release("2.7.1", ROW, files, build, files)
    return {".".join(one.path[2:]): (one.new, one.writable) for one in findings}


RIGHT = [
    "Requires-Dist: nvidia-nccl-cu12==2.26.2",
    "Requires-Dist: nvidia-cuda-runtime-cu12==12.6.77",
    "Requires-Dist: triton==3.3.1",
]


def test_findings_of_a_release():
    assert found(*RIGHT) == {}
    assert found(*RIGHT, floor=">= 3.9.1") == {"requires_python": (">=3.9.1", True)}
    assert found(*RIGHT[1:], "Requires-Dist: nvidia-nccl-cu12==2.26.3") == {"default.nccl": ("2.26.3", True)}
    assert found(*RIGHT[1:], "Requires-Dist: nvidia-nccl-cu12>=2.26") == {"default.nccl": (">=2.26", False)}
    assert found(*RIGHT[1:]) == {"default.nccl": ("not asked for", False)}
    assert found(*RIGHT, yanked=True) == {"": ("yanked", False)}


def test_new_releases_are_younger_than_the_oldest_known():
    offered = torch_facts.wheels(
        [linux(version, "cp310-cp310") for version in ("1.13.1", "2.1.0", "2.1.3", "2.10.0", "2.9.0")]
        + [linux("2.11.0", "cp310-cp310", yanked=True), linux("2.12.0+cu126", "cp310-cp310")]
    )
    assert torch_facts.new_releases(["2.1.0", "2.9.0"], offered) == ["2.1.3", "2.10.0"]
    assert torch_facts.new_releases(["2.1.0", "2.1.3", "2.9.0", "2.10.0"], offered) == []


def test_a_line_is_compared_with_its_newest_release():
    reads = {
        ("2.7.1", ""): torch_facts.Build("newer", ">=3.9", {"nccl": "2", "cuda_runtime": "12.6.77"}),
        ("2.7.0", ""): torch_facts.Build("older", ">=3.9", {"nccl": "1", "cuda_runtime": "12.6.77"}),
        ("2.7.0", "cu118"): torch_facts.Build("labelled", ">=3.9", {"nccl": "0"}),
    }
    newest = torch_facts.newest_builds(reads)
    assert {key: build.file for key, build in newest.items()} == {
        ("2.7", "cu126"): "newer",
        ("2.7", "cu118"): "labelled",
    }
    line = {"cu126": {"nccl": "1", "cudnn": "9"}}
    assert [(f.path, f.new) for f in torch_facts.of_line("2.7", line, "cu126", newest["2.7", "cu126"])] == [
        (("lines", "2.7", "cu126", "nccl"), "2")
    ]
