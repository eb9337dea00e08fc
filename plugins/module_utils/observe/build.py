"""Raw probe outputs -> Observation. Pure, and total: whatever the text, there is an Observation and no exception."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from functools import partial
from typing import Any, Callable, Mapping, cast

from ansible_collections.trainrig.gpu.plugins.module_utils.observe import registry, schema
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.probes import Probe, table
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Facts, Reading, raw
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.source import TIMED_OUT, Output

#: How the note of a parser that raised begins.
GUARDED = "the parser failed:"
_REFUSED = re.compile(
    r"permission denied|operation not permitted|must be root|need to be root|are you root|access denied", re.I
)


def _unknown(names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split())


def _nothing(names: str) -> Callable[[], dict[str, Any]]:
    return partial(_unknown, names)


#: The sections of an Observation that are always there, with every name unknown.
_SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "os": lambda: {"id": None, "version_id": None, "arch": None, "kernel": None, "codename": None, "id_like": []},
    "boot": _nothing("boot_id cmdline modules kernels default_kernel secure_boot secure_boot_raw"),
    "nvidia": lambda: {
        "driver": _unknown(
            "module module_flavour library cuda module_raw library_raw library_files uninstaller params"
        ),
        **_unknown("gpus smi_error topology processes graphics_processes nvswitches proc_gpus fabricmanager_version"),
    },
    "rdma": _nothing("devices stack mlxconfig counters"),
    "packages": _nothing(
        "dpkg dpkg_entries held rpm rpm_entries versionlock policy history sources keys apt_config apt_settings"
        " apt_pins dkms dkms_log"
    ),
    "network": _nothing("addresses routes listening hostname fqdn etc_hosts resolved"),
    "limits": _nothing("login sshd_child files entries"),
    "machine": _nothing(
        "cpu numa virt container memory_mib memory_available_mib shm_mib shm_available_mib shm_raw"
        " block_devices filesystems sysctl"
    ),
    "configuration": _nothing(
        "modprobe modprobe_directives nccl_conf environment variables library_paths libraries compilers"
    ),
    "containers": _nothing(
        "docker_version docker_error daemon_json daemon_json_error toolkit_config nvidia_ctk snap_docker cdi_devices"
        " cdi_libcuda"
    ),
}
_WHOLE = "identity pci journal_nvidia kernel_log units python_env accelerators manifest pending_reboot interpreters"


def empty() -> schema.Observation:
    """An Observation in which nothing is known."""
    made: dict[str, Any] = {"schema": schema.SCHEMA, "probes": {}}
    made.update((name, make()) for name, make in _SECTIONS.items())
    made.update(_unknown(_WHOLE))
    return cast(schema.Observation, made)


def build(outputs: Mapping[str, Output], probes: Mapping[str, Probe] | None = None) -> schema.Observation:
    """The Observation that these outputs show. ``probes``: what was asked, if not everything."""
    asked = table() if probes is None else probes
    observation = empty()
    scratch: Facts = {}
    for name, probe in asked.items():
        output = outputs.get(name)
        if output is None:
            observation["probes"][name] = {"status": "absent", "notes": []}
            continue
        reading = Reading(name, output.text, output.rc, output.err)
        facts = _guarded(reading, partial(registry.PARSERS[name], reading) if name in registry.PARSERS else dict)
        _place(facts, observation, scratch, reading)
        observation["probes"][name] = {"status": _status(reading), "notes": _notes(reading, probe)}
    for name, join in registry.JOINS.items():
        reading = Reading(name, "")
        facts = _guarded(reading, partial(join, scratch, cast("dict[str, Any]", observation)))
        _place(facts, observation, scratch, reading)
        if reading.notes:
            observation["probes"].setdefault(name, {"status": "unreadable", "notes": []})["notes"].extend(reading.notes)
    return observation


def _guarded(reading: Reading, parse: Callable[[], Facts]) -> Facts:
    """What the parser finds; no text may be able to stop an observation."""
    try:
        return parse()
    except Exception as error:
        # The one broad catch: a defect of a parser costs its facts, never the look at the node.
        reading.unreadable(f"{GUARDED} {type(error).__name__}: {error}")
        return {}


def _place(facts: Facts, observation: schema.Observation, scratch: Facts, reading: Reading) -> None:
    for path, value in facts.items():
        if path.startswith("join."):
            scratch[path[len("join.") :]] = value
            continue
        *parents, last = path.split(".")
        at: Any = observation
        for parent in parents:
            at = at.get(parent) if isinstance(at, dict) else None
        if isinstance(at, dict):
            at[last] = value
        else:
            reading.note(f"no place for {path}")


def _status(reading: Reading) -> str:
    if reading.rc == TIMED_OUT:
        return "timeout"
    if reading.rc != 0:
        return "error"
    return "ok" if reading.readable else "unreadable"


def _notes(reading: Reading, probe: Probe) -> list[str]:
    notes = list(reading.notes)
    for line in [line for line in reading.err.splitlines() if line.strip()][:3]:
        notes.append(raw(line))
    if probe.root_adds and (_REFUSED.search(reading.err) or _REFUSED.search(reading.text[:100000])):
        notes.append(f"as root this probe also shows {probe.root_adds}")
    for name, section in reading.sections.items() if probe.sectioned else ():
        if section.rc == TIMED_OUT:
            notes.append(f"{name}: no answer in time")
    return list(dict.fromkeys(notes))
