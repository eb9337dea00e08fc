"""Judges whether a node could start nccl-tests by MPI, where that was asked for."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, List, Mapping, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Finding
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.catalogue import finding


def judge(said: Mapping[str, Any], host: Optional[str]) -> List[Finding]:
    """``said`` is what mpi_access.py told of the node; empty where MPI was not asked for."""
    if not said:
        return []
    found: List[Finding] = []
    if said.get("root"):
        found.append(finding("verify.mpi_as_root", host, f"MPI was asked for and the user is {said.get('user')}"))
    if not said.get("mpirun"):
        found.append(finding("verify.mpi_missing", host, "there is no mpirun on the path of the user's commands"))
    if not said.get("programs"):
        build: Mapping[str, Any] = said.get("build") or {}
        why = f", {build['piece']}: {build['text']}" if build else ""
        text = f"nccl-tests' programs are not there{why}; torch.distributed measured between nodes"
        proof = [("nccl_tests", line) for line in build.get("lines") or []]
        found.append(finding("verify.nccl_tests_not_built", host, text, proof))
    return found
