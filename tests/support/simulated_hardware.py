"""Hardware that a lab node seems to have: what NVIDIA's driver, the bus and the firmware would show, from a bundle.

    equip(node, hardware())                      eight H100 with NVSwitches, the driver loaded
    equip(node, no_driver(hardware()))           the same on the bus only
    strip(node)

The bundle lies in /run/simulated-hardware on the node, a file a probe, named as in any bundle. It covers /proc/driver,
and /proc/modules where this machine's kernel has one. lspci, mokutil, systemd-detect-virt and, where no package brought
one, nvidia-smi are stand-ins in /usr/local/bin that print it. A reboot takes all of it away but the stand-ins, which
then step aside: a machine that comes up with another driver loaded is equipped anew.

A node is a container and says so; with `virt` in the bundle (as in `hardware()`) it says what the bundle says.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.support.simulated_bases import BASES
from tests.support.simulated_machine import Machine, probes
from tools.lab import machine
from tools.lab.names import LabError
from tools.lab.node import Node

PLACE = "/run/simulated-hardware"
#: Stand-in -> the fact without which it is not there.
STAND_INS = {
    "lspci": "lspci",
    "mokutil": "secure_boot",
    "nvidia-smi": "nvidia_version",
    "systemd-detect-virt": "virt",
    "uname": "uname",
}
#: What a node has afterwards that it did not have before; a test that counts changes leaves these out.
EQUIPMENT = tuple(f"/usr/local/bin/{name}" for name in STAND_INS)
_DRIVER = (
    *("nvidia_version", "nvidia_params", "nvidia_gpus", "nvidia_nvswitch", "nvidia_smi_xml", "nvidia_smi_topo"),
    *("nvidia_smi_nvlink", "nvidia_smi_p2p", "nvidia_processes"),
)
_PROBES = ("lspci", "lspci_vv", "modules", "virt", "secure_boot", *_DRIVER)
_COVERED = ("/proc/driver", "/proc/modules")
_SUPPORT = Path(__file__).parent
Facts = dict[str, str]


def hardware(base: str = "h100x8", kernel: str = "", **changes: object) -> Facts:
    """What a machine of simulated_bases.py shows; changes: of its fields, as driver="550.144.03", flavour="".

    kernel: what `uname -r` says on the node; the truth, that of this machine's kernel, where left out.
    """
    made: Machine = dataclasses.replace(BASES[base], **changes)  # type: ignore[arg-type]
    said = probes(made)
    facts = {name: said[name] for name in _PROBES if name in said}
    return {**facts, "uname": said["uname"].replace(made.kernel, kernel)} if kernel else facts


# What is wrong with it: each takes facts and gives others.


def no_driver(facts: Mapping[str, str]) -> Facts:
    """The hardware on the bus, and no module loaded."""
    kept = {name: text for name, text in facts.items() if name not in _DRIVER}
    lines = [line for line in facts["modules"].splitlines() if not line.startswith("nvidia")]
    owned = re.sub(r"\tKernel driver in use: nvidia\S*\n", "", facts["lspci_vv"])
    return {**kept, "modules": "".join(f"{line}\n" for line in lines), "lspci_vv": owned}


def gpu_lost(facts: Mapping[str, str], index: int = 3) -> Facts:
    """It fell off the bus: nvidia-smi does not list it any more, its configuration space reads as ones."""
    gpus = _gpus(facts)
    gone = gpus.pop(index)
    address = _address(gone)
    bus = {
        name: re.sub(rf"^({address} .*)\(rev a1\)$", r"\1(rev ff)", facts[name], flags=re.MULTILINE)
        for name in ("lspci", "lspci_vv")
    }
    return {**facts, **bus, "nvidia_smi_xml": _with_gpus(facts, gpus)}


def ecc_uncorrected(facts: Mapping[str, str], index: int = 3, count: int = 2) -> Facts:
    """Errors of its memory that could not be corrected, since the driver was loaded and in all."""
    zero, found = "<dram_uncorrectable>0</dram_uncorrectable>", f"<dram_uncorrectable>{count}</dram_uncorrectable>"
    return _changed(facts, zero, found, [index])


def fabric_in_progress(facts: Mapping[str, str]) -> Facts:
    """The fabric manager has not done its work."""
    before = "<state>Completed</state><status>Success</status>"
    return _changed(facts, before, "<state>In Progress</state><status>N/A</status>")


def process(facts: Mapping[str, str], pid: int, index: int = 0, name: str = "python3", used_mib: int = 1024) -> Facts:
    """A process computes on a GPU."""
    uuid = re.findall(r"<uuid>(.*)</uuid>", facts["nvidia_smi_xml"])[index]
    row = (
        f"<processes><process_info><pid>{pid}</pid><type>C</type><process_name>{name}</process_name>"
        f"<used_memory>{used_mib} MiB</used_memory></process_info></processes>"
    )
    changed = _changed(facts, "<processes></processes>", row, [index])
    return {**changed, "nvidia_processes": f"{facts['nvidia_processes']}{uuid}, {pid}, {name}, {used_mib} MiB\n"}


def secure_boot(facts: Mapping[str, str]) -> Facts:
    """The firmware loads nothing unsigned."""
    return {**facts, "secure_boot": "SecureBoot enabled\n"}


def _address(gpu: str) -> str:
    """The address of a GPU of nvidia-smi's, as the bus writes it."""
    found = re.search(r'<gpu id="0000([0-9A-F:.]+)">', gpu)
    if found is None:
        raise ValueError("no GPU of nvidia-smi's")
    return found[1].lower()


