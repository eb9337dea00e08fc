"""Simulated package repositories in the shape of NVIDIA's and Ubuntu's: names, versions and relations, stubs inside.

The tables are simulated_nvidia.yml and simulated_ubuntu.yml. They say what is copied from where, and name the traps.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

from tests.support.simulated_repository import SigningKey, SimulatedIndex, SimulatedRepository

# NVIDIA's name of a machine in its paths, and the architecture of the packages there.
ARCHITECTURES = {"x86_64": "amd64", "sbsa": "arm64"}
NVIDIA_RELEASE = {"Origin": "NVIDIA", "Label": "NVIDIA CUDA"}
PIN_FILE = "etc/apt/preferences.d/nvidia-driver-pin"
# What a pinning package holds; the fabric manager's source package is not among them.
PINNED = "src:*nvidia*:any src:cuda-drivers:any src:cuda-compat:any"
Words = dict[str, str]


@functools.lru_cache(maxsize=None)
def table(name: str) -> Any:
    return yaml.safe_load((Path(__file__).parent / f"{name}.yml").read_text(encoding="utf-8"))


def simulated_nvidia(
    directory: Path,
    platforms: tuple[str, ...] = ("ubuntu2404",),
    machine: str = "x86_64",
    key: SigningKey | None = None,
) -> SimulatedRepository:
    """NVIDIA's repositories, published: <url>/<platform>/<machine>/, flat, one index a platform in the order given."""
    repository = SimulatedRepository(directory, key)
    for platform in platforms:
        index = repository.flat(f"{platform}/{machine}", NVIDIA_RELEASE, ARCHITECTURES[machine])
        fill_nvidia(index, platform, machine)
    repository.publish()
    return repository


def simulated_ubuntu(
    directory: Path, platforms: tuple[str, ...] = ("ubuntu2204", "ubuntu2404"), key: SigningKey | None = None
) -> SimulatedRepository:
    """Ubuntu's archive, published: suites <codename>, <codename>-security and <codename>-updates for each platform."""
    repository = SimulatedRepository(directory, key)
    components = ("main", "restricted", "universe", "multiverse")
    for platform in platforms:
        words = table("simulated_ubuntu")["platforms"][platform]
        for pocket in ("", "security", "updates"):
            release = {"Origin": "Ubuntu", "Label": "Ubuntu", "Version": words["series"], "Codename": words["codename"]}
            suite = "-".join(filter(None, (words["codename"], pocket)))
            fill_ubuntu(repository.suite(suite, release, "amd64", components), platform, pocket)
    repository.publish()
    return repository


def driver_versions(branch: str) -> list[str]:
    """The driver versions of a branch in the simulated NVIDIA repositories, oldest first."""
    return list(table("simulated_nvidia")["branches"][branch]["releases"])


def fill_nvidia(index: SimulatedIndex, platform: str, machine: str, data: Any = None) -> None:
    """data: another table of the same shape."""
    data = data or table("simulated_nvidia")
    where = data["platforms"][platform]
    for branch in where.get("branches", data["branches"]):
        _fill_branch(index, branch, data, where["layout"], machine)
    for family in data["others"]:
        if family.get("layout", where["layout"]) == where["layout"]:
            for version in family["versions"]:
                words = {"version": version, "base": _base(version)}
                _add_all(index, family["packages"], words, version, machine=machine)
    _fill_toolkits(index, data["toolkits"], machine)


