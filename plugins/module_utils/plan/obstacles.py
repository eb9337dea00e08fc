"""What forbids to apply a dirty layer on a host now: findings that refuse, before the first change.

Other findings say what is wrong with a node. These say what applying the plan would break: somebody's job, somebody's
driver, a hold that is not ours, a disk that is too small, a module that Secure Boot would not load.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import member
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.layers import DRIVER
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.ownership import of_manifest

_GIB = 1 << 30
#: Where packages are downloaded to and where nearly all of what they install goes.
_DOWNLOADS, _INSTALLED = "/var/cache/apt/archives", "/usr"
#: Names that a message spells out; a removal plan is spelled out whole.
_SHOWN = 6

_WAYS = (
    "keep it (trainrig_stack.driver: keep, and make the lock again), or let trainrig replace it (driver_takeover: "
    "true), or remove it yourself: {steps}"
)
_SIGNED = (
    "take a module that the distribution signed (trainrig_stack.module_build: precompiled, where there is one), switch "
    "Secure Boot off, or enrol DKMS's key (mokutil --import /var/lib/dkms/mok.pub, then a reboot with somebody at the "
    "console) and say driver_own_key: true"
)


class Case(NamedTuple):
    """One host with what would be done to it."""

    host: str
    pool: str
    observation: Mapping[str, Any]
    layers: Sequence[Mapping[str, Any]]  # of the plan: layer, state, download_bytes, installed_bytes
    system: Mapping[str, Any]  # of the lock, with its layers (lock/layers.py)
    options: Mapping[str, Any]  # of the role driver
    families: Mapping[str, Any]  # data/families.yml
    daemons: Sequence[str]  # programs that hold a GPU and are no job (data/rules.yml)

    def get(self, *path: str) -> Any:
        value: Any = self.observation
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def dirty(self, layer: str) -> bool:
        return any(row["layer"] == layer and row["state"] == "dirty" for row in self.layers)

    def wish(self, layer: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = (self.system.get("layers") or {}).get(layer) or {}
        return found

    def changes(self, layer: str) -> List[str]:
        """Installed packages that the layer would move or remove."""
        wish, installed = self.wish(layer), self.get("packages", "dpkg") or {}
        moved = [name for name, version in wish.get("packages", {}).items() if installed.get(name, version) != version]
        return sorted({*moved, *(wish.get("remove") or [])} & set(installed))

    def applied(self, layer: str) -> Optional[Mapping[str, Any]]:
        """The layer's entry in the node's manifest: it was ours once."""
        found = self.get("manifest", "layers", layer)
        return found if isinstance(found, Mapping) else None


def obstacles(case: Case) -> List[Dict[str, Any]]:
    """Findings as diagnose returns them, all of severity `refuse`."""
    found: List[Dict[str, Any]] = []
    if case.dirty(DRIVER):
        for rule in (_in_use, _foreign, _secure_boot):
            found += rule(case)
    return [*found, *_held(case), *_space(case)]


def _in_use(case: Case) -> Iterator[Dict[str, Any]]:
    """A driver is never changed under a process that uses it."""
    wish, installed = case.wish(DRIVER), case.get("packages", "dpkg") or {}
    same = all(installed.get(name) == version for name, version in wish.get("packages", {}).items())
    if same and not wish.get("remove"):
        return
    jobs = [
        row
        for row in case.get("nvidia", "processes") or []
        if row.get("pid") and not str(row.get("name") or "").rsplit("/", 1)[-1].startswith(tuple(case.daemons))
    ]
    if jobs:
        pids = ", ".join(sorted({str(row["pid"]) for row in jobs}))
        yield _finding(
            case,
            "driver.in_use",
            DRIVER,
            f"the driver has to change, and processes use the GPUs: pid {pids}",
            "A driver that is replaced under a running process breaks the process, and often the GPU until a reboot.",
            ("wait", f"end these processes or drain the node, then run again: ps -fp {pids.replace(', ', ',')}"),
            [("nvidia_processes", f"pid {row['pid']} {row.get('name')} on {row.get('gpu_uuid')}") for row in jobs[:4]],
        )


def _foreign(case: Case) -> Iterator[Dict[str, Any]]:
    """A driver that trainrig did not install is not replaced without consent."""
    if case.options.get("driver_takeover") or not case.wish(DRIVER).get("packages"):
        return
    uninstaller = case.get("nvidia", "driver", "uninstaller")
    changes = [] if case.applied(DRIVER) else [name for name in case.changes(DRIVER) if _of_driver(case, name)]
    if not uninstaller and not changes:
        return
    installed = case.get("packages", "dpkg") or {}
    steps = ["sudo nvidia-uninstall --silent"] if uninstaller else []
    steps += [f"sudo apt-get purge {' '.join(changes)}"] if changes else []
    what = "NVIDIA's installer (.run)" if uninstaller else f"{changes[0]} {installed[changes[0]]}"
    shown = [("nvidia_libs", "/usr/bin/nvidia-uninstall")] if uninstaller else []
    shown += [("dpkg", f"{name} {installed[name]}") for name in changes[:4]]
    yield _finding(
        case,
        "driver.foreign",
        DRIVER,
        f"the node has a driver that trainrig did not install and the lock does not name: {what}",
        "Two drivers on one node break each other: files of one are overwritten by the other, and an update of either "
        "mixes them.",
        ("configure", _WAYS.format(steps="; ".join(steps))),
        shown,
    )


def _of_driver(case: Case, name: str) -> bool:
    return any(member(case.families[family], name) for family in (DRIVER, "exactly_driver"))


def _secure_boot(case: Case) -> Iterator[Dict[str, Any]]:
    """Under Secure Boot the kernel loads signed modules only; one that DKMS builds is signed by nobody it knows."""
    names = case.wish(DRIVER).get("packages", {})
    compiled = any(member(case.families["dkms"], name) for name in names)
    if not compiled or case.get("boot", "secure_boot") is not True or case.options.get("driver_own_key"):
        return
    yield _finding(
        case,
        "driver.secure_boot",
        DRIVER,
        "Secure Boot is on, and the kernel module that is locked is compiled on the node",
        "DKMS signs what it compiles with a key of its own. The firmware does not know it, so the kernel refuses the "
        "module until somebody enrols the key at the machine's console.",
        ("configure", _SIGNED),
        [("secure_boot", str(case.get("boot", "secure_boot_raw") or "SecureBoot enabled"))],
    )


def _held(case: Case) -> Iterator[Dict[str, Any]]:
    """A hold that is not ours was somebody's decision."""
    held = set(case.get("packages", "held") or [])
    ours = of_manifest(case.get("manifest"), "holds")
    for row in case.layers:
        layer = str(row["layer"])
        if row["state"] != "dirty" or (layer == DRIVER and case.options.get("driver_takeover")):
            continue
        kept = [name for name in case.changes(layer) if name in held - ours]
        if kept:
            yield _finding(
                case,
                "packages.held_by_others",
                layer,
                f"the lock moves packages that somebody holds on this node: {', '.join(kept[:_SHOWN])}",
                "A hold says that a version is meant to stay. trainrig did not set it.",
                ("configure", f"agree to the change with: sudo apt-mark unhold {' '.join(kept)}"),
                [("apt_holds", name) for name in kept[:4]],
            )


