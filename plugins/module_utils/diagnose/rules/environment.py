"""Rules about a Python environment: its torch against GPUs, driver and declaration, and what must not be mixed."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Dict, Iterator, List

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose import hardware, wheels
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import library
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import (
    at_least,
    cuda_of_variant,
    local_part,
    numbers,
    public_part,
    upstream,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.wishes import cuda_build

_FAMILY = re.compile(r"nvidia-.+-cu(11|12|13)$")


def _torch_version(host: Host) -> str:
    return str(host.torch.get("version") or host.python_packages.get("torch") or "")


def _ours(host: Host) -> bool:
    """An environment that trainrig made is repaired by its layer; somebody else's must not be started."""
    layers = host.get("manifest", "layers")
    return isinstance(layers, dict) and "pytorch" in layers


@host_rule("python.two_cuda_majors")
def two_cuda_majors(host: Host) -> Iterator[Hit]:
    found: Dict[str, List[str]] = {}
    for name in host.python_packages:
        match = _FAMILY.match(name)
        if match:
            found.setdefault(match.group(1), []).append(name)
    if len(found) < 2:
        return
    shown = [
        evidence("python_env", f"{name} {host.python_packages[name]}") for names in found.values() for name in names[:3]
    ]
    text = " and ".join(f"cu{major}" for major in sorted(found))
    yield Hit(
        f"one environment holds CUDA libraries of {text}", shown, severity="fail" if _ours(host) else None, majors=text
    )


@host_rule("python.torch_differs_from_stack")
def torch_differs_from_stack(host: Host) -> Iterator[Hit]:
    """Version and local version: 2.6.0+cpu satisfies ==2.6.0 and is something else."""
    have = _torch_version(host)
    if not have:
        return
    shown = [evidence("python_env", f"torch {have}, torch.version.cuda {host.torch.get('cuda')}")]
    want = host.wants.pytorch
    if want and numbers(want) and numbers(public_part(have))[: len(numbers(want))] != numbers(want):
        yield Hit(f"torch {have} is installed, declared is {want}", shown, want=want)
        return
    variant = host.wants.variant
    if not variant and host.wants.accelerator == "nvidia" and "torch" in host.python_packages:
        variant = "a CUDA build"
    built = local_part(have)
    cuda = host.torch.get("cuda")
    is_cpu = built == "cpu" or ("cuda" in host.torch and cuda is None and not host.torch.get("error") and built is None)
    if variant == "a CUDA build":
        if is_cpu:
            yield Hit(
                f"torch {have} is a CPU build, the stack asks for NVIDIA GPUs",
                shown,
                want=f"{public_part(have)} with CUDA",
            )
    elif variant == "cpu":
        if built and built != "cpu":
            yield Hit(f"torch {have} is installed, declared is the cpu build", shown, want=f"{public_part(have)}+cpu")
    elif cuda_build(variant):
        wanted = cuda_of_variant(variant)
        if (
            is_cpu
            or (built and built != variant)
            or (not built and cuda and wanted != ".".join(str(cuda).split(".")[:2]))
        ):
            yield Hit(
                f"torch {have} is installed, declared is the {variant} build",
                shown,
                want=f"{public_part(have)}+{variant}",
            )


@host_rule("python.cpu_build_on_gpus")
def cpu_build_on_gpus(host: Host) -> Iterator[Hit]:
    """Without a declaration a CPU build beside working GPUs is only worth a warning."""
    have = _torch_version(host)
    if local_part(have) == "cpu" and host.driver_loaded and host.gpus and not host.wants.declared:
        yield Hit(
            f"torch {have} is a CPU build, {len(host.gpus)} GPUs are there",
            [evidence("python_env", f"torch {have}")],
            have=public_part(have),
        )


@host_rule("python.no_kernels_for_gpu")
def no_kernels_for_gpu(host: Host) -> Iterator[Hit]:
    archs = [str(arch) for arch in host.torch.get("archs") or []]
    seen = set()
    for device in hardware.gpu_devices(host):
        capability = hardware.compute_capability(host, device)
        if not capability or not archs or capability in seen:
            continue
        seen.add(capability)
        if wheels.runs_on(archs, capability) is False:
            shown = [
                evidence("python_env", f"torch {_torch_version(host)} archs: {' '.join(archs)}"),
                evidence("lspci", device.get("raw")),
            ]
            label = hardware.label(host, device)
            yield Hit(
                f"torch {_torch_version(host)} has no code for {label} (compute capability {capability})",
                shown,
                gpu=label,
                capability=capability,
            )