def _gpus(facts: Mapping[str, str]) -> list[str]:
    return re.findall(r"<gpu id=.*?</gpu>\n", facts["nvidia_smi_xml"], re.DOTALL)


def _with_gpus(facts: Mapping[str, str], gpus: list[str]) -> str:
    before, _, rest = facts["nvidia_smi_xml"].partition("<gpu id=")
    text = f"{before}{''.join(gpus)}{rest.rpartition('</gpu>')[2].lstrip()}"
    return re.sub(r"(<attached_gpus>)\d+", rf"\g<1>{len(gpus)}", text)


def _changed(facts: Mapping[str, str], old: str, new: str, only: list[int] | None = None) -> Facts:
    gpus = _gpus(facts)
    for index in range(len(gpus)) if only is None else only:
        if old not in gpus[index]:
            raise ValueError(f"nvidia_smi_xml: GPU {index} has no {old}")
        gpus[index] = gpus[index].replace(old, new)
    return {**facts, "nvidia_smi_xml": _with_gpus(facts, gpus)}


# On a node


def equip(node: Node, bundle: Path | Mapping[str, str]) -> None:
    """The running node shows this hardware, and nothing of an earlier one. bundle: a directory, or its texts."""
    facts = _read(bundle) if isinstance(bundle, Path) else dict(bundle)
    strip(node)
    root = _root(node)
    for path, text in {**facts, **_proc(facts)}.items():
        _write(root / PLACE.lstrip("/") / path, text)
    _inside(node, "mount", "--bind", f"{PLACE}/proc/driver", "/proc/driver")
    # Nothing can be put where a kernel without loadable modules has nothing: there `modules` stays unanswered.
    if "modules" in facts and Path("/proc/modules").exists():
        _inside(node, "mount", "--bind", f"{PLACE}/modules", "/proc/modules")
    for name, probe in STAND_INS.items():
        if probe in facts:
            source = "simulated_nvidia_smi.sh" if name == "nvidia-smi" else f"simulated_driver/stand-ins/{name}"
            _write(root / "usr/local/bin" / name, _packaged_first(name, (_SUPPORT / source).read_text("utf-8")), 0o755)


def strip(node: Node) -> None:
    """The running node shows what it is: a container without a GPU."""
    root = _root(node)
    for point in _covered(node):
        _inside(node, "umount", point)
    shutil.rmtree(root / PLACE.lstrip("/"), ignore_errors=True)
    for path in EQUIPMENT:
        (root / path.lstrip("/")).unlink(missing_ok=True)


def _packaged_first(name: str, text: str) -> str:
    """The stand-in steps aside for nvidia-smi of a package, which knows its own version."""
    first, rest = text.split("\n", 1)
    return f'{first}\n[ -x /usr/bin/{name} ] && exec /usr/bin/{name} "$@"\n{rest}' if name == "nvidia-smi" else text


def _proc(facts: Mapping[str, str]) -> Facts:
    """The files of /proc/driver, with what the driver writes into them."""
    found = {"proc/driver/.simulated": ""}
    for name in ("version", "params"):
        if f"nvidia_{name}" in facts:
            found[f"proc/driver/nvidia/{name}"] = facts[f"nvidia_{name}"]
    for address in facts.get("nvidia_gpus", "").split():
        found[f"proc/driver/nvidia/gpus/{address}/information"] = f"Model: \t\t simulated\nBus Location: \t {address}\n"
    for address in facts.get("nvidia_nvswitch", "").split():
        found[f"proc/driver/nvidia-nvswitch/devices/{address}"] = f"BIOS Version: simulated\nBus Location: {address}\n"
    return found


def _read(bundle: Path) -> Facts:
    return {path.name: path.read_text(encoding="utf-8") for path in bundle.iterdir() if path.is_file()}


def _root(node: Node) -> Path:
    """The node's files as the node sees them."""
    if node.leader is None:
        raise LabError(f"{node.name} does not run. To fix it: start it first; what is put on it lives in memory.")
    return Path(f"/proc/{node.leader}/root")


def _covered(node: Node) -> list[str]:
    """What lies over the node's own /proc, the latest first."""
    lines = Path(f"/proc/{node.leader}/mountinfo").read_text(encoding="utf-8").splitlines()
    return [point for point in reversed([line.split()[4] for line in lines]) if point in _COVERED]


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _inside(node: Node, *command: str) -> None:
    machine.run("nsenter", f"--target={node.leader}", "--mount", "--root", "--wd=/", "--", *command)
