"""What the choice of a profile needs of an Observation."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.commands import commands
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.profile import Seen, SeenGpu


def seen(observation: Mapping[str, Any], gpus: Mapping[str, Any], rules: Mapping[str, Any]) -> Seen:
    """`gpus`: content of data/gpus.yml (compute capabilities); `rules`: of data/rules.yml (commands by system)."""
    nvidia = observation.get("nvidia") or {}
    listed = nvidia.get("gpus") or []
    shown = [gpu for gpu in listed if gpu.get("index") is not None and not gpu.get("lost")]
    system = observation.get("os") or {}
    arch = system.get("arch")
    return {
        "platform": f"linux-{arch}" if arch else None,
        "pythons": [(row["path"], row["version"]) for row in observation.get("interpreters") or []],
        "gpus": [_gpu(gpu, gpus) for gpu in shown],
        "driver": (nvidia.get("driver") or {}).get("module") if shown else None,
        "install_driver": commands(system, rules).get("install_driver", ""),
        "gpu_on_pci": bool(listed),  # the list is the union of what the bus and the driver show
    }


def _gpu(gpu: Mapping[str, Any], gpus: Mapping[str, Any]) -> SeenGpu:
    model = gpu.get("model")
    row: Mapping[str, Any] = (gpus.get("gpus") or {}).get(model) or {}
    return {"model": model, "sm": row.get("compute_capability")}
