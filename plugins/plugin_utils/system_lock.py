"""Makes the system part of a lock: resolves, asks the platform's repositories through apt, notes what they have."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.trainrig.gpu.plugins.module_utils.diagnose.family import member
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import packages
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.apt_output import OutputError, bare
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.systems import Wish
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.answer import FILES, resolve
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.declaration import split
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import listed
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.search import Question
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.table import answer_lines
from ansible_collections.trainrig.gpu.plugins.plugin_utils.apt_root import AptError, AptRoot, Source, own_sources
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load

#: Families whose packages apt can lock; what the others lack is said by name.
_APT = ("debian", "ubuntu")
_NOT_YET = (
    "system packages of {platform} cannot be locked yet. Their names and versions are known (playbooks/resolve.yml); "
    "what is missing is dnf's own solution in a fresh root, with module streams, versionlock, sizes and hashes. To fix "
    "it: leave {platform} out of trainrig_stack.platforms and its hosts out of the groups {groups}; wheels are locked "
    "all the same"
)
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_VARIABLE = "trainrig_repositories"
_MIRROR = f"mirror that has it in {_VARIABLE}"
_TEMPORARY = "trainrig-apt-"
#: What a killed run left behind is nobody's after this many seconds.
_ABANDONED_S = 3600


class SystemLockError(Exception):
    """Why the system part of a lock cannot be made; the text is for people."""


class Repository(NamedTuple):
    """An origin with its address for this inventory."""

    origin: str
    row: Mapping[str, Any]
    sources: list[Source]
    fingerprints: Sequence[str]


class SystemLocker:
    """Turns wishes into the `systems` of a lock."""

    def __init__(self, repositories: Mapping[str, Any], today: str) -> None:
        self._repositories, self._today = repositories, today
        self._data = {name: load(name) for name in FILES}
        self._layers: Mapping[str, Sequence[str]] = self._data["packages"]["layers"]
        self._origins, self._families = load("origins")["origins"], load("families")

    def locked(self, wish: Wish) -> dict[str, Any]:
        """One system of the lock, its resolution and reasons included."""
        code, _machine = split(wish.platform)
        family = self._data["packages"]["platforms"][code]["family"]
        if family not in _APT:
            raise SystemLockError(_NOT_YET.format(platform=wish.platform, groups=listed(self._layers)))
        answer = self._resolved(wish)
        if not answer["resolution"]["packages"]:
            return self._entry(wish, answer)  # nothing to ask a repository for: the CPU, or no driver wanted
        distro = next((name for name, row in self._origins.items() if code in row.get("platforms", {})), None)
        if distro is None:
            raise SystemLockError(
                f"system {_name(wish)}: data/origins.yml does not say which suites {code} has. To fix it: leave it "
                "out of trainrig_stack.platforms; wheels are locked all the same"
            )
        wanted = [distro, *(["nvidia"] if answer["resolution"]["origin"] == "nvidia" else [])]
        with self._asking(_name(wish), wish.platform, wanted) as (root, repositories, origins):
            return self._written(wish, answer, root, repositories, origins)

    def missing(self, system: Mapping[str, Any]) -> list[str]:
        """Which pinned packages of a locked system are not on offer any more, as name=version."""
        wanted = list(dict.fromkeys(origin["id"] for origin in system["origins"]))
        pinned = [row for row in system["packages"] if row["pin"]]
        if not pinned:
            return []
        with self._asking(system["name"], system["platform"], wanted) as (root, _repositories, _origins):
            there = {
                (record["Package"], record["Version"], record.get("SHA256"))
                for record in root.known([row["name"] for row in pinned])
            }
        gone = [row for row in pinned if (row["name"], row["version"], row["sha256"]) not in there]
        return [f"{row['name']}={row['version']}" for row in gone]

    @contextmanager
    def _asking(
        self, name: str, platform: str, wanted: Sequence[str]
    ) -> Iterator[tuple[AptRoot, list[Repository], list[dict[str, Any]]]]:
        """An updated apt root with these origins, checked to be what they should be."""
        code, machine = split(platform)
        repositories = [self._repository(origin, str(code), platform) for origin in wanted]
        _sweep()
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=_temporary_directory()) as directory:
            sources = [source for one in repositories for source in one.sources]
            try:
                root = AptRoot(Path(directory, "root"), _MACHINES[str(machine)], sources)
                root.update()
                yield root, repositories, [line for one in repositories for line in _origin_lines(one, root)]
            except packages.NotOfferedError as error:
                fix = "" if "To fix it" in str(error) else f". To fix it: declare what there is, or name a {_MIRROR}"
                raise SystemLockError(f"system {name}: {error}{fix}") from None
            except (AptError, OutputError) as error:
                fix = f"check url and key of {listed(wanted)} in {_VARIABLE}, and that this machine reaches them"
                raise SystemLockError(f"system {name}: {error}. To fix it: {fix}") from None

    def _written(
        self,
        wish: Wish,
        answer: dict[str, Any],
        root: AptRoot,
        repositories: Sequence[Repository],
        origins: list[dict[str, Any]],
    ) -> dict[str, Any]:
        wished = repositories[-1]  # the only one, or NVIDIA's after the distribution's
        own = [bare(source.uri) for source in wished.sources]
        family = root.offers([name for name in root.names() if member(self._families["driver"], name)])
        answer, chosen = self._choice(wish, answer, root, own)
        resolution = answer["resolution"]
        driver = (resolution["driver"] or {}).get("version")
        root.prefer(packages.preferences(chosen, family, driver, own, companions=not wished.row["gpu"]))
        files = root.solve(_named(chosen))
        records = root.records(files)
        addresses = {
            bare(source.uri) + "/": (one.origin, bool(one.row["gpu"])) for one in repositories for source in one.sources
        }
        brought = self._brought(root, chosen)
        rows = packages.rows(files, records, chosen, addresses, self._families, brought)
        return {
            **self._entry(wish, answer, chosen),
            "origins": origins,
            "packages": rows,
            "remove": packages.siblings(rows, family, driver),
            "conflicts": packages.conflicts(rows, records),
        }

    def _brought(self, root: AptRoot, chosen: Sequence[packages.Choice]) -> dict[str, str]:
        """Which layer brings a package: the first one that, with those before it, does not do without."""
        found: dict[str, str] = {}
        used = [layer for layer in self._layers if any(choice.layer == layer for choice in chosen)]
        for place, layer in enumerate(used[:-1]):  # what no other brings is the last one's
            sofar = root.solve(_named([choice for choice in chosen if choice.layer in used[: place + 1]]))
            for one in sofar:
                found.setdefault(one.name, layer)
        return {"": used[-1], **found} if used else found

    def _entry(self, wish: Wish, answer: Mapping[str, Any], chosen: Sequence[packages.Choice] = ()) -> dict[str, Any]:
        """A system of the lock without what only repositories can tell."""
        resolution = {key: value for key, value in answer["resolution"].items() if key != "packages"}
        named = {name for found in answer["resolution"]["packages"].values() for name in found}
        return {
            "name": _name(wish),
            "pool": wish.pool,
            "platform": wish.platform,
            "gpus": list(wish.gpus),
            "resolution": resolution,
            "because": answer["because"],
            "warnings": answer["warnings"],
            "origins": [],
            "install": {
                layer: [choice.name for choice in chosen if choice.layer == layer]
                for layer in self._layers
                if any(choice.layer == layer for choice in chosen)
            },
            "left_out": sorted(named - {choice.name for choice in chosen}),
            "packages": [],
            "remove": [],
            "conflicts": [],
        }

    def _choice(
        self, wish: Wish, answer: dict[str, Any], root: AptRoot, own: Sequence[str]
    ) -> tuple[dict[str, Any], list[packages.Choice]]:
        """The resolution with a driver that the repository has, and what is asked for by name.

        data/ names the newest driver that it knows; a branch or `auto` takes the newest that is on offer and passes
        every rule, with everything that has to be of the same version.
        """
        declared = wish.stack["driver"]
        driver = answer["resolution"]["driver"]
        names = answer["resolution"]["packages"].get("driver", [])
        versions = [driver["version"]] if driver else [""]
        if driver and not answer["resolution"]["driver_kept"] and declared != driver["version"]:
            offered = packages.of(own, root.offers(names))
            versions = packages.driver_versions(names, offered, driver["branch"])
            if not versions:
                has = dict.fromkeys(offer.version for name in names for offer in offered.get(name, []))
                raise packages.NotOfferedError(
                    f"no driver of branch {driver['branch']} is on offer ({listed(names)}); offered are "
                    f"{listed(has) or 'none'}. To fix it: declare a branch that the repository has, or use a "
                    "mirror that has this one"
                )
        first: packages.NotOfferedError | None = None
        for version in versions:
            known = not driver or version == driver["version"]
            again = answer if known else resolve(self._question(wish, driver=version), self._data)
            if not again["ok"]:
                continue
            if not known:
                _explain(
                    again, version, f"the newest of branch {driver['branch']} that is on offer, declared {declared}"
                )
            offers = root.offers(packages.asked(again["resolution"], root.names()))
            try:
                return again, packages.choices(again["resolution"], offers, self._data["packages"], own)
            except packages.NotOfferedError as error:
                first = first or error
        if first:
            raise first
        text = f"none of the drivers on offer ({listed(versions)}) passes the rules with this declaration"
        raise packages.NotOfferedError(text)

    def _resolved(self, wish: Wish) -> dict[str, Any]:
        answer = resolve(self._question(wish), self._data)
        if not answer["ok"]:
            raise SystemLockError("\n".join([f"system {_name(wish)}:", *answer_lines(answer, 120)]))
        return answer

    def _question(self, wish: Wish, **changed: str) -> Question:
        """`wish.stack` is complete (declaration.declared)."""
        return Question({**wish.stack, **changed}, list(wish.gpus), wish.platform, dict(wish.installed), self._today)

    def _repository(self, name: str, code: str, platform: str) -> Repository:
        """Where an origin is: as the inventory says, or else as this machine's own apt knows it."""
        row, given = self._origins[name], self._repositories.get(name) or {}
        suites = row["platforms"][code] if row["layout"] == "suites" else ["/"]
        uri = str(given.get("url") or _own_address(row) or "")
        keyring = str(given.get("key") or row.get("keyring") or "")
        for key, value, what in (("url", uri, "its address"), ("key", keyring, "the keyring that signs it")):
            if not value:
                raise SystemLockError(
                    f"{_VARIABLE}.{name}.{key}: {what} is not known. To fix it: set it in the inventory, for example "
                    f"{_VARIABLE}: {{{name}: {{url: ..., key: /usr/share/keyrings/{name}.gpg}}}}"
                )
        if row["layout"] == "flat":
            uri = f"{uri.rstrip('/')}/{platform.replace('-', '/')}/"
        sources = [Source(uri, suite, row.get("components", []), keyring) for suite in suites]
        return Repository(name, row, sources, given.get("fingerprints") or row.get("fingerprints") or [])


