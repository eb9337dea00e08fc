"""Rules about the declaration against this very node: what cannot work is refused before anything is changed."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Iterator, List, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose import hardware, wheels
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import belongs, library, package_driver
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.origins import policy
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import (
    at_least,
    branch,
    differs,
    driver_part,
    numbers,
    public_part,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.wishes import cuda_build
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import listed


def _torch(host: Host) -> Optional[str]:
    """The declared torch, when it is a version."""
    return host.wants.pytorch if numbers(host.wants.pytorch) else None


def _builds(host: Host) -> List[str]:
    """The CUDA builds that may come out: the declared one, or all of the release where that is left open."""
    if host.wants.variant not in (None, "auto"):
        return [variant for variant in [cuda_build(host.wants.variant)] if variant]
    return [variant for variant in wheels.variants(host, _torch(host)) if cuda_build(variant)]


@host_rule("stack.torch_unknown")
def torch_unknown(host: Host) -> Iterator[Hit]:
    want, known = _torch(host), wheels.lines(host)
    if want and known and not wheels.line(host, want):
        yield Hit(
            f"torch {want} is declared, known are {known[0]} to {known[-1]}",
            [evidence("stack", f"pytorch: {want}")],
            known=listed(known, 20),
        )


@host_rule("stack.variant_not_published")
def variant_not_published(host: Host) -> Iterator[Hit]:
    want, variant = _torch(host), cuda_build(host.wants.variant)
    offered = wheels.variants(host, want)
    if want and variant and offered and variant not in offered:
        shown = [evidence("stack", f"pytorch: {want}, variant: {variant}")]
        yield Hit(
            f"torch {public_part(want)} was never published for {variant}", shown, offered=listed(offered), want=want
        )


@host_rule("stack.torch_lacks_gpu")
def torch_lacks_gpu(host: Host) -> Iterator[Hit]:
    """Both ends: a build too old for a new GPU, and one that dropped an old GPU."""
    want = _torch(host)
    offered = {
        variant: list((wheels.line(host, want).get(variant) or {}).get("compute_capabilities") or [])
        for variant in _builds(host)
    }
    seen = set()
    for device in hardware.gpu_devices(host):
        capability = hardware.compute_capability(host, device)
        if not want or not offered or not capability or capability in seen or host.wants.refuses_gpu:
            continue
        seen.add(capability)
        if all(wheels.runs_on(archs, capability) is False for archs in offered.values()):
            variant = listed(offered)
            label = hardware.label(host, device)
            fits = [
                f"{one} {name}"
                for one in wheels.lines(host)
                for name, other in wheels.line(host, f"{one}.0").items()
                if isinstance(other, dict) and wheels.runs_on(list(other.get("compute_capabilities") or []), capability)
            ]
            shown = [evidence("stack", f"pytorch: {want}, variant: {variant}"), evidence("lspci", device.get("raw"))]
            yield Hit(
                f"torch {want} ({variant}) has no code for {label}, compute capability {capability}",
                shown,
                fits=_ends(fits),
                gpu=label,
            )


def _ends(fits: List[str]) -> str:
    return "none that is known" if not fits else fits[0] if len(fits) == 1 else f"{fits[0]} up to {fits[-1]}"


@host_rule("stack.python_not_published")
def python_not_published(host: Host) -> Iterator[Hit]:
    """A wheel exists for some Pythons only."""
    want = _torch(host)
    releases = host.fact("torch", "releases") or {}
    row = releases.get(want or "") or next(
        (one for name, one in releases.items() if want and numbers(name)[:2] == numbers(want)), None
    )
    arch = "aarch64" if str(host.get("os", "arch")) in ("aarch64", "arm64") else "x86_64"
    offered = [str(one) for one in ((row or {}).get("python") or {}).get(arch) or []]
    declared = host.wants.python if numbers(host.wants.python) else None
    if not offered or (host.wants.refuses_gpu and not declared):
        return
    if not declared:
        found = [str(one.get("version")) for one in host.get("interpreters") or []] or [
            str(host.get("python_env", "python") or "")
        ]
        found = [one for one in found if numbers(one)]
        if found and not any(".".join(one.split(".")[:2]) in offered for one in found):
            text = f"torch {want} has no wheel for any Python of this node ({listed(sorted(set(found)))})"
            yield Hit(text, [evidence("python_env", f"Python {one}") for one in found[:3]], offered=listed(offered))
        return
    if ".".join(declared.split(".")[:2]) not in offered:
        yield Hit(
            f"torch {want} has no wheel for Python {declared}",
            [evidence("stack", f"python: {declared}, pytorch: {want}")],
            offered=listed(offered),
        )


@host_rule("stack.driver_below_variant")
def driver_below_variant(host: Host) -> Iterator[Hit]:
    """A driver that is to stay, or is named exactly, must reach the floor of the declared build."""
    floors = {name: host.fact("torch", "variants", name, "driver_min") for name in _builds(host)}
    if not floors or not all(floors.values()):
        return
    variant, floor = min(floors.items(), key=lambda item: numbers(item[1]))
    have = host.wants.driver_exact
    if not have and host.wants.driver_policy in ("keep", "none"):
        have = host.module_version or (library(host) or (None,))[0]
    if have and at_least(have, floor) is False and not host.wants.refuses_gpu:
        shown = [
            evidence("stack", f"pytorch: {host.wants.pytorch}, variant: {variant}"),
            evidence("nvidia_version", f"driver {have}"),
        ]
        yield Hit(
            f"{variant} needs driver {floor} or later, the driver is to be {have}", shown, floor=floor, variant=variant
        )


@host_rule("stack.driver_not_published")
def driver_not_published(host: Host) -> Iterator[Hit]:
    """The exact version must be among what the repositories offer, before anything is touched."""
    want = host.wants.driver_exact
    if not want:
        return
    package = package_driver(host)
    for name, row in policy(host).items():
        if not (belongs(host, "fabric_manager", name) or belongs(host, "driver_itself", name)):
            continue
        named = re.search(r"-([0-9]{3})(-|$)", name)
        if named and named.group(1) != host.wants.driver_branch:
            continue
        offered = [str(one.get("version")) for one in row.get("versions") or [] if one.get("origins")]
        parts = [driver_part(version) for version in offered]
        if not named and not any(branch(part) == host.wants.driver_branch for part in parts):
            continue
        if not any(parts) or any(part and not differs(part, want) for part in parts):
            continue
        if name in host.dpkg and package and not differs(package[1], want):
            continue
        shown = [evidence("apt_policy", f"{name}: {' '.join(offered[:4])}"), evidence("stack", f"driver: {want}")]
        yield Hit(
            f"{name} {want} is not published; available: {listed([part for part in parts if part])}", shown, want=want
        )
        return


@host_rule("stack.driver_in_container")
def driver_in_container(host: Host) -> Iterator[Hit]:
    """A container has the driver of its host."""
    if host.container and not host.wants.hardware and (host.wants.driver_exact or host.wants.driver_branch):
        shown = [
            evidence("virt", host.get("machine", "virt")),
            evidence("stack", f"driver: {host.wants.driver_exact or host.wants.driver_branch}"),
        ]
        yield Hit("a driver is declared for a container", shown)


@host_rule("stack.gpu_models")
def gpu_models(host: Host) -> Iterator[Hit]:
    """The GPUs that are there against those that are declared, by PCI id."""
    wanted = host.wants.gpu_models
    devices = hardware.gpu_devices(host)
    if not wanted or not devices:
        return
    known = host.fact("gpus", "gpus") or {}
    keys = {one for one in wanted if one in known}
    names = {re.sub(r"\s+", " ", one).lower() for one in wanted if one not in known}
    reported = {str(gpu.get("pci_address")): str(gpu.get("name") or "").lower() for gpu in host.gpus}
    odd = []
    for index, device in enumerate(devices):
        address = str(device.get("address") or device.get("pci_address"))
        model = hardware.model(host, device)
        if model in keys or (reported.get(address) and reported[address] in names):
            continue
        if model and _key(model) in {_key(name) for name in names}:
            continue
        if not keys and not reported.get(address) and not model:
            continue
        odd.append((index, address, hardware.label(host, device), device))
    if odd:
        shown = [evidence("lspci", device.get("raw")) for _index, _address, _label, device in odd[:4]]
        text = listed(f"GPU {index} ({address}) is {label}" for index, address, label, _device in odd)
        yield Hit(f"declared {listed(wanted)}; {text}", shown)


def _key(name: str) -> str:
    """A whole name without the maker's words: `NVIDIA A10` and `A10` are one, `A100` is another."""
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"^(nvidia|tesla|geforce|quadro|\s)+", "", name.lower())).strip("_")
