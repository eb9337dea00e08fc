"""Reads and compares version numbers of drivers, packages, toolkits and wheels."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Optional, Tuple

_DRIVER = re.compile(r"(?<![0-9.])([0-9]{3,4}\.[0-9]{2,3}(?:\.[0-9]{2,3})?)(?![0-9])")


def numbers(version: Optional[str]) -> Tuple[int, ...]:
    """The leading dotted number as a tuple: ``580.95.05-1`` gives ``(580, 95, 5)``; nothing gives ``()``."""
    match = re.match(r"\s*v?([0-9]+(?:\.[0-9]+)*)", version or "")
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def at_least(version: Optional[str], floor: Optional[str]) -> Optional[bool]:
    """Whether a version reaches a floor; None when either cannot be read."""
    have, want = numbers(version), numbers(floor)
    if not have or not want:
        return None
    width = max(len(have), len(want))
    return have + (0,) * (width - len(have)) >= want + (0,) * (width - len(want))


def differs(one: Optional[str], other: Optional[str]) -> Optional[bool]:
    """Whether two driver versions differ in any component that both sides give; None when one is unknown.

    All three components count. Where one side has only two (a tool that prints no more), those two are compared.
    """
    left, right = numbers(one), numbers(other)
    if not left or not right:
        return None
    width = min(len(left), len(right))
    return left[:width] != right[:width]


def upstream(version: Optional[str]) -> Optional[str]:
    """The upstream part of a package version: no epoch, no revision (``3:580.95.05-1.el9`` gives ``580.95.05``)."""
    if not version:
        return None
    bare = version.split(":", 1)[1] if re.match(r"[0-9]+:", version) else version
    return re.split(r"[-~+]", bare, maxsplit=1)[0] or None


def driver_part(version: Optional[str]) -> Optional[str]:
    """The driver version inside a package version, or None when it holds none."""
    match = _DRIVER.match(upstream(version) or "")
    return match.group(1) if match else None


def branch(version: Optional[str]) -> Optional[str]:
    """The driver branch, which only the version tells: package names may be transitional."""
    parts = numbers(version)
    return str(parts[0]) if parts and parts[0] >= 100 else None


def major_minor(version: Optional[str]) -> Optional[str]:
    """``13.0.88`` gives ``13.0``; a lone major gives None."""
    parts = numbers(version)
    return f"{parts[0]}.{parts[1]}" if len(parts) >= 2 else None


def cuda_of_variant(variant: Optional[str]) -> Optional[str]:
    """``cu124`` gives ``12.4``; ``cpu`` and the unknown give None."""
    match = re.fullmatch(r"cu([0-9]{2})([0-9]+)", variant or "")
    return f"{match.group(1)}.{match.group(2)}" if match else None


def local_part(version: Optional[str]) -> Optional[str]:
    """``2.6.0+cu124`` gives ``cu124``."""
    _public, plus, local = (version or "").partition("+")
    return local if plus and local else None


def public_part(version: Optional[str]) -> Optional[str]:
    """``2.6.0+cu124`` gives ``2.6.0``."""
    return (version or "").partition("+")[0] or None
