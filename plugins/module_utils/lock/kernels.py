"""Kernels that a repository has: which packages are of one, and what to say where the wanted one is not on offer."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from itertools import zip_longest
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.declaration import KERNEL
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import listed

_NUMBER = re.compile("[0-9]+")
#: generic of 6.8.0-88-generic, cloud-amd64 of 6.1.0-47-cloud-amd64.
_KIND = re.compile(r"-([A-Za-z][A-Za-z0-9-]*)$")
_MOST = 5


def others(resolution: Mapping[str, Any], names: Iterable[str]) -> List[str]:
    """Packages of any kernel, named like those of the wanted one; none where no kernel is wanted."""
    stems = _stems(resolution)
    return [name for name in names if _release(name, stems)]


def not_offered(missing: str, resolution: Mapping[str, Any], offers: Mapping[str, Sequence[Any]]) -> str:
    """That a package of the wanted kernel is not on offer, and which kernels are that come near it."""
    wanted, stems = resolution["kernel"], _stems(resolution)
    there = {name for name, found in offers.items() if found}
    releases = {release for name in there for release in [_release(name, stems)] if release}
    whole = [release for release in releases if all(f"{stem}{release}" in there for stem in stems)]
    near = sorted(whole, key=lambda release: _distance(release, wanted))[:_MOST]
    fix = "declare one of these, or use" if near else "use"
    return (
        f"trainrig_stack.kernel: {wanted}: this kernel is not on offer ({missing} is missing); nearest to it: "
        f"{listed(near)}. To fix it: {fix} a mirror that has this one"
    )


def _stems(resolution: Mapping[str, Any]) -> List[str]:
    """What the names of a kernel's packages begin with: its release is what they end with."""
    return [name[: -len(resolution["kernel"])] for name in resolution["packages"].get("kernel", [])]


def _release(name: str, stems: Sequence[str]) -> Optional[str]:
    """Of which kernel a package is; None where it is of none."""
    rest = next((name[len(stem) :] for stem in stems if name.startswith(stem)), "")
    return rest if KERNEL.fullmatch(rest) else None


def _distance(release: str, wanted: str) -> Tuple[Any, ...]:
    """How far a kernel is from another: those of another kind last, then by their numbers, of equals the newer."""
    kinds = [_KIND.search(text) for text in (release, wanted)]
    one, other = (
        [int(part) for part in _NUMBER.findall(text[: kind.start()] if kind else text)]
        for text, kind in zip((release, wanted), kinds)
    )
    same = (kinds[0] and kinds[0].group(1)) == (kinds[1] and kinds[1].group(1))
    steps = [abs(mine - its) for mine, its in zip_longest(one, other, fillvalue=0)]
    return (not same, steps, [-part for part in one], release)
