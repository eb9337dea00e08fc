"""An independent judge of a resolution: the same facts of data/, another road; none of resolve's rules or code."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

Data = dict[str, Any]


def number(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def wrong(answer: Data, gpus: list[str], platform: str, data: Data) -> list[str]:
    """What is wrong with a resolution for this hardware; empty where nothing is."""
    made = answer["resolution"]
    version, variant = made["pytorch"]["version"], made["pytorch"]["variant"]
    line = data["torch"]["lines"][".".join(version.split(".")[:2])]
    release = data["torch"]["releases"][version]
    arm = platform.endswith("-sbsa")
    troubles = []
    if variant != "cpu" and variant not in line:
        troubles.append(f"{version} has no {variant}")
    if made["python"] not in release["python"]["aarch64" if arm else "x86_64"]:
        troubles.append(f"{version} has no wheel for {made['python']}")
    if variant == "cpu":
        if made["driver"] or made["cuda"] or made["fabric_manager"]:
            troubles.append("a driver for the CPU")
        return troubles
    cuda = [int(variant[2:4]), int(variant[4:])]
    build = line.get(variant) or {}
    if made["cuda"] and number(made["cuda"]) != cuda:
        troubles.append(f"{variant} is not CUDA {made['cuda']}")
    pinned = release["default"] if release["default"]["variant"] == variant else build
    for name in ("nccl", "cudnn"):
        if made[name] != pinned.get(name, build.get(name)):
            troubles.append(f"{variant} does not pin {name} {made[name]}")
    archive = data["packages"]["platforms"][platform.rpartition("-")[0]].get("distro") or {}
    if made["nccl"] and made["system_nccl"] not in (None, made["nccl"], archive.get("nccl")):
        troubles.append(f"nobody has NCCL {made['system_nccl']}")
    code = build.get("aarch64" if arm else "compute_capabilities")
    rows = [data["gpus"]["gpus"][gpu] for gpu in dict.fromkeys(gpus)]
    troubles += [f"no code for {row['compute_capability']}" for row in rows if code and not covered(code, row)]
    troubles += tensorflow(made, cuda[0], pinned, data)
    if made["driver"]:
        troubles += driver(made, rows, cuda, data, dict.fromkeys(gpus))
    return troubles


def covered(code: list[str], row: Data) -> bool:
    major, minor = number(row["compute_capability"])
    for entry in code:
        built_major, built_minor = number(entry.removesuffix("+PTX"))
        if (built_major == major and built_minor <= minor) or (
            entry.endswith("+PTX") and (built_major, built_minor) <= (major, minor)
        ):
            return True
    return False


def tensorflow(made: Data, major: int, pinned: Data, data: Data) -> list[str]:
    if not made["tensorflow"]:
        return []
    row = data["tensorflow"]["releases"][made["tensorflow"]]
    troubles = [] if row["cuda_major"] == major else [f"CUDA {row['cuda_major']} and {major} in one environment"]
    if made["python"] not in row["python"]:
        troubles.append(f"TensorFlow has no wheel for {made['python']}")
    for name in ("nccl", "cudnn"):
        have = pinned.get(name)
        for bound in row["requires"][name].split(",") if have else []:
            sign = bound[: 1 if bound[1].isdigit() else 2]
            limit = number(bound[len(sign) :])
            fits = {"==": number(have) == limit, ">=": number(have) >= limit, "<": number(have) < limit}[sign]
            troubles += [] if fits else [f"TensorFlow wants {name} {bound}, there is {have}"]
    return troubles


def driver(made: Data, rows: list[Data], cuda: list[int], data: Data, names: Any) -> list[str]:
    version, flavour = made["driver"]["version"], made["driver"]["module"]
    branch = data["drivers"]["branches"][made["driver"]["branch"]]
    troubles = []
    if number(version) < number(data["drivers"]["cuda_floors"][str(cuda[0])]["minimum"]):
        troubles.append(f"driver {version} is below the floor of CUDA {cuda[0]}")
    if flavour not in branch["modules"]:
        troubles.append(f"branch {made['driver']['branch']} has no {flavour} module")
    for name, row in zip(names, rows):
        architecture = data["drivers"]["architectures"][row["arch"]]
        if row["kernel_module"] not in ("either", flavour):
            troubles.append(f"{name} takes no {flavour} module")
        if architecture["last_branch"] and int(version[:3]) > int(architecture["last_branch"]):
            troubles.append(f"{name} was dropped before {version}")
        if architecture["last_cuda"] and cuda > number(architecture["last_cuda"]):
            troubles.append(f"{name} was dropped before CUDA {cuda}")
        least = data["drivers"]["gpu_minimum"].get(name)
        if least and flavour == "open" and number(version) < number(least["driver"]):
            troubles.append(f"{name} is not in {version}")
    for name in ("fabric_manager", "imex"):
        if made[name] and made[name]["version"] != version:
            troubles.append(f"{name} is not the driver's version")
    if any(row["imex"] for row in rows) != bool(made["imex"]):
        troubles.append("imex is wanted exactly where NVLink spans nodes")
    switched = any(row["fabric_manager"] == "with_nvswitch" and row["nvlink"]["through"] == "nvswitch" for row in rows)
    if switched != bool(made["fabric_manager"]):
        troubles.append("fabric manager is wanted exactly where there are NVSwitches")
    return troubles
