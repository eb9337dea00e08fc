"""The drivers a declaration allows, the preferred one first: what is there, then long-term and production branches."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import numbers
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.rows_node import Data, Made, Row, cite

_LASTING = ("LTSB", "PB")


class Drivers:
    """Rows for drivers. `near`: a version to stay close to, where a declared one is to be moved."""

    def __init__(self, wishes: Mapping[str, str], context: Mapping[str, Row], data: Data, made: Made) -> None:
        self._wishes, self._data, self._made = wishes, data, made
        self._today = str(context["today"]["date"])
        self._pool, self._platform, self._installed = context["pool"], context["platform"], context["installed"]
        self._branches: Mapping[str, Any] = data["drivers"]["branches"]

    def rows(self, near: Optional[str] = None) -> Iterator[Row]:
        """At least one row, the preferred one first."""
        wish, have = self._wishes["driver"], self._installed["driver"]
        if self._wishes["accelerator"] == "cpu":
            yield self._absent("the accelerator is the CPU", wanted=False)
        elif wish in ("keep", "none") and have:
            yield from (self._row(have, flavour, kept=True) for flavour in self._flavours(have, kept=True))
        elif wish == "none":
            yield self._absent("the stack says so", wanted=False)
        elif wish == "keep":
            yield self._absent("no driver was found on the node", wanted=True)
        else:
            version = None
            for version, kept in self._versions(wish, near):
                yield from (self._row(version, flavour, kept=kept) for flavour in self._flavours(version, kept))
            if version is None:
                yield self._absent("data/drivers.yml knows no long-term or production branch", wanted=True)

    def _versions(self, wish: str, near: Optional[str]) -> Iterator[Tuple[str, bool]]:
        distro = self._wishes["origin"] == "distro"
        have = self._installed["driver"]
        if wish == "auto":
            if have and self._coherent():
                yield have, True
            # Where an archive has no driver at all, the rules refuse whatever is proposed and say so.
            branches = list((distro and self._platform["distro_branches"]) or self._lasting(near))
        elif wish in self._branches:
            branches = [wish]
        else:
            yield wish, wish == have
            return
        for branch in branches:
            newest = self._platform["distro_newest"].get(branch) if distro else None
            releases = self._branches.get(branch, {}).get("releases", [])
            for version in [newest] if newest else sorted(releases, key=numbers, reverse=True):
                yield version, version == have

    def _lasting(self, near: Optional[str]) -> Sequence[str]:
        """Never a new-feature branch unasked; those past their end last."""
        lasting = [
            name
            for name, row in self._branches.items()
            if row["type"] in _LASTING and (row.get("first_release") or "") <= self._today
        ]
        newest_first = sorted(lasting, key=numbers, reverse=True)
        if near and near.partition(".")[0] in self._branches:
            order = sorted(self._branches, key=numbers)
            at = order.index(near.partition(".")[0])
            newest_first.sort(key=lambda name: abs(order.index(name) - at))
        return sorted(newest_first, key=lambda name: bool(self._ended(self._branches[name])))

    def _flavours(self, version: str, kept: bool) -> Sequence[str]:
        declared = self._wishes["kernel_module"]
        if declared != "auto":
            return [declared]
        have = self._installed["module"]
        if kept and have:
            others = [] if self._wishes["driver"] == "keep" else ["open", "proprietary"]
            return list(dict.fromkeys([have, *others]))
        preferred_from = self._data["drivers"]["open_preferred_from"]["branch"]
        open_first = numbers(version)[:1] >= numbers(preferred_from)
        order = ["open", "proprietary"] if open_first else ["proprietary", "open"]
        return sorted(order, key=lambda flavour: flavour not in self._pool["flavours"])

    def _coherent(self) -> bool:
        library = self._installed["library"]
        return not library or numbers(library) == numbers(self._installed["driver"])

    def _ended(self, branch: Mapping[str, Any]) -> Optional[str]:
        """How to say that a branch is past its end; None where it is not."""
        end = branch.get("end_of_life")
        if end:
            return f"ended {end}" if self._today[:7] > end else None
        return {"eol": "has ended", "superseded": "is superseded"}.get(branch.get("status", ""))

    def _row(self, version: str, flavour: str, kept: bool) -> Row:
        managed = not kept or self._wishes["driver"] not in ("keep", "none")
        key = ("driver", version, flavour, kept, managed)
        if key not in self._made:
            self._made[key] = self._new(version, flavour, kept, managed)
        return self._made[key]

    def _new(self, version: str, flavour: str, kept: bool, managed: bool) -> Row:
        name = version.partition(".")[0]
        branch = self._branches.get(name) or {}
        ended = self._ended(branch)
        return {
            "version": version,
            "branch": name,
            "flavour": flavour,
            "flavours": branch.get("modules"),
            "present": True,
            "kept": kept,
            "managed": managed,
            "coherent": self._coherent() if kept else True,
            "library": self._installed["library"],
            "known_release": version in branch.get("releases", []),
            "known_branch": bool(branch),
            "lasting": branch["type"] in _LASTING if branch.get("type") else None,
            "type": branch.get("type"),
            "end_of_life": branch.get("end_of_life"),
            "ended": bool(ended),
            "end": ended,
            "source": cite("drivers", branch, self._data) or ["data/drivers.yml"],
        }

    def _absent(self, why: str, wanted: bool) -> Row:
        """No driver: nothing to judge, and a refusal only where one was wanted."""
        key = ("driver", why, wanted)
        if key not in self._made:
            row: Row = dict.fromkeys(self._new("0", "", kept=False, managed=False))
            row.update(present=False if wanted else None, why=why, source=["the declaration"])
            self._made[key] = row
        return self._made[key]