def _space(case: Case) -> Iterator[Dict[str, Any]]:
    """Space is looked at before a download, not when it has run out."""
    needs: Dict[str, Tuple[int, int]] = {}  # mount -> bytes, free bytes
    for row in case.layers:
        if row["state"] == "dirty" and case.wish(str(row["layer"])):
            for place, key in ((_DOWNLOADS, "download_bytes"), (_INSTALLED, "installed_bytes")):
                mount = _mount(case, place)
                if mount and row.get(key):
                    sofar = needs.get(mount[0], (0, mount[1]))[0]
                    needs[mount[0]] = (sofar + int(row[key]), mount[1])
    for name, (need, free) in sorted(needs.items()):
        if need > free:
            yield _finding(
                case,
                "packages.no_space",
                "sources",
                f"{name} has {free / _GIB:.1f} GiB free; the packages of the plan need {need / _GIB:.1f} GiB there",
                "A package manager that runs out of space leaves packages half installed.",
                ("configure", f"free {(need - free) / _GIB:.1f} GiB on {name} (apt-get clean, old kernels, data)"),
                [("disks", f"{name}: {free / _GIB:.1f} GiB free")],
            )


def _mount(case: Case, path: str) -> Optional[Tuple[str, int]]:
    """The file system that a path lies on, and its free bytes; None where nothing told."""
    rows = {str(row.get("mount")): row.get("available_mib") for row in case.get("machine", "filesystems") or []}
    fitting = [mount for mount in rows if path == mount or path.startswith(mount.rstrip("/") + "/")]
    best = max(fitting, key=len, default=None)
    return None if best is None or rows[best] is None else (best, int(rows[best]) << 20)


def _finding(
    case: Case,
    rule: str,
    layer: str,
    summary: str,
    cause: str,
    action: Tuple[str, str],
    shown: Sequence[Tuple[str, str]],
) -> Dict[str, Any]:
    return {
        "rule": rule,
        "severity": "refuse",
        "layer": layer,
        "host": case.host,
        "pool": case.pool,
        "scope": "host",
        "summary": summary,
        "cause": cause,
        "action": {"kind": action[0], "text": action[1]},
        "evidence": [{"probe": probe, "text": text} for probe, text in shown],
        "phase": "preflight",
    }
