"""Rules about containers: engine, NVIDIA's toolkit, the device specification and what it points at."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Iterator, Mapping

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import (
    driver_packages,
    installed,
    library,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import at_least, differs


def _toolkit_wanted(host: Host) -> bool:
    return host.wants.container_toolkit not in (None, "off")


def _toolkit_there(host: Host) -> bool:
    return bool(installed(host, "container_toolkit") or host.get("containers", "nvidia_ctk"))


@host_rule("containers.configuration_broken")
def configuration_broken(host: Host) -> Iterator[Hit]:
    error = host.get("containers", "daemon_json_error")
    if error:
        yield Hit("/etc/docker/daemon.json is not valid JSON: docker will not start", [evidence("containers", error)])


@host_rule("containers.runtime_not_configured")
def runtime_not_configured(host: Host) -> Iterator[Hit]:
    """The toolkit is there and the engine does not know it."""
    config = host.get("containers", "daemon_json")
    if not host.get("containers", "docker_version") or not _toolkit_there(host) or host.no_gpus:
        return
    offers_devices = bool(host.get("containers", "cdi_devices"))
    if (
        config is None
        and host.get("containers", "daemon_json_error") is None
        and (offers_devices or not _toolkit_wanted(host))
    ):
        return
    runtimes = (config or {}).get("runtimes")
    if isinstance(runtimes, Mapping) and any("nvidia" in str(name) for name in runtimes):
        return
    features = (config or {}).get("features")
    engine = str(host.get("containers", "docker_version"))
    if offers_devices and (
        at_least(engine, host.fact("rules", "docker_cdi", "docker"))
        or (isinstance(features, Mapping) and features.get("cdi"))
    ):
        return
    shown = [
        evidence("containers", f"daemon.json: {config}"),
        evidence("containers", f"NVIDIA Container Toolkit {host.get('containers', 'nvidia_ctk')}"),
    ]
    yield Hit("NVIDIA's container toolkit is installed, docker does not know it", shown)


@host_rule("containers.toolkit_missing")
def toolkit_missing(host: Host) -> Iterator[Hit]:
    if (
        _toolkit_wanted(host)
        and not _toolkit_there(host)
        and (host.answered("dpkg") or host.answered("rpm"))
        and host.pci_gpus
    ):
        yield Hit(
            "the container toolkit is declared, but not installed",
            [evidence("dpkg", "nvidia-container-toolkit is not installed")],
        )


@host_rule("containers.stale_devices")
def stale_devices(host: Host) -> Iterator[Hit]:
    """A device specification written for an earlier driver points at files that are gone."""
    driver = library(host)
    lines = host.get("containers", "cdi_libcuda") or []
    versions = sorted(
        {
            match.group(1)
            for match in (re.search(r"libcuda\.so\.([0-9.]+[0-9])", str(line)) for line in lines)
            if match and "." in match.group(1)
        }
    )
    old = [version for version in versions if driver and differs(version, driver[0])]
    if driver and old:
        shown = [evidence("cdi", lines[0]), evidence(driver[1], f"driver libraries {driver[0]}")]
        yield Hit(f"/etc/cdi/nvidia.yaml was written for driver {old[0]}, the driver is {driver[0]}", shown)
        return
    devices = [str(name) for name in host.get("containers", "cdi_devices") or []]
    numbered = [name for name in devices if re.search(r"nvidia\.com/gpu=[0-9]+$", name)]
    known = [gpu for gpu in host.gpus if not gpu.get("lost") and gpu.get("index") is not None]
    if numbered and known and len(numbered) < len(known) and not any(gpu.get("mig_enabled") for gpu in known):
        yield Hit(
            f"/etc/cdi/nvidia.yaml names {len(numbered)} of {len(known)} GPUs", [evidence("cdi", " ".join(numbered))]
        )


@host_rule("containers.docker_from_snap")
def docker_from_snap(host: Host) -> Iterator[Hit]:
    if host.get("containers", "snap_docker"):
        yield Hit("docker comes from a snap", [evidence("containers", "snap list docker: installed")])


@host_rule("containers.engine_down")
def engine_down(host: Host) -> Iterator[Hit]:
    unit = host.unit("docker")
    if unit and unit.get("active") == "failed":
        shown = [host.unit_evidence("docker")]
        error = host.get("containers", "docker_error")
        yield Hit("docker has failed", [*shown, *([evidence("containers", error)] if error else [])])


@host_rule("containers.devices_lost_on_reload")
def devices_lost_on_reload(host: Host) -> Iterator[Hit]:
    """Injection without CDI under systemd's cgroups: a daemon-reload takes the devices away from running containers."""
    config = host.get("containers", "daemon_json")
    runtimes = (config or {}).get("runtimes")
    legacy = isinstance(runtimes, Mapping) and any("nvidia" in str(name) for name in runtimes)
    options = " ".join(map(str, (config or {}).get("exec-opts") or []))
    if legacy and host.get("containers", "cdi_devices") == [] and "cgroupfs" not in options and host.gpus:
        yield Hit(
            "GPU containers lose their devices at a daemon-reload of systemd",
            [evidence("containers", f"daemon.json: {config}"), evidence("cdi", "no CDI device")],
        )


@host_rule("containers.toolkit_looks_elsewhere")
def toolkit_looks_elsewhere(host: Host) -> Iterator[Hit]:
    """Leftovers of a driver that lived in a container."""
    config = host.get("containers", "toolkit_config") or {}
    root = config.get("nvidia-container-cli.root")
    if root is None or root in (host.fact("rules", "toolkit_paths", "host_root") or []):
        return
    # A driver in a container puts its libraries there and nowhere else.
    looked = any(host.answered(probe) for probe in ("dpkg", "rpm", "nvidia_libs"))
    if driver_packages(host) or host.library_version or host.driver_loaded is False or not looked:
        yield Hit(
            f"NVIDIA's container toolkit looks for the driver in {root}",
            [evidence("containers", f'config.toml: root = "{root}"')],
            ldconfig=_ldconfig(host),
        )


@host_rule("containers.wrong_ldconfig")
def wrong_ldconfig(host: Host) -> Iterator[Hit]:
    config = host.get("containers", "toolkit_config") or {}
    have, usual = (
        config.get("nvidia-container-cli.ldconfig"),
        host.fact("rules", "toolkit_paths", "ldconfig", "default"),
    )
    want = _ldconfig(host)
    if have and have == usual and have != want:
        yield Hit(
            f"NVIDIA's container toolkit runs {have.lstrip('@')}, which is a script here",
            [evidence("containers", f'config.toml: ldconfig = "{have}"')],
            ldconfig=want,
        )


def _ldconfig(host: Host) -> str:
    paths: Mapping[str, str] = host.fact("rules", "toolkit_paths", "ldconfig") or {}
    return paths.get(host.family) or paths["default"]
