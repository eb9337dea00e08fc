"""Turns a chosen set into the resolution, and says of each choice why it was made and where that stands."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, List, Mapping, TypedDict

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.names import needs_fabric_manager, packages
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.rows_node import Row
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.search import Found, Search

_TYPES = {"LTSB": "long-term branch", "PB": "production branch", "NFB": "new-feature branch"}


def _module_build(wishes: Mapping[str, str]) -> str:
    return "dkms" if wishes["module_build"] == "auto" else wishes["module_build"]


class Because(TypedDict):
    choice: str
    reason: str
    source: str


def resolution(found: Found, search: Search) -> Dict[str, Any]:
    """The names that design section 9 gives, and what goes with them."""
    chosen, given, wishes = found.chosen, search.given, search.question.wishes
    driver, build, toolkit = chosen["driver"], chosen["build"], chosen["cuda"]
    exact = {"version": driver["version"]}
    managed = driver["present"] and wishes["driver"] != "none"
    with_fabric = managed and needs_fabric_manager(given, wishes)
    return {
        "driver": {**exact, "branch": driver["branch"], "module": driver["flavour"]} if managed else None,
        "driver_kept": bool(managed and driver["kept"]),  # it is on the node and stays
        "fabric_manager": exact if with_fabric else None,
        "subnet_manager": bool(with_fabric and given["pool"]["needs_subnet_manager"]),
        "imex": exact if managed and given["pool"]["needs_imex"] else None,
        "cuda": build["cuda"],
        "cuda_toolkit": toolkit["version"],
        "host_compiler": {"gcc_max": toolkit["gcc_max"]} if toolkit["gcc_max"] else None,
        "nccl": build["nccl"],
        "system_nccl": None if wishes["nccl"] in ("auto", "wheel") else wishes["nccl"],
        "cudnn": build["cudnn"],
        "pytorch": {"version": build["version"], "variant": build["variant"]},
        "tensorflow": chosen["tensorflow"]["version"],
        "python": chosen["python"]["version"],
        "accelerator": wishes["accelerator"],
        "platform": given["platform"]["name"],
        "origin": wishes["origin"],
        "kernel": None if wishes["kernel"] == "auto" else wishes["kernel"],
        "module_build": _module_build(wishes) if managed and not driver["kept"] else None,
        "container_toolkit": None if wishes["container_toolkit"] == "auto" else wishes["container_toolkit"],
        "packages": packages(chosen, given, wishes, search.data),
    }


def because(found: Found, search: Search) -> List[Because]:
    """Why each part was chosen, the driver first."""
    wishes = search.question.wishes
    reasons: List[Because] = []
    on_gpus = wishes["accelerator"] == "nvidia"
    why = "declared" if wishes["accelerator"] == search.declared["accelerator"] else _accelerator(search)
    reasons.append(_because(f"accelerator {wishes['accelerator']}", why, ["the declaration"]))
    if on_gpus:
        reasons += _driver(found, search)
        reasons += _fabric(found, search)
    if search.given["wish"]["exact_kernel"]:
        text = "declared; of the distribution, whatever the origin of the driver"
        reasons.append(_because(f"kernel {wishes['kernel']}", text, ["the declaration"]))
    reasons += _build(found, search)
    reasons += _beside(found, search)
    return reasons


def _accelerator(search: Search) -> str:
    if search.question.wishes["accelerator"] == "cpu":
        return "the variant is cpu" if search.question.wishes["variant"] == "cpu" else "no GPU is named"
    return f"the nodes have {search.given['pool']['names']}" if search.gpus else "the variant is a CUDA build"


def _driver(found: Found, search: Search) -> List[Because]:
    driver, build = found.chosen["driver"], found.chosen["build"]
    wish = search.question.wishes["driver"]
    if not driver["present"]:
        return [_because("driver none", driver["why"], driver["source"])]
    how = {"auto": "the newest long-term or production branch that everything else allows"}.get(
        wish, f"declared as {wish}"
    )
    if driver["kept"]:
        how = "it is on the node and serves the rest" if wish == "auto" else f"it is on the node; declared is {wish}"
    parts, sources = [how], list(driver["source"])
    if build["driver_min"]:
        parts.append(f"{build['variant']} needs >= {build['driver_min']}")
        sources += build["driver_source"]
    toolkit = build["toolkit_driver"]
    if (
        toolkit
        and build["driver_min"]
        and numbers(build["driver_min"]) <= numbers(driver["version"]) < numbers(toolkit)
    ):
        parts.append(f"older than the {toolkit} of its toolkit, which minor-version compatibility allows (but no PTX)")
    for gpu in search.gpus:
        if gpu["driver_min"]:
            parts.append(f"{gpu['name']} needs >= {gpu['driver_min']}")
            sources += gpu["minimum_source"]
        elif gpu["first_branch"]:
            parts.append(f"{gpu['name']} needs branch {gpu['first_branch']} or newer")
        if gpu["last_branch"]:
            parts.append(f"{gpu['name']} is served up to branch {gpu['last_branch']}")
            sources += gpu["architecture_source"]
    kind = _TYPES.get(driver["type"] or "")
    end = driver["end_of_life"]
    if kind:
        parts.append(
            f"{kind} {'which ' + driver['end'] if driver['ended'] else 'until ' + end}"
            if end or driver["ended"]
            else kind
        )
    reasons = [_because(f"driver {driver['version']}", "; ".join(parts), sources)]
    reasons.append(_module(driver, search))
    if search.question.wishes["module_build"] == "precompiled" and not driver["kept"]:
        text = "declared; compiled in advance, so that neither dkms nor a compiler is needed"
        reasons.append(_because("module build precompiled", text, search.given["platform"]["precompiled_source"]))
    return reasons


def _module(driver: Row, search: Search) -> Because:
    pool = search.given["pool"]
    if search.question.wishes["kernel_module"] != "auto":
        why = "declared"
    elif len(driver["flavours"] or []) == 1:
        why = f"branch {driver['branch']} has no other"
    elif len(pool["flavours"]) == 1:
        why = f"{pool['open_only'] if pool['flavours'] == ['open'] else pool['proprietary_only']} takes no other"
    elif driver["kept"] and search.given["installed"]["module"]:
        why = "it is on the node"
    else:
        why = f"both drive {pool['names']}; NVIDIA's scripts take this one in branch {driver['branch']}"
    return _because(f"kernel module {driver['flavour']}", why, pool["module_source"] or driver["source"])


def _fabric(found: Found, search: Search) -> List[Because]:
    pool, driver = search.given["pool"], found.chosen["driver"]
    source = pool["fabric_source"]
    if not driver["present"] or not search.gpus:
        return []
    reasons = []
    if needs_fabric_manager(search.given, search.question.wishes):
        text = f"{pool['switched']} with NVSwitches; it must be exactly the driver's version"
        reasons.append(_because(f"fabric manager {driver['version']}", text, source))
        if pool["needs_subnet_manager"]:
            reasons.append(_because("nvlsm", "NVLink 5 switches need the subnet manager beside fabric manager", source))
    else:
        text = (
            "fabric manager runs on the switch trays"
            if pool["needs_imex"]
            else f"{pool['names']}: no NVSwitch on the node"
        )
        reasons.append(_because("no fabric manager", text, source))
    if pool["needs_imex"]:
        text = f"{pool['imex']} shares memory over NVLink across nodes; it must be exactly the driver's version"
        reasons.append(_because(f"nvidia-imex {driver['version']}", text, source))
    return reasons


def _build(found: Found, search: Search) -> List[Because]:
    build, wishes = found.chosen["build"], search.question.wishes
    parts = [
        f"declared as {wishes['pytorch']}" if wishes["pytorch"] != "auto" else "the newest that everything else allows"
    ]
    sources = list(build["source"])
    for row, violation in found.passed_over:
        if numbers(row["version"]) > numbers(build["version"]):
            parts.append(f"not {row['version']} {row['variant']}: {violation.facts[0]}")
            sources += violation.sources
    reasons = [_because(f"PyTorch {build['version']}", "; ".join(parts), sources)]
    why = "the default build of this release" if build["default"] else "the first build of this release that fits"
    if wishes["variant"] != "auto":
        why = "declared"
    elif build["accelerator"] == "cpu":
        why = "the accelerator is the CPU"
    if search.gpus and build["capabilities"]:
        capabilities = ", ".join(dict.fromkeys(str(gpu["capability"]) for gpu in search.gpus))
        why += f"; it has code for compute capability {capabilities}"
    against = None if wishes["variant"] != "auto" or build["default"] else search.against_default(found.chosen)
    if against and build["accelerator"] == "nvidia":
        why += f"; not the default build: {against.facts[0]}, but {against.facts[1]}"
    return [*reasons, _because(f"variant {build['variant']}", why, build["source"])]


def _beside(found: Found, search: Search) -> List[Because]:
    chosen, wishes = found.chosen, search.question.wishes
    build, toolkit, python, tensorflow = (chosen[name] for name in ("build", "cuda", "python", "tensorflow"))
    reasons = []
    if toolkit["minor"]:
        why = "the toolkit that compiles nccl-tests is of the build's own CUDA"
        if toolkit["minor"] != build["cuda"]:
            why = f"the distribution has this toolkit; {build['variant']} brings its own CUDA {build['cuda']}"
        reasons.append(_because(f"CUDA toolkit {toolkit['version']}", why, toolkit["source"] or build["source"]))
    for name, title in (("nccl", "NCCL"), ("cudnn", "cuDNN")):
        if build["accelerator"] == "nvidia" and build[name]:
            text = f"PyTorch {build['version']} {build['variant']} pins it"
            reasons.append(_because(f"{title} {build[name]}", text, build["source"]))
    if wishes["nccl"] not in ("auto", "wheel") and build["accelerator"] == "nvidia":
        text = f"declared; for nccl-tests and MPI programs, since {build['variant']} loads its own"
        reasons.append(_because(f"system NCCL {wishes['nccl']}", text, ["the declaration"]))
    if wishes["python"] != "auto":
        why = "declared"
    elif search.given["installed"]["pythons"] is not None:
        why = "the first found on the node that PyTorch serves"
    elif python["version"] == search.given["platform"]["python"]:
        why = f"the Python of {search.given['platform']['code']}"
    else:
        why = "the Python of the platform is not served; most releases of PyTorch serve this one"
    reasons.append(_because(f"Python {python['version']}", why, build["source"]))
    if tensorflow["version"]:
        text = f"declared as {wishes['tensorflow']}; its wishes for CUDA, cuDNN and NCCL are met by what PyTorch pins"
        reasons.append(_because(f"TensorFlow {tensorflow['version']}", text, tensorflow["source"]))
    return reasons


def _because(choice: str, reason: str, sources: List[str]) -> Because:
    return {"choice": choice, "reason": reason, "source": "; ".join(dict.fromkeys(sources))}


def warnings(found: Found) -> List[Mapping[str, Any]]:
    return [
        {"rule": one.rule, "text": "; ".join(one.facts), "source": "; ".join(one.sources)}
        for one in found.violations
        if one.severity == "warn"
    ]
