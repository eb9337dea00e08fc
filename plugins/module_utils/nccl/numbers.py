"""A printed number stands for every value that is printed so: half a unit of its last digit to either side."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from fractions import Fraction
from typing import Iterable, NamedTuple, Optional, Tuple

_NUMBER = re.compile(r"(\d{1,30})(?:\.(\d{1,20}))?(?:[eE]([+-]?\d{1,3}))?\Z", re.ASCII)
_WHOLE = re.compile(r"\d{1,18}\Z", re.ASCII)
#: Digits that C's %g prints before it drops the trailing zeros.
_G_DIGITS = 6


def whole(text: object) -> Optional[int]:
    """A number without sign and point; None where it is none, or longer than any that is printed here."""
    return int(text) if isinstance(text, str) and _WHOLE.match(text) else None


class Span(NamedTuple):
    """What a printed number can have been, both ends included."""

    low: Fraction
    high: Fraction

    def times(self, other: Span) -> Span:
        return Span(self.low * other.low, self.high * other.high)

    def scaled(self, factor: Fraction) -> Span:
        return Span(self.low * factor, self.high * factor)

    def meets(self, other: Span) -> bool:
        """Whether one value can be in both."""
        return self.low <= other.high and other.low <= self.high


class Printed(NamedTuple):
    """A number as it was printed."""

    text: str
    value: Fraction
    span: Span

    @property
    def number(self) -> float:
        return float(self.value)


def fixed(text: str) -> Optional[Printed]:
    """A number that shows all its digits (%.2f, %.1e); None where it is none. All of these are zero or more."""
    parts = _parts(text)
    if parts is None:
        return None
    value, unit = parts
    half = unit / 2
    return Printed(text, value, Span(max(value - half, Fraction(0)), value + half))


def general(text: str) -> Optional[Printed]:
    """A number as %g prints it: six digits, without trailing zeros."""
    parts = _parts(text)
    if parts is None:
        return None
    value = parts[0]
    unit = Fraction(0)
    if value:
        exponent = 0
        while value >= Fraction(10) ** (exponent + 1):
            exponent += 1
        while value < Fraction(10) ** exponent:
            exponent -= 1
        unit = Fraction(10) ** (exponent - _G_DIGITS + 1)
    return Printed(text, value, Span(max(value - unit / 2, Fraction(0)), value + unit / 2))


def mean(spans: Iterable[Span]) -> Optional[Span]:
    """What the mean of the numbers can be; None of no numbers."""
    found = list(spans)
    if not found:
        return None
    low, high = (sum((one[end] for one in found), Fraction(0)) for end in (0, 1))
    return Span(low / len(found), high / len(found))


def _parts(text: str) -> Optional[Tuple[Fraction, Fraction]]:
    """(value, unit of the last digit)."""
    match = _NUMBER.match(text)
    if match is None:
        return None
    whole, digits, power = match.group(1), match.group(2) or "", int(match.group(3) or 0)
    unit = Fraction(10) ** (power - len(digits))
    return int(whole + digits) * unit, unit