def _explain(answer: Mapping[str, Any], version: str, why: str) -> None:
    """Says in the reasons that the repository decided, not the user."""
    for row in answer["because"]:
        row["reason"] = row["reason"].replace(f"declared as {version}", why)


def _named(chosen: Sequence[packages.Choice]) -> list[str]:
    return [f"{choice.name}={choice.version}" for choice in chosen]


def _name(wish: Wish) -> str:
    return f"{wish.pool}-{wish.platform}"


def _temporary_directory() -> str | None:
    """apt takes no key from a path with a space in it."""
    return "/tmp" if " " in tempfile.gettempdir() else None


def _sweep() -> None:
    """Removes what killed runs of this user left behind."""
    for path in Path(_temporary_directory() or tempfile.gettempdir()).glob(f"{_TEMPORARY}*"):
        with suppress(OSError):
            status = path.stat(follow_symlinks=False)
            if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _ABANDONED_S and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)


def _own_address(row: Mapping[str, Any]) -> str | None:
    """The address at which this machine's own apt has the origin; any of its platforms' suites will do."""
    suites = {suite for found in row.get("platforms", {}).values() for suite in found}
    for source in own_sources():
        named = source["origin"] == row["release"]["origin"] and source["label"] == row["release"]["label"]
        unread = not source["origin"] and source["component"] in row.get("components", [])[:1]
        if source["release"] in suites and (named or unread):
            return source["uri"]
    return None