def _fill_branch(index: SimulatedIndex, branch: str, data: Any, layout: str, machine: str) -> None:
    row, groups = data["branches"][branch], data[layout]
    beside = [name for name in row["groups"] if name.startswith("beside")]
    for version, revision in row["releases"].items():
        full = f"{version}-{revision if layout == 'ubuntu' else 1}"
        words = {"branch": branch, "version": version, "full": full}
        for name in row["groups"]:
            if name not in beside:
                _add_all(index, groups[name]["packages"], words, full, groups[name].get("source", ""), machine)
        if row["exact_pins"] == "all" or version in row["exact_pins"]:
            exact = row.get("exact_pin_revision", revision) if layout == "ubuntu" else 1
            _add_pin(index, f"nvidia-driver-pinning-{version}", f"{version}-{exact}", f"{version}-*")
    for version, revision in row["beside"].items():
        words = {"branch": branch, "version": version}
        for name in beside:
            _add_all(index, groups[name]["packages"], words, f"{version}-{revision}", machine=machine)
    _add_pin(index, f"nvidia-driver-pinning-{branch}", f"{branch}-{row['pin_revision']}", f"{branch}.*")


def _fill_toolkits(index: SimulatedIndex, toolkits: Any, machine: str) -> None:
    for dot, versions in toolkits["releases"].items():
        words = {"dash": dot.replace(".", "-"), "major": dot.split(".")[0], "driver": toolkits["drivers"][dot]}
        for version in versions:
            _add_all(index, toolkits["packages"], {**words, "base": _base(version)}, version, machine=machine)
        for version in toolkits["compat"].get(dot, []):
            index.add(f"cuda-compat-{words['dash']}", version, source="cuda-compat")


def fill_ubuntu(index: SimulatedIndex, platform: str, pocket: str) -> None:
    data = table("simulated_ubuntu")
    words = {**data["platforms"][platform], "branch": data["driver"]["branch"]}
    if not pocket:
        for name, row in data["base"].items():
            version = row["version"].format(**words)
            rest = {key: value for key, value in row.items() if key != "version"}
            _add_all(index, {name: rest}, {**words, "version": version}, version)
        return
    driver = data["driver"]
    row = driver["pockets"][pocket]
    full = row["full"].format(**words)
    words.update(full=full, version=full.split("-")[0], build=str(row["build"]))
    for flavour in driver["flavours"]:
        source = f"nvidia-graphics-drivers-{flavour}"
        _add_all(index, driver["packages"], {**words, "flavour": flavour}, full, source, component="restricted")
    _add_all(index, driver["beside"], words, full, "fabric-manager-580", component="multiverse")
    for name, new in driver["transitional"].items():
        index.add(name, full, component="restricted", source=f"nvidia-graphics-drivers-{words['branch']}", depends=new)


def _add_all(
    index: SimulatedIndex,
    packages: dict[str, dict[str, Any]],
    words: Words,
    version: str,
    source: str = "",
    machine: str = "",
    component: str = "",
) -> None:
    """Rows of a table as packages of one version."""
    for name, row in packages.items():
        if machine and machine not in row.get("machines", [machine]):
            continue
        fields: dict[str, Any] = {key: str(value).format(**words) for key, value in row.items() if key in RELATIONS}
        if "only" in row:
            for key in ("provides", "conflicts", "replaces"):
                fields[key] = ", ".join(filter(None, (fields.get(key, ""), row["only"].format(**words))))
        index.add(
            name.format(**words),
            row.get("version", version).format(**words),
            architecture="all" if row.get("all") else "",
            component=row.get("component", component),
            source=row.get("source", source).format(**words),
            essential=bool(row.get("essential")),
            **fields,
        )


RELATIONS = ("pre_depends", "depends", "recommends", "conflicts", "breaks", "replaces", "provides")


def _add_pin(index: SimulatedIndex, name: str, version: str, pattern: str) -> None:
    """A pinning package: it brings a preferences file, so it steers the next run of apt, not its own."""
    text = f"Package: {PINNED}\nPin: version {pattern}\nPin-Priority: 1000\n"
    only = "nvidia-driver-pinning"
    index.add(name, version, architecture="all", provides=only, conflicts=only, replaces=only, files={PIN_FILE: text})


def _base(version: str) -> str:
    return version.rpartition(":")[2].rpartition("-")[0]
