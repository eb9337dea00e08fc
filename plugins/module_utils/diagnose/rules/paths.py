"""Rules about search paths and variables of a login: what wins over the libraries that belong to a job."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Dict, Iterator, List, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import installed
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.finding import Evidence, evidence
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.host import Host, Setting
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.registry import Hit, host_rule
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import major_minor, numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.words import listed

_STUBS = re.compile(r"/stubs(/|$)")
_COMPAT = re.compile(r"/cuda[^/]*/compat(/|$)|/cuda-compat")


def _entries(host: Host, name: str = "LD_LIBRARY_PATH") -> List[Tuple[str, Setting]]:
    """Directories of a path variable with the place where each is set, each once."""
    found: Dict[str, Setting] = {}
    for setting in host.settings(name):
        for part in setting.value.split(":"):
            part = part.strip()
            if part and not part.startswith("$"):
                found.setdefault(part.rstrip("/") or "/", setting)
    return list(found.items())


def _loader_paths(host: Host) -> List[Tuple[str, Evidence]]:
    """Directories in which the loader looks for everybody: LD_LIBRARY_PATH and ld.so.conf.d."""
    found = [(path, setting.evidence()) for path, setting in _entries(host)]
    for row in host.get("configuration", "library_paths") or []:
        found.append((str(row["path"]).rstrip("/"), evidence("env_paths", f"{row['file']}: {row['raw']}")))
    return found


@host_rule("paths.stub_libraries")
def stub_libraries(host: Host) -> Iterator[Hit]:
    for path, shown in _loader_paths(host):
        if _STUBS.search(path):
            yield Hit(f"{path} is in the loader's path: programs find a stub instead of the driver", [shown], path=path)
            return


@host_rule("paths.compat_libcuda")
def compat_libcuda(host: Host) -> Iterator[Hit]:
    """Which libcuda.so.1 a program gets."""
    # An image may carry the package for hosts with an older driver; there it is meant.
    if host.no_gpus or host.container:
        return
    first = next(
        (row for row in host.get("configuration", "libraries") or [] if row.get("name") == "libcuda.so.1"), None
    )
    packages = installed(host, "cuda_compat")

    def package(path: str) -> str:
        """The installed one; else, where no list of packages was seen, the one that owns such a directory."""
        release = re.search(r"/cuda-([0-9]+)\.([0-9]+)/", path + "/")
        asked = host.answered("dpkg") or host.answered("rpm")
        guess = str(host.fact("rules", "compat_package")).format(*release.groups()) if release and not asked else None
        return next(iter(packages), guess or "the cuda-compat package")

    if first and _COMPAT.search(str(first.get("path"))):
        shown = [evidence("env_paths", first.get("raw"))]
        shown += [evidence("dpkg", f"{name} {version}") for name, version in list(packages.items())[:1]]
        text = f"programs load {first['path']} instead of the driver's libcuda"
        yield Hit(text, shown, package=package(first["path"]))
        return
    for path, shown_path in _loader_paths(host):
        if _COMPAT.search(path + "/"):
            text = f"{path} is in the loader's path: its libcuda wins over the driver's"
            yield Hit(text, [shown_path], package=package(path))
            return


@host_rule("paths.library_path")
def library_path(host: Host) -> Iterator[Hit]:
    """LD_LIBRARY_PATH beats the libraries that an environment brings along."""
    # Plugins that NCCL looks for by this very path are no NCCL.
    plugins = str(host.fact("rules", "nccl_plugins") or "$^")
    brought: List[Tuple[str, Setting, str]] = []
    toolkits: List[Tuple[str, Setting, str, Optional[str]]] = []
    for path, setting in _entries(host):
        if _STUBS.search(path) or _COMPAT.search(path + "/") or re.search(plugins, path):
            continue
        library = re.search(r"(?i)(?<![a-z])(nccl|cudnn|nvjitlink|cusparselt|cutensor)(?![a-z])", path)
        toolkit = re.search(
            r"(?i)/cuda(?:toolkit)?(?:[-/_]v?([0-9]+\.[0-9]+))?(?:/|$)|/cuda[-_/]?([0-9]+\.[0-9]+)", path
        )
        if library:
            brought.append((path, setting, f"{library.group(1).lower()}{_version(path)}"))
        elif toolkit:
            toolkits.append((path, setting, f"cuda{_version(path)}", toolkit.group(1) or toolkit.group(2)))
    built = major_minor(host.torch.get("cuda"))
    older = [row for row in toolkits if row[3] and built and numbers(row[3]) < numbers(built)]
    rows = [*((path, setting) for path, setting, _what in brought), *((row[0], row[1]) for row in toolkits)]
    shown = [evidence(setting.probe, f"{setting.place}: {path}") for path, setting in rows[:6]]
    if brought or older:
        what = [label for _path, _setting, label in brought] + [row[2] for row in toolkits]
        yield Hit(f"LD_LIBRARY_PATH overrides an environment's own libraries: {listed(what)}", shown)
    elif toolkits:
        yield Hit(f"LD_LIBRARY_PATH is set for everybody: {listed(row[0] for row in toolkits)}", shown, severity="warn")


def _version(path: str) -> str:
    match = re.search(r"[0-9]+(?:\.[0-9]+){1,3}", path)
    return f" {match.group()}" if match else ""


@host_rule("paths.toolkit_of_another_release")
def toolkit_of_another_release(host: Host) -> Iterator[Hit]:
    """nvcc in the PATH against the declared toolkit; and the distribution's toolkit beside NVIDIA's."""
    have, want = host.get("configuration", "compilers", "nvcc"), major_minor(host.wants.cuda)
    distribution = installed(host, "distribution_toolkit")
    shown = [evidence("dpkg", f"{name} {version}") for name, version in distribution.items()]
    if want and have and major_minor(have) != want:
        where = f" from {next(iter(distribution))}" if distribution else ""
        yield Hit(
            f"nvcc in the PATH is {major_minor(have)}{where}, declared is CUDA {want}",
            [evidence("compilers", f"nvcc {have}"), *shown],
            want=want,
        )
    elif want and distribution and host.wants.origin != "distro" and not have:
        yield Hit(
            f"{next(iter(distribution))} is installed beside the declared CUDA {want}",
            shown,
            severity="warn",
            want=want,
        )


@host_rule("paths.devices_hidden")
def devices_hidden(host: Host) -> Iterator[Hit]:
    """A variable for everybody that hides GPUs from every job."""
    for setting in host.settings("CUDA_VISIBLE_DEVICES"):
        shown = [setting.evidence()]
        listed_devices = [part for part in setting.value.replace(" ", "").split(",") if part]
        count = len(host.gpus)
        if setting.value.strip() in ("", "-1", "NoDevFiles"):
            yield Hit(
                f"{setting.place} hides all GPUs from jobs (CUDA_VISIBLE_DEVICES={setting.value!r})",
                shown,
                severity="fail" if count else None,
                place=setting.place,
            )
        elif count and len(set(listed_devices)) < count:
            yield Hit(
                f"{setting.place} shows jobs {len(set(listed_devices))} of {count} GPUs", shown, place=setting.place
            )
        elif not count:
            continue
        else:
            continue
        return


@host_rule("paths.debugging_left_on")
def debugging_left_on(host: Host) -> Iterator[Hit]:
    """Variables that serialise or slow down every job, set for everybody."""
    table: Dict[str, str] = host.fact("rules", "debugging_variables") or {}
    for name, pattern in table.items():
        found: Optional[Setting] = next(
            (one for one in host.settings(name) if re.fullmatch(pattern, one.value.strip())), None
        )
        if found:
            yield Hit(
                f"{found.place} sets {name}={found.value} for every job",
                [found.evidence()],
                name=name,
                place=found.place,
            )