def _origin_lines(one: Repository, root: AptRoot) -> list[dict[str, Any]]:
    """What the lock says of an origin, a suite each; SystemLockError when it is not the one it should be."""
    lines: list[dict[str, Any]] = []
    for source in one.sources:
        release, signers = root.release(source), root.signers(source)
        said = {"origin": release.get("Origin", ""), "label": release.get("Label", "")}
        if said != dict(one.row["release"]):
            raise SystemLockError(
                f"{_VARIABLE}.{one.origin}.url: the repository calls itself {said['origin']} / {said['label']}, not "
                f"{one.row['release']['origin']} / {one.row['release']['label']}. To fix it: name the right one"
            )
        if one.fingerprints and not set(signers) & set(one.fingerprints):
            raise SystemLockError(
                f"{_VARIABLE}.{one.origin}.key: signed by {listed(signers) or 'no known key'}, not by "
                f"{listed(one.fingerprints)}. To fix it: use the real repository, or name the mirror's own key in "
                f"{_VARIABLE}.{one.origin}.fingerprints"
            )
        lines.append(
            {
                "id": one.origin,
                "suite": source.suite,
                "components": list(source.components),
                **said,
                "fingerprints": [key for key in signers if not one.fingerprints or key in one.fingerprints],
            }
        )
    return lines
