"""One apt transaction: what is asked for, what apt says it would do, whether that may be done, how to take it back."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence

#: Lines of `apt-get --simulate`: Inst NAME [OLD] (NEW ...), Remv NAME [OLD].
_INSTALL = re.compile(r"^Inst (?P<name>\S+)(?: \[(?P<old>[^\]]*)\])? \((?P<new>\S+) ")
_REMOVE = re.compile(r"^(?:Remv|Purg) (?P<name>\S+)(?: \[(?P<old>[^\]]*)\])?")
#: A package that is there as a whole, on hold or not (dpkg-query(1), db:Status-Abbrev).
_WHOLE = ("ii", "hi")
#: Not there: unknown, or nothing but its configuration files.
_GONE = ("un", "rc", "pn")


class Step(NamedTuple):
    """What happens to one package; `old` or `new` is empty where it is not there before or after."""

    name: str
    old: str
    new: str


class Present(NamedTuple):
    """A package as dpkg knows it."""

    version: str
    state: str  # the abbreviation of dpkg-query: ii, hi, iF, iU, ...

    @property
    def whole(self) -> bool:
        return self.state[:2] in _WHOLE and not self.state[2:].strip()


def installed(text: str) -> Dict[str, Present]:
    """Of `dpkg-query -W -f '${db:Status-Abbrev}|${Package}|${Version}\\n'`: what is there, whole or not, by name."""
    found: Dict[str, Present] = {}
    for line in text.splitlines():
        state, name, version = line.split("|")
        if state[:2] not in _GONE:
            found[name] = Present(version, state)
    return found


class Wish(NamedTuple):
    """Exact versions that are to be there, and names that are not."""

    packages: Mapping[str, str]
    remove: Sequence[str]

    def differing(self, present: Mapping[str, Present]) -> List[str]:
        """Names that are not there, not at their version, or not whole."""
        return sorted(
            name
            for name, version in self.packages.items()
            if name not in present or present[name].version != version or not present[name].whole
        )

    def leaving(self, present: Mapping[str, Present]) -> List[str]:
        """Names that are there and have to go."""
        return sorted(name for name in set(self.remove) - set(self.packages) if name in present)

    def words(self, present: Mapping[str, Present]) -> List[str]:
        """What apt-get install is told. All of it at once, so that nothing in between has to be possible."""
        whole = [f"{name}={version}" for name, version in sorted(self.packages.items())]
        return whole + [f"{name}-" for name in self.leaving(present)]


def simulated(text: str) -> List[Step]:
    """Of `apt-get install --simulate`: what would be done, in apt's order, each package once."""
    found: Dict[str, Step] = {}
    for line in text.splitlines():
        match = _INSTALL.match(line)
        if match:
            old = found[match["name"]].old if match["name"] in found else match["old"] or ""
            found[match["name"]] = Step(match["name"], old, match["new"])
            continue
        match = _REMOVE.match(line)
        if match and match["name"] not in found:
            found[match["name"]] = Step(match["name"], match["old"] or "", "")
    return list(found.values())


def unwanted(steps: Iterable[Step], wish: Wish) -> List[str]:
    """Packages that would go though nobody said so."""
    return sorted(step.name for step in steps if not step.new and step.name not in wish.remove)


def undone(steps: Iterable[Step], before: Mapping[str, Present]) -> Wish:
    """The transaction that takes these steps back: earlier versions again, new packages away."""
    names = [step.name for step in steps]
    return Wish(
        {name: before[name].version for name in names if name in before},
        [name for name in names if name not in before],
    )


def told(steps: Iterable[Step]) -> Dict[str, Any]:
    """The steps by kind, for people and for a diff."""
    return {
        step.name: f"{step.old} -> {step.new}" if step.old and step.new else step.new or "removed" for step in steps
    }
