"""What the rules read of the nodes: GPUs, their pool, the platform, what is installed; facts joined to rows."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import minor
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.declaration import split
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import listed

Row = Dict[str, Any]
Data = Mapping[str, Any]
#: Rows by what they are, so that each is made once and rules can know it again.
Made = Dict[Tuple[Any, ...], Row]
_FLAVOURS = {"either": ["open", "proprietary"], "open": ["open"], "proprietary": ["proprietary"]}


def cite(file: str, row: Any, data: Data) -> List[str]:
    """The sources of a row in words that a person can follow."""
    known = data[file].get("sources") or {}
    names = (row or {}).get("source") or []
    return [known.get(name) or f"data/{file}.yml" for name in names]


def gpu_rows(names: Sequence[str], installed: Mapping[str, Any], data: Data) -> List[Row]:
    """One row a model, in the order in which they are named."""
    return [_gpu(name, installed, data) for name in dict.fromkeys(names) if name in data["gpus"]["gpus"]]


def _gpu(name: str, installed: Mapping[str, Any], data: Data) -> Row:
    gpu = data["gpus"]["gpus"][name]
    arch = gpu["arch"]
    drivers, architecture = data["drivers"], data["drivers"]["architectures"].get(arch) or {}
    least, advised = drivers["gpu_minimum"].get(name) or {}, drivers["gpu_advised"].get(name) or {}
    first_cuda = data["cuda"]["first_for"].get(arch) or {}
    last_cudnn = data["cudnn"]["last_for"].get(arch) or {}
    through = (gpu["nvlink"] or {}).get("through")
    boards = gpu["fabric_manager"] == "with_nvswitch"
    switched = installed.get("nvswitch")
    own = cite("gpus", gpu, data)
    return {
        "name": name,
        "arch": arch,
        "vendor": gpu["vendor"],
        "capability": gpu["compute_capability"],
        "flavours": _FLAVOURS.get(gpu["kernel_module"] or ""),
        "first_branch": architecture.get("first_branch"),
        "last_branch": architecture.get("last_branch"),
        "last_cuda": architecture.get("last_cuda"),
        "driver_min": least.get("driver"),
        "advised": advised.get("driver"),
        "advice": advised.get("why"),
        "first_cuda": first_cuda.get("version"),
        "last_cudnn": last_cudnn.get("version"),
        # Boards whose GPUs are linked directly as well as through switches: only the node itself tells which it is.
        "fabric_unsure": boards and through != "nvswitch" and switched is None,
        "needs_fabric_manager": boards and (through == "nvswitch" if switched is None else bool(switched)),
        "needs_subnet_manager": boards and bool(gpu["subnet_manager"]) and switched is not False,
        "needs_imex": bool(gpu["imex"]),
        "source": own,
        "architecture_source": cite("drivers", architecture, data) or own,
        "minimum_source": cite("drivers", least, data) or own,
        "advice_source": cite("drivers", advised, data) or own,
        "first_cuda_source": cite("cuda", first_cuda, data) or own,
        "last_cudnn_source": cite("cudnn", last_cudnn, data) or own,
    }


def pool_row(gpus: Sequence[Row], names: Sequence[str], data: Data) -> Row:
    """What the GPUs are together."""
    flavours = [
        flavour for flavour in ("open", "proprietary") if all(flavour in (gpu["flavours"] or []) for gpu in gpus)
    ]
    needing = [gpu for gpu in gpus if gpu["needs_fabric_manager"]]
    return {
        "size": len(names),
        "models": len(gpus),
        "names": listed(gpu["name"] for gpu in gpus),
        "flavours": flavours,
        "has_common_module": bool(flavours),
        "all_nvidia": all(gpu["vendor"] == "nvidia" for gpu in gpus),
        "open_only": listed(gpu["name"] for gpu in gpus if gpu["flavours"] == ["open"]),
        "proprietary_only": listed(gpu["name"] for gpu in gpus if gpu["flavours"] == ["proprietary"]),
        "needs_fabric_manager": bool(needing),
        "switched": listed(gpu["name"] for gpu in needing),
        "needs_subnet_manager": any(gpu["needs_subnet_manager"] for gpu in gpus),
        "needs_imex": any(gpu["needs_imex"] for gpu in gpus),
        "imex": listed(gpu["name"] for gpu in gpus if gpu["needs_imex"]),
        "source": sorted({text for gpu in gpus for text in gpu["source"]}) or ["the declaration"],
        "module_source": sorted({text for gpu in gpus for text in gpu["architecture_source"]}),
        "fabric_source": cite("drivers", data["drivers"].get("with_driver"), data),
    }


def platform_row(platform: str, data: Data) -> Row:
    code, machine = split(platform)
    known = data["packages"]["platforms"][code]
    distro = known.get("distro") or {}
    recalled = known.get("recalled") or {}
    own = cite("packages", known, data)
    kernels = [row for row in data["packages"].get("kernel", []) if known["family"] in row["families"]]
    compiled = precompiled_rows(code, known["family"], data)
    return {
        "code": code,
        "name": platform,
        "family": known["family"],
        "machine": machine,
        "nvidia": known["nvidia"],
        "nvidia_from": known["nvidia_from"],
        "nvidia_to": known["nvidia_to"],
        "python": known.get("python") or recalled.get("python"),
        "gcc": known.get("gcc") or recalled.get("gcc"),
        **{f"precompiled_{origin}": _compiled(compiled.get(origin, {})) for origin in ("nvidia", "distro")},
        "precompiled_by_kernel": [origin for origin, row in compiled.items() if "stream" not in row],
        "precompiled_source": [text for row in compiled.values() for text in cite("packages", row, data)]
        or ["data/packages.yml"],
        "kernel_known": bool(kernels),
        "container_releases": data["packages"]["container_toolkit"]["versions"],
        "container_source": cite("packages", data["packages"]["container_toolkit"], data),
        "distro_branches": distro.get("branches") or [],
        "distro_newest": distro.get("newest") or {},
        "distro_fabric_manager": bool(distro.get("fabric_manager")),
        "distro_cuda": distro.get("cuda"),
        "distro_nccl": distro.get("nccl") or "",  # so that "is it the archive's?" has an answer everywhere
        "distro_versions": list(distro.get("newest", {}).values()),
        "source": own,
        "distro_source": cite("packages", distro, data) or own,
    }


def precompiled_rows(code: str, family: str, data: Data) -> Row:
    """{origin: row} of what is known of modules compiled in advance for a platform."""
    return {
        row["origin"]: row
        for row in data["packages"].get("precompiled", [])
        if family in row["families"] and code in row.get("platforms", [code])
    }


def _compiled(row: Mapping[str, Any]) -> List[str]:
    """The kinds of module that a row of them has."""
    return [kind for kind in ("open", "proprietary") if kind in row or kind in row.get("stream", {})]


def installed_row(installed: Mapping[str, Any]) -> Row:
    pythons: Optional[List[str]] = None
    if installed.get("pythons") is not None:
        pythons = list(dict.fromkeys(minor(str(version)) for version in installed["pythons"]))
    return {
        "driver": installed.get("driver"),
        "library": installed.get("library"),
        "module": installed.get("module"),
        "fabric_manager": installed.get("fabric_manager"),
        "pythons": pythons,
        "container": bool(installed.get("container")),
        "source": ["observed on the node"],
        "declaration": ["the declaration"],
    }


def bad_rows(gpus: Sequence[Row], platform: Row, installed: Row, data: Data) -> List[Row]:
    """The known faults of NCCL that can hit this hardware."""
    present = {gpu["arch"] for gpu in gpus}
    switched = any(gpu["needs_fabric_manager"] for gpu in gpus)
    holds = {
        "nvswitch": switched,
        "no_nvswitch": not switched,
        "imex": any(gpu["needs_imex"] for gpu in gpus),
        "container": installed["container"],
    }
    rows = []
    for entry in data["nccl"]["known_bad"]:
        fits = holds.get(entry.get("only", ""), True)
        fits = fits and platform["machine"] in entry.get("machines", [platform["machine"]])
        if "architectures" in entry:
            fits = fits and bool(present & set(entry["architectures"]))
        if "other_architectures" in entry:
            fits = fits and bool(present - set(entry["other_architectures"]))
        if fits and gpus:
            rows.append({**entry, "range": [entry["from"], entry["to"]], "source": cite("nccl", entry, data)})
    return rows


def issue_rows(gpus: Sequence[Row], data: Data) -> List[Row]:
    names = {gpu["name"] for gpu in gpus}
    return [
        {**entry, "gpus": listed(sorted(names & set(entry["gpus"]))), "source": cite("drivers", entry, data)}
        for entry in data["drivers"]["known_issues"]
        if names & set(entry["gpus"])
    ]
