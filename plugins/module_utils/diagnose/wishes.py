"""Reads a declared stack (`trainrig_stack`) as the questions the rules ask; what is not declared is None."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, List, Mapping, Optional

_POLICIES = ("auto", "keep", "none", "absent", "off")


class Wishes:
    """A stack in the words of the rules. Values may be strings or the short mappings people write."""

    def __init__(self, stack: Optional[Mapping[str, Any]]) -> None:
        self.raw: Mapping[str, Any] = stack if isinstance(stack, Mapping) else {}
        self.declared = bool(self.raw)
        driver = (
            self._text("driver", "branch", "version") or self._text("driver_version") or self._text("driver_branch")
        )
        self.driver_policy = driver.lower() if driver and driver.lower() in _POLICIES else None
        exact = driver if driver and re.fullmatch(r"[0-9]{3,4}\.[0-9.]+", driver) else None
        self.driver_exact: Optional[str] = exact
        self.driver_branch: Optional[str] = (
            driver.split(".")[0] if driver and re.match(r"[0-9]{3,4}(\.|$)", driver) else None
        )
        self.kernel_module = _lower(self._text("kernel_module") or self._inner("driver", "kernel_module"))
        self.module_build = _lower(self._text("module_build") or self._inner("driver", "module_build"))
        if self.kernel_module in ("dkms", "precompiled"):
            self.module_build, self.kernel_module = self.kernel_module, None
        if self.kernel_module is None and self._inner("driver", "flavour"):
            self.kernel_module = "open" if str(self._inner("driver", "flavour")).endswith("open") else "proprietary"
        self.accelerator = _lower(self._text("accelerator"))
        self.origin = _lower(self._text("origin"))
        self.cuda = self._text("cuda", "version") or self._text("cuda_toolkit")
        self.pytorch = self._text("pytorch", "version")
        variant = self._text("variant") or self._inner("pytorch", "variant") or self._inner("pytorch", "cuda")
        self.variant: Optional[str] = _lower(str(variant)) if variant is not None else None
        self.python = self._text("python")
        self.fabric_manager = _off(self._text("fabric_manager"))
        self.container_toolkit = _off(self._text("container_toolkit"))
        self.mig = _switch(self.raw.get("mig"))
        self.gpu_models = self._models()
        self.gpus_per_node = self._count()
        fabric = self.raw.get("fabric")
        kind = fabric.get("type") if isinstance(fabric, Mapping) else fabric
        self.fabric_type = _lower(str(kind)) if kind is not None else None
        self.fabric_mtu = _number(fabric.get("mtu")) if isinstance(fabric, Mapping) else None
        self.fabric_rate_gbit_s = _number(fabric.get("rate_gbit_s")) if isinstance(fabric, Mapping) else None
        firmware = fabric.get("min_firmware") if isinstance(fabric, Mapping) else None
        self.min_firmware = str(firmware if firmware is not None else self.raw.get("min_fw", "")) or None
        self.gid_index = _number(self.raw.get("nccl_ib_gid_index"))
        self.subnet_manager = self._text("subnet_manager") or self._text("opensm_host")
        self.address = self._text("address")
        hardware = _lower(self._text("hardware"))
        mode = _lower(self._text("mode"))
        #: Said in so many words (trainrig_hardware): then a container may stand in for a node.
        self.hardware = None if hardware == "auto" else hardware
        self.no_hardware = hardware == "absent" or mode in ("disk", "oci") or _switch(self.raw.get("bake")) is True

    @property
    def wants_nvidia(self) -> bool:
        """Whether an NVIDIA GPU is asked for in so many words."""
        return not self.no_hardware and (self.accelerator == "nvidia" or bool(cuda_build(self.variant)))

    @property
    def refuses_gpu(self) -> bool:
        """Whether the stack says that no GPU is to be used."""
        return self.accelerator == "cpu"

    @property
    def driver_is_ours(self) -> bool:
        """Whether the driver is to be there at all: not where it comes from outside (a container) or is not wanted."""
        return not self.refuses_gpu and self.driver_policy not in ("none", "absent", "off")

    def _text(self, key: str, *inner: str) -> Optional[str]:
        value = self.raw.get(key)
        if isinstance(value, Mapping):
            value = next((value[name] for name in inner if value.get(name) is not None), None)
        if value is None or isinstance(value, (list, tuple, Mapping)) or value == "":
            return None
        return str(value).strip()

    def _inner(self, key: str, name: str) -> Optional[str]:
        value = self.raw.get(key)
        found = value.get(name) if isinstance(value, Mapping) else None
        return None if found is None else str(found)

    def _models(self) -> Optional[List[str]]:
        found = self.raw.get("gpu_model")
        if found is None and isinstance(self.raw.get("gpus"), (list, tuple)):
            found = [entry.get("model") if isinstance(entry, Mapping) else entry for entry in self.raw["gpus"]]
        if found is None and isinstance(self.raw.get("gpus"), Mapping):
            found = self.raw["gpus"].get("model")
        if isinstance(found, str):
            found = [found]
        names = [str(name) for name in found if name] if isinstance(found, (list, tuple)) else []
        return names or None

    def _count(self) -> Optional[int]:
        for key in ("gpus_per_node", "expected_gpus"):
            if _number(self.raw.get(key)) is not None:
                return _number(self.raw[key])
        gpus = self.raw.get("gpus")
        return _number(gpus.get("count") if isinstance(gpus, Mapping) else gpus)


def cuda_build(variant: Optional[str]) -> Optional[str]:
    """The variant when it names a CUDA build (``cu126``)."""
    return variant if variant and re.fullmatch(r"cu[0-9]{3,4}", variant) else None


def _lower(value: Optional[str]) -> Optional[str]:
    return value.lower() if value is not None else None


def _off(value: Optional[str]) -> Optional[str]:
    """YAML reads a bare `off` as false."""
    word = _lower(value)
    return "off" if word in ("off", "no", "false", "none", "absent", "disabled") else word


def _number(value: Any) -> Optional[int]:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _switch(value: Any) -> Optional[bool]:
    if isinstance(value, bool) or value is None:
        return value
    word = str(value).lower()
    if word in ("on", "yes", "true", "enabled", "1"):
        return True
    return False if word in ("off", "no", "false", "disabled", "0") else None
