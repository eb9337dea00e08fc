"""Judges identity: what is installed and loaded against the lock, the driver's parts against each other."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.differences import package_changes
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.requirements import parse, select
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import (
    normalise_name,
    normalise_version,
    numbers,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.job import Job

STAGE = "identity"
_NCCL_PACKAGE = re.compile(r"^nvidia-nccl-cu[0-9]+$")
#: Differences named in one finding before the rest is counted.
_NAMED = 12


def judge(
    document: Mapping[str, Any],
    observation: Mapping[str, Any],
    job: Job,
    profile: Optional[Mapping[str, Any]],
    requirements: Optional[str],
) -> List[Finding]:
    """Return the findings about one environment; without ``requirements`` (not ours) no lock is compared."""
    findings = _torch(document, job, profile)
    wanted = locked(document, requirements)
    if wanted is not None:
        findings += _packages(document, job.host, wanted)
        findings += _nccl(document, job.host, wanted)
    findings += driver(observation, job.host)
    return findings


def versions(document: Mapping[str, Any], observation: Mapping[str, Any]) -> Dict[str, Any]:
    """Return what the report shows of an environment."""
    torch = document["torch"]
    driver_facts = (observation.get("nvidia") or {}).get("driver") or {}
    return {
        "python": document["python"],
        "interpreter": document["executable"],
        "torch": torch["version"],
        "cuda": torch["cuda"],
        "nccl": torch["nccl"],
        "nccl_library": torch["nccl_library"],
        "driver": driver_facts.get("module"),
        "packages": len(document["packages"]),
    }


def locked(document: Mapping[str, Any], requirements: Optional[str]) -> Optional[Dict[str, str]]:
    """Return name -> version that the lock wants in this Python; None where no lock applies."""
    if not requirements:
        return None
    return {name: one.version for name, one in select(parse(requirements), document["markers"]).items()}


def _torch(document: Mapping[str, Any], job: Job, profile: Optional[Mapping[str, Any]]) -> List[Finding]:
    torch, host = document["torch"], job.host
    if torch["error"]:
        return [finding("verify.identity_torch_broken", host, "torch cannot be imported", [(STAGE, torch["error"])])]
    findings = []
    # An environment without a lock that is verified on a node with GPUs is meant to use them.
    needs_gpus = profile.get("accelerator") == "nvidia" if profile else True
    if needs_gpus and torch["device_count"] < job.expected_gpus:
        proof = [(STAGE, f"torch {torch['version']}, CUDA {torch['cuda']}, {torch['device_count']} devices")]
        proof += [
            (STAGE, f"{name}={value}")
            for name, value in document["variables"].items()
            if name == "CUDA_VISIBLE_DEVICES"
        ]
        text = f"torch sees {torch['device_count']} of {job.expected_gpus} GPUs"
        findings.append(finding("verify.identity_gpus_unseen", host, text, proof))
    for capability in sorted({device["capability"] for device in torch["devices"]}):
        if not runs_on(torch["archs"], capability):
            text = f"torch {torch['version']} has no code for compute capability {capability}"
            findings.append(finding("verify.identity_arch_missing", host, text, [(STAGE, " ".join(torch["archs"]))]))
    return findings


def runs_on(archs: Sequence[str], capability: str) -> bool:
    """True when one of torch's architectures serves this GPU: code of the same major, or PTX of an older one.

    `sm_90` is code, `compute_90` is PTX; the last digit is the minor number (`sm_120` is 12.0). A trailing letter
    (`sm_90a`) ties code to exactly that GPU, `f` to its family.
    """
    major, minor = numbers(capability)[:2]
    for arch in archs:
        match = re.match(r"^(sm|compute)_([0-9]+)([0-9])([af]?)$", arch)
        if match is None:
            continue
        kind, built = match.group(1), (int(match.group(2)), int(match.group(3)))
        if match.group(4) == "a":
            served = built == (major, minor)
        elif kind == "sm" or match.group(4) == "f":
            served = built[0] == major and built[1] <= minor
        else:
            served = built <= (major, minor)
        if served:
            return True
    return False


def _packages(document: Mapping[str, Any], host: Optional[str], wanted: Mapping[str, str]) -> List[Finding]:
    installed: Dict[str, List[str]] = {}
    for package in document["packages"]:
        installed.setdefault(normalise_name(package["name"]), []).append(normalise_version(package["version"]))
    foreign = sorted(name for name in installed if name not in wanted)
    known = {name: found for name, found in installed.items() if name in wanted}
    findings = []
    changes = package_changes(wanted, known)
    if changes:
        moved = [text for text in changes if " -> " in text]
        example = moved[0].split("moved ")[-1] if moved else changes[0]
        findings.append(
            finding(
                "verify.identity_package_differs",
                host,
                f"{len(changes)} packages are not what the lock says: {'; '.join(changes[:3])}",
                [(STAGE, text) for text in changes[:_NAMED]],
                example=example,
            )
        )
    if foreign:
        proof = [(STAGE, f"{name} {', '.join(installed[name])}") for name in foreign[:_NAMED]]
        text = f"{len(foreign)} packages that the lock does not name: {', '.join(foreign[:4])}"
        findings.append(finding("verify.identity_package_foreign", host, text, proof))
    return findings


def _nccl(document: Mapping[str, Any], host: Optional[str], wanted: Mapping[str, str]) -> List[Finding]:
    """The library in memory against the lock: by version, and by where it was loaded from."""
    torch = document["torch"]
    want = next((version for name, version in sorted(wanted.items()) if _NCCL_PACKAGE.match(name)), None)
    if want is None or torch["nccl"] is None:
        return []
    proof: List[Tuple[str, object]] = [(STAGE, f"loaded from {torch['nccl_library']}")]
    proof += [
        (STAGE, f"{name}={document['variables'][name]}")
        for name in ("LD_LIBRARY_PATH", "LD_PRELOAD")
        if name in document["variables"]
    ]
    if numbers(torch["nccl"]) != numbers(want):
        return [
            finding(
                "verify.identity_nccl_differs", host, f"NCCL {torch['nccl']} is loaded, the lock says {want}", proof
            )
        ]
    library = torch["nccl_library"]
    if library and not library.startswith(document["prefix"].rstrip("/") + "/"):
        text = f"NCCL is loaded from {library}, outside the environment {document['prefix']}"
        return [finding("verify.identity_nccl_differs", host, text, proof)]
    return []


def driver(observation: Mapping[str, Any], host: Optional[str]) -> List[Finding]:
    """Module, library and fabric manager are of one version, as far as each is known."""
    nvidia = observation.get("nvidia") or {}
    facts = nvidia.get("driver") or {}
    parts = {
        "module": facts.get("module"),
        "library": facts.get("library"),
        "fabric manager": nvidia.get("fabricmanager_version"),
    }
    known = {name: version for name, version in parts.items() if version}
    if len(set(known.values())) <= 1:
        return []
    text = ", ".join(f"{name} {version}" for name, version in known.items())
    proof = [("nvidia_version", facts.get("module_raw")), ("nvidia_libs", facts.get("library_raw"))]
    return [
        finding(
            "verify.identity_driver_differs", host, f"driver parts differ: {text}", [one for one in proof if one[1]]
        )
    ]
