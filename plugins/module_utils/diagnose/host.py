"""One observed host, and the pool it trains with, as the rules look at them: facts by name, unknown is None."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.commands import family
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Evidence, evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.wishes import Wishes

Facts = Mapping[str, Any]


class Setting(NamedTuple):
    """A variable and the place where it is set."""

    name: str
    value: str
    place: str
    probe: str

    def evidence(self) -> Evidence:
        return evidence(self.probe, f"{self.place}: {self.name}={self.value}")


class Host:
    """Facts of one node. Everything is read from the Observation; nothing is guessed from a missing probe."""

    def __init__(
        self,
        name: str,
        observation: Facts,
        stack: Optional[Facts],
        data: Facts,
        today: str,
        pool: str = "default",
        lock: Optional[Facts] = None,
        alone: bool = False,
    ) -> None:
        """``alone``: known to train by itself, so what only peers would notice is no fault."""
        self.name = name
        self.pool = pool
        self.observation = observation
        self.wants = Wishes(stack)
        self.data = data
        self.today = today
        self.lock = lock
        self.alone = alone
        self.families: Dict[str, Dict[str, str]] = {}  # what family.installed found, by family
        self._settings: Optional[List[Setting]] = None

    # -- reading ----------------------------------------------------------------------------------------------------

    def get(self, *path: str) -> Any:
        """The value at a path of names, or None as soon as one is missing."""
        value: Any = self.observation
        for name in path:
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value

    def fact(self, table: str, *path: str) -> Any:
        """A value of data/<table>.yml, or None."""
        value: Any = self.data.get(table)
        for name in path:
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value

    def answered(self, probe: str) -> bool:
        """Whether a probe ran and was understood."""
        return bool(self.get("probes", probe, "status") == "ok")

    def failed(self, probe: str) -> bool:
        """Whether a probe's tool ran and failed."""
        return bool(self.get("probes", probe, "status") == "error")

    def threshold(self, name: str) -> float:
        """A number of data/rules.yml."""
        return float(self.data["rules"]["thresholds"][name]["value"])

    # -- machine ----------------------------------------------------------------------------------------------------

    @cached_property
    def family(self) -> str:
        """ubuntu, debian, redhat, suse or other: which commands a person would type."""
        return family(self.get("os") or {}, self.data["rules"])

    @property
    def kernel(self) -> Optional[str]:
        return self.get("os", "kernel") or None

    @property
    def boot_kernel(self) -> Optional[str]:
        """The kernel of the next boot, where the node told it."""
        return self.get("boot", "default_kernel") or None

    @property
    def modules(self) -> Optional[Mapping[str, List[str]]]:
        found = self.get("boot", "modules")
        return found if isinstance(found, dict) else None

    @property
    def cmdline(self) -> Optional[str]:
        return self.get("boot", "cmdline") or None

    @property
    def container(self) -> bool:
        return bool(self.get("machine", "container"))

    @property
    def bare_metal(self) -> Optional[bool]:
        """True, False, or None when nothing told."""
        virt = self.get("machine", "virt")
        return None if virt is None else virt == "none"

    @property
    def virtual(self) -> bool:
        """Known to be a guest, by systemd's word or, where that is missing, by devices that only guests have."""
        if self.bare_metal is not None:
            return not self.bare_metal
        return any(self.vendor(device, name) for device in self.pci for name in self.fact("pci", "guest_vendors") or [])

    # -- hardware ---------------------------------------------------------------------------------------------------

    @cached_property
    def pci(self) -> List[Facts]:
        return [device for device in self.get("pci") or [] if isinstance(device, dict)]

    @cached_property
    def models(self) -> Dict[str, str]:
        """PCI id -> key of data/gpus.yml."""
        rows = self.fact("gpus", "gpus") or {}
        return {one["id"]: name for name, row in rows.items() for one in row.get("pci") or []}

    def vendor(self, device: Facts, name: str) -> bool:
        return str(device.get("id") or "").lower().startswith(str(self.fact("pci", "vendors", name)) + ":")

    @cached_property
    def pci_gpus(self) -> List[Facts]:
        """NVIDIA GPUs on the bus, whatever the driver makes of them."""
        classes = self.fact("pci", "classes", "gpu") or []
        return [device for device in self.pci if device.get("pci_class") in classes and self.vendor(device, "nvidia")]

    @property
    def no_gpus(self) -> bool:
        """Known to have no NVIDIA GPU; False also where nobody looked."""
        return self.answered("lspci") and not self.pci_gpus and not self.gpus

    @cached_property
    def pci_nvswitches(self) -> List[Facts]:
        bridge = self.fact("pci", "classes", "bridge")
        return [device for device in self.pci if device.get("pci_class") == bridge and self.vendor(device, "nvidia")]

    @property
    def passed_through(self) -> bool:
        """Every GPU is handed to virtual machines: this host does not train."""
        owners = [device.get("driver") for device in self.pci_gpus]
        return bool(owners) and all(owner in (self.fact("pci", "drivers", "passthrough") or []) for owner in owners)

    @cached_property
    def gpus(self) -> List[Dict[str, Any]]:
        return [gpu for gpu in self.get("nvidia", "gpus") or [] if isinstance(gpu, dict)]

    @property
    def module_version(self) -> Optional[str]:
        return self.get("nvidia", "driver", "module") or None

    @property
    def library_version(self) -> Optional[str]:
        return self.get("nvidia", "driver", "library") or None

    @property
    def driver_loaded(self) -> Optional[bool]:
        """Whether NVIDIA's kernel module is in memory; None when no probe told."""
        if self.module_version or self.get("nvidia", "proc_gpus"):
            return True
        if self.modules is not None:
            return "nvidia" in self.modules
        return None

    @cached_property
    def rdma_devices(self) -> List[Facts]:
        return [device for device in self.get("rdma", "devices") or [] if isinstance(device, dict)]

    # -- software ---------------------------------------------------------------------------------------------------

    @property
    def dpkg(self) -> Mapping[str, str]:
        return self.get("packages", "dpkg") or {}

    @cached_property
    def python_packages(self) -> Mapping[str, str]:
        """Installed distributions by normalised name."""
        rows = self.get("python_env", "packages") or []
        return {
            re.sub(r"[-_.]+", "-", str(row.get("name", ""))).lower(): str(row.get("version", ""))
            for row in rows
            if isinstance(row, dict)
        }

    @cached_property
    def torch(self) -> Facts:
        found = self.get("python_env", "torch")
        return found if isinstance(found, dict) else {}

    def unit(self, name: str) -> Optional[Facts]:
        """A unit that systemd was asked about; None when it was not, `load` tells whether it exists."""
        units = self.get("units")
        found = units.get(name) or units.get(f"{name}.service") if isinstance(units, dict) else None
        return found if isinstance(found, dict) else None

    def unit_evidence(self, name: str) -> Evidence:
        unit = self.unit(name) or {}
        states = f"LoadState={unit.get('load')} ActiveState={unit.get('active')} UnitFileState={unit.get('enabled')}"
        return evidence("units", f"{name}: {states}")

    def settings(self, pattern: str) -> List[Setting]:
        """Variables whose whole name matches, with the place where each is set; the first place wins in a process."""
        if self._settings is None:
            self._settings = _settings(self.observation)
        return [one for one in self._settings if re.fullmatch(pattern, one.name)]

    def kernel_lines(self, pattern: str) -> List[str]:
        """Kept kernel log lines that match."""
        lines = self.get("kernel_log", "notable") or []
        return [str(line) for line in lines if re.search(pattern, str(line))]


class Pool:
    """Hosts that train together. Homogeneity is judged over all of them."""

    def __init__(self, name: str, hosts: List[Host], missing: Mapping[str, str], allow_missing: bool) -> None:
        self.name = name
        self.hosts = hosts
        self.missing = missing
        self.allow_missing = allow_missing


def _settings(observation: Facts) -> List[Setting]:
    """All variables of a login, of files and of NCCL's own files; the process's environment comes first, as in NCCL."""
    found: List[Setting] = []
    environment = (observation.get("python_env") or {}).get("env")
    if isinstance(environment, Mapping):
        rows = [(str(name), str(value)) for name, value in environment.items() if value is not None]
        found += [Setting(name, value, "environment of a login", "python_env") for name, value in rows]
    configuration = observation.get("configuration") or {}
    for row in configuration.get("variables") or []:
        found.append(Setting(row["name"], row["value"], row["file"], "env_paths"))
    files = configuration.get("nccl_conf") or {}
    for place in sorted(files, key=lambda name: not str(name).startswith("~")):
        for name, value in (files[place] or {}).items():
            found.append(Setting(str(name), str(value), str(place), "nccl_conf"))
    return found
