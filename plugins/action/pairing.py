"""Controller side of trainrig.gpu.pairing: which nodes measure together next, worked out by every host alike."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.judge.pairing import (
    FLEET,
    MPI,
    PAIRS,
    TORCHRUN,
    Stage,
    step,
)
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "stage": {"type": "str", "choices": [PAIRS, FLEET], "required": True},
    "places": {"type": "dict", "required": True},
    "told": {"type": "str", "required": True},
    "seed": {"type": "int", "required": True},
    "seconds": {"type": "float", "required": True},
    "ranks": {"type": "int", "default": 0},
    "floor_gb_s": {"type": "float", "default": 0.0},
    "launcher": {"type": "str", "choices": [TORCHRUN, MPI], "default": TORCHRUN},
    "backend": {"type": "str", "choices": ["nccl", "gloo"], "required": True},
}


class ActionModule(ActionBase):
    """Looks at the variables of the play's hosts; contacts none."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, validated = self.validate_argument_spec(_ARGUMENTS)
        arguments, hostvars = plain(validated), variables["hostvars"]
        hosts = sorted(arguments["places"])

        def of_each(name: str) -> dict[str, Any]:
            return {host: plain(hostvars[host].get(name)) for host in hosts}

        stage = Stage(
            name=arguments["stage"],
            places=arguments["places"],
            told={host: one or [] for host, one in of_each(arguments["told"]).items()},
            seed=arguments["seed"],
            seconds=arguments["seconds"],
            switches={host: str(one) for host, one in of_each("trainrig_switch").items() if one},
            rails=_rails([one or {} for one in of_each("trainrig_observation").values()]),
            floor_gb_s=arguments["floor_gb_s"] or None,
            launcher=arguments["launcher"],
            bounds=_bounds(arguments["backend"]),
            ranks_each=arguments["ranks"],
        )
        return {"changed": False, **step(plain(variables["inventory_hostname"]), stage)}


def _bounds(backend: str) -> dict[str, Any]:
    """Over gloo the nodes' cores are measured along with the network: only what stands out on any pool counts there."""
    bounds = load("thresholds")["pairs"]
    return {**bounds, "least_gap": bounds["most_gap"]} if backend == "gloo" else bounds


def _rails(observations: list[dict[str, Any]]) -> list[str]:
    """RDMA devices with an active port that every node has by the same name; one alone cannot be told from its node."""
    names = [
        {
            str(device["name"])
            for device in (one.get("rdma") or {}).get("devices") or []
            if any(port.get("state") == "Active" for port in device.get("ports") or [])
        }
        for one in observations
    ]
    shared = sorted(set.intersection(*names)) if names else []
    return shared if len(shared) > 1 else []