@host_rule("python.driver_too_old")
def driver_too_old(host: Host) -> Iterator[Hit]:
    """Any CUDA of a major runs on the major's floor; only below it nothing runs."""
    cuda = host.torch.get("cuda")
    driver = host.module_version or (library(host) or (None,))[0]
    if not cuda or not driver:
        return
    floor = host.fact("drivers", "cuda_floors", str(numbers(str(cuda))[0]) if numbers(str(cuda)) else "", "minimum")
    shown = [
        evidence("python_env", f"torch {_torch_version(host)} was built for CUDA {cuda}"),
        evidence("nvidia_version", f"driver {driver}"),
    ]
    if floor and at_least(driver, floor) is False:
        yield Hit(f"CUDA {cuda} needs driver {floor} or later, present is {driver}", shown, floor=floor, cuda=cuda)
        return
    offers = host.get("nvidia", "driver", "cuda")
    if (
        offers
        and numbers(str(cuda))
        and numbers(offers) < numbers(str(cuda))[:2]
        and numbers(offers)[0] == numbers(str(cuda))[0]
    ):
        yield Hit(
            f"torch was built for CUDA {cuda}, the driver offers {offers}: it runs, without compiling PTX",
            shown,
            severity="info",
            action="none",
            say="minor",
        )


@host_rule("python.cuda_unusable")
def cuda_unusable(host: Host) -> Iterator[Hit]:
    """torch has CUDA, the driver is loaded, the GPUs are there, and still nothing starts."""
    torch = host.torch
    if not torch.get("cuda") or torch.get("cuda_available") is not False or not host.driver_loaded or not host.gpus:
        return
    if all(gpu.get("lost") for gpu in host.gpus):
        return
    error = str(torch.get("error") or "torch.cuda.is_available() is False")
    kind = "compat" if re.search(r"\b804\b|forward compatibility", error) else None
    yield Hit(f"torch cannot use the GPUs: {error}", [evidence("python_env", error)], say=kind)


@host_rule("python.numpy_too_new")
def numpy_too_new(host: Host) -> Iterator[Hit]:
    have, numpy = _torch_version(host), host.python_packages.get("numpy")
    limit = host.fact("rules", "numpy_limit") or {}
    if (
        have
        and numpy
        and limit
        and at_least(public_part(have), limit["torch_below"]) is False
        and at_least(numpy, limit["numpy_below"])
    ):
        yield Hit(
            f"numpy {numpy} with torch {have}",
            [evidence("python_env", f"numpy {numpy}, torch {have}")],
            limit=limit["numpy_below"],
        )


@host_rule("python.nccl_version")
def nccl_version(host: Host) -> Iterator[Hit]:
    """What torch was built with, what is installed, what the system has."""
    have = _torch_version(host)
    packages = {
        name: version for name, version in host.python_packages.items() if re.fullmatch(r"nvidia-nccl-cu[0-9]+", name)
    }
    if not have or len(packages) != 1:
        return
    name, wheel = next(iter(packages.items()))
    variant = local_part(have) or (
        f"cu{str(host.torch['cuda']).replace('.', '')}"
        if host.torch.get("cuda")
        else wheels.default_variant(host, have)
    )
    pinned = wheels.pinned_nccl(host, public_part(have), variant)
    built = host.torch.get("nccl")
    needed = pinned or built
    if not needed or not numbers(wheel) or numbers(wheel)[:3] == numbers(str(needed))[:3]:
        return
    shown = [evidence("python_env", f"{name} {wheel}; torch {have} was built with NCCL {needed}")]
    system = [
        str(row.get("path"))
        for row in host.get("configuration", "libraries") or []
        if str(row.get("name")).startswith("libnccl.so")
    ]
    version = upstream(host.dpkg.get("libnccl2"))
    text = f"torch {have} needs NCCL {needed}, the environment holds {wheel}"
    if system or version:
        text += f", the system {version or system[0]}"
        shown.append(evidence("env_paths" if system else "dpkg", system[0] if system else f"libnccl2 {version}"))
    older = numbers(wheel) < numbers(str(needed))
    yield Hit(text, shown, severity=None if older else "warn", name=name, needed=needed)


@host_rule("python.extra_index")
def extra_index(host: Host) -> Iterator[Hit]:
    """pip takes the best version of all indexes; an extra one has no priority."""
    config = host.get("python_env", "pip_config") or {}
    found = {
        key: value
        for key, value in config.items()
        if "extra-index-url" in str(key) and re.search(r"/whl/(cu[0-9]+|cpu|nightly)", str(value))
    }
    if found and (host.wants.variant or host.wants.pytorch):
        key, value = next(iter(found.items()))
        yield Hit("pip is told to look for torch in two indexes at once", [evidence("python_env", f"{key}={value}")])
