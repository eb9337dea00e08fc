"""Which packages of a platform a resolution means: versions from what is on offer, apt's pins, rows of a lock."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import member
from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.versions import (
    branch,
    driver_part,
    major_minor,
    numbers,
    upstream,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import kernels
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.apt_output import File, Offer, names_in
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import listed

Offers = Mapping[str, Sequence[Offer]]
#: Versioned exactly with the driver.
_WITH_DRIVER = ("driver", "fabric_manager", "imex")
#: Names of compiled modules, one for each kernel there ever was.
_EACH_KERNEL = re.compile(r"^linux-(modules|objects|signatures)-nvidia-")
#: A kernel breaks old releases of tools that only some nodes have; none of them has to go for it.
_KERNEL = re.compile(r"^linux-(image|headers)-")
_BUILT_FOR = re.compile(r"\+cuda([0-9]+\.[0-9]+)$")


class NotOfferedError(ValueError):
    """No repository of the wished origin has what the declaration means; the text is for people."""


class Choice(NamedTuple):
    """A package that a layer asks for by name."""

    layer: str
    name: str
    version: str
    alone: bool = False  # of the distribution, whatever the origin: not pinned with all that is built beside it


def driver_versions(names: Sequence[str], offers: Offers, wished_branch: str) -> List[str]:
    """Driver versions of a branch of which every package is on offer, the newest first."""
    sets = []
    for name in names:
        parts = {driver_part(offer.version) for offer in offers.get(name, [])}
        sets.append({part for part in parts if part and branch(part) == wished_branch})
    return sorted(set.intersection(*sets) if sets else set(), key=numbers, reverse=True)


def asked(resolution: Mapping[str, Any], names: Iterable[str]) -> List[str]:
    """The names whose offers decide, out of all `names`: what is asked for, and kernels that could be meant instead."""
    wanted = [name for found in resolution["packages"].values() for name in found]
    return [*wanted, *(name for name in kernels.others(resolution, names) if name not in wanted)]


def of(uris: Sequence[str], offers: Offers) -> Dict[str, List[Offer]]:
    """What the repositories at these addresses offer."""
    return {name: [offer for offer in found if offer.uri.rstrip("/") in uris] for name, found in offers.items()}


def choices(
    resolution: Mapping[str, Any], offers: Offers, table: Mapping[str, Any], own: Sequence[str]
) -> List[Choice]:
    """Everything that is asked for by name, with its exact package version. NotOfferedError names what is missing.

    `table`: content of data/packages.yml; `offers`: from every origin; `own`: addresses of the wished one.
    """
    mine = of(own, offers)
    of_distro = mine
    if resolution["origin"] != "distro":
        of_distro = {name: [offer for offer in found if offer not in mine[name]] for name, found in offers.items()}
    found: List[Choice] = []
    for layer, parts in table["layers"].items():
        for part in parts:
            for name in resolution["packages"].get(part, []):
                alone = part == "kernel" or name in table["beside_driver"]["subnet_manager"]["from_distro"]
                offered = (of_distro if alone else mine).get(name, [])
                if part == "kernel" and not offered:
                    raise NotOfferedError(kernels.not_offered(name, resolution, of_distro))
                version = _version(part, name, resolution, offered, "distro" if alone else resolution["origin"])
                if version:
                    found.append(Choice(layer, name, version, alone))
    return found


def _version(
    part: str, name: str, resolution: Mapping[str, Any], offers: Sequence[Offer], origin: str
) -> Optional[str]:
    """The package version to take; None where the part is welcome and not needed."""
    driver = (resolution["driver"] or {}).get("version")
    wish: Optional[str] = None
    if part in _WITH_DRIVER:
        wish = driver
        fitting = [offer for offer in offers if driver_part(offer.version) == driver]
    elif part == "cuda_toolkit":
        # NVIDIA's name says the version; a distribution's does not, and its archive has one.
        wish = major_minor(resolution["cuda_toolkit"].replace("u", "."))
        fitting = [offer for offer in offers if major_minor(upstream(offer.version)) == wish]
    elif part == "nccl":
        wish = resolution["system_nccl"]
        fitting = _nccl_for(resolution, [offer for offer in offers if upstream(offer.version) == wish])
    else:
        wish = resolution["container_toolkit"] if part == "container_toolkit" else None
        fitting = [offer for offer in offers if wish is None or upstream(offer.version) == wish]
    if fitting:
        return fitting[0].version
    if part == "driver_pin" or (part == "container_toolkit" and wish is None):
        return None
    has = listed(dict.fromkeys(offer.version for offer in offers)) if offers else "nothing of that name"
    raise NotOfferedError(f"{name} {wish or 'in any version'} is not on offer: {origin} has {has}")


def _nccl_for(resolution: Mapping[str, Any], offers: Sequence[Offer]) -> List[Offer]:
    """NVIDIA builds one NCCL for several toolkits: the one for this toolkit first, then the nearest of its major."""
    toolkit = major_minor(str(resolution["cuda_toolkit"] or resolution["cuda"]).replace("u", "."))
    wanted = numbers(toolkit)

    def distance(offer: Offer) -> Tuple[int, ...]:
        built = _BUILT_FOR.search(offer.version)
        parts = numbers(built.group(1)) if built else wanted
        return (abs(parts[0] - wanted[0]), abs(parts[1] - wanted[1]), -parts[1])

    near = sorted(offers, key=distance)
    return [offer for offer in near if distance(offer)[0] == 0]


def preferences(
    chosen: Sequence[Choice], offers: Offers, driver: Optional[str], own_uris: Sequence[str], companions: bool
) -> str:
    """apt_preferences(5) that leave one version of each package of the driver's family: the locked driver's.

    `offers`: of the whole family, from every origin; `own_uris`: addresses of the wished one. Whatever has no such
    version is out of reach: a dependency without a version can then not pull another branch or patch level in.
    `companions`: tools of the driver's branch may be of another patch level (a distribution does not rebuild them all).
    """
    exact = {choice.name: choice.version for choice in chosen}
    barred: List[str] = []
    for name in sorted(offers):
        if name in exact or driver is None:
            continue
        own = [offer for offer in offers[name] if offer.uri in own_uris]
        fitting = [offer.version for offer in own if driver_part(offer.version) == driver]
        if fitting:
            exact[name] = fitting[0]
        elif not (companions and any(branch(driver_part(offer.version)) == branch(driver) for offer in own)) and any(
            driver_part(offer.version) for offer in offers[name]
        ):
            barred.append(name)
    blocks = [_pin([name], f"version {version}", 1001) for name, version in sorted(exact.items())]
    if barred:
        blocks.append(_pin(barred, "release *", -1))
    return "\n".join(blocks)


def _pin(names: Sequence[str], what: str, priority: int) -> str:
    return f"Package: {' '.join(names)}\nPin: {what}\nPin-Priority: {priority}\n"


def rows(
    found: Sequence[File],
    records: Iterable[Mapping[str, str]],
    chosen: Sequence[Choice],
    origins: Mapping[str, Tuple[str, bool]],
    families: Mapping[str, Any],
    brought: Mapping[str, str],
) -> List[Dict[str, Any]]:
    """One row a package. `origins`: address of a repository -> (origin, all of it is the GPU's); `brought`: the layer
    that brings a package, by its name; "" is that of all others.

    Pinned is what comes from a GPU's origin, belongs to the driver, was asked for, or is built from the source of what
    was asked for (but not of what stands alone: a kernel's source also builds the C library's headers); the rest only
    stands there for the record.
    """
    by_name = {record["Package"]: record for record in records}
    names = {choice.name for choice in chosen}
    sources = {_source(by_name[choice.name]) for choice in chosen if choice.name in by_name and not choice.alone}
    result: List[Dict[str, Any]] = []
    for one in found:
        origin, of_gpu = _origin(one.uri, origins)
        built_with = _source(by_name[one.name]) in sources
        pinned = of_gpu or member(families["driver"], one.name) or one.name in names or built_with
        kibibytes = by_name.get(one.name, {}).get("Installed-Size", "0")
        result.append(
            {
                "name": one.name,
                "version": one.version,
                "architecture": one.architecture,
                "origin": origin,
                "layer": brought.get(one.name) or brought[""],
                "size": one.size,
                "installed_size": 1024 * int(kibibytes) if kibibytes.isdigit() else 0,
                "sha256": one.sha256,
                "pin": bool(pinned),
            }
        )
    return result


def siblings(locked: Sequence[Mapping[str, Any]], offers: Offers, driver: Optional[str]) -> List[str]:
    """Packages of other branches that a repository knows: they have to go where they are installed."""
    kept = {row["name"] for row in locked}
    return [
        name
        for name in sorted(offers)
        if driver and name not in kept and not _EACH_KERNEL.match(name) and _only_other_branches(offers[name], driver)
    ]


def _only_other_branches(offers: Sequence[Offer], driver: str) -> bool:
    branches = {branch(part) for offer in offers if (part := driver_part(offer.version))}
    return bool(branches) and branch(driver) not in branches


def conflicts(locked: Sequence[Mapping[str, Any]], records: Iterable[Mapping[str, str]]) -> List[str]:
    """Names that the pinned packages declare a conflict with, those that are themselves locked left out."""
    pinned = {row["name"] for row in locked if row["pin"] and not _KERNEL.match(row["name"])}
    named = {
        name
        for record in records
        if record["Package"] in pinned
        for field in ("Conflicts", "Breaks")
        for name in names_in(record.get(field, ""))
    }
    return sorted(named - {row["name"] for row in locked})


def _source(record: Mapping[str, str]) -> str:
    return record.get("Source", record["Package"]).split(" ")[0]


def _origin(uri: str, origins: Mapping[str, Tuple[str, bool]]) -> Tuple[str, bool]:
    """Of which repository a file is: the longest address that its own begins with."""
    fitting = [address for address in origins if uri.startswith(address)]
    return origins[max(fitting, key=len)]
