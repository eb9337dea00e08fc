"""Printed numbers stand for what is printed so."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from fractions import Fraction

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.numbers import Span, fixed, general, mean, whole


@pytest.mark.parametrize(
    ("text", "value", "half"),
    [
        ("12.50", "12.5", "0.005"),
        ("1305.8", "1305.8", "0.05"),
        ("175724", "175724", "0.5"),
        ("1.8e+07", "18000000", "500000"),
        ("2e-07", "0.0000002", "0.00000005"),
    ],
)
def test_fixed(text, value, half):
    printed = fixed(text)
    assert printed.value == Fraction(value)
    assert printed.span == (Fraction(value) - Fraction(half), Fraction(value) + Fraction(half))


def test_nothing_is_less_than_nothing():
    assert fixed("0.00").span == (0, Fraction("0.005"))


@pytest.mark.parametrize(
    ("text", "half"), [("437.99", "0.0005"), ("8", "0.000005"), ("1e-05", "0.00000000005"), ("0", "0")]
)
def test_general_hides_zeros_and_no_digits(text, half):
    span = general(text).span
    assert span.high - Fraction(text) == Fraction(half)


@pytest.mark.parametrize(
    "text", ["", "N/A", "-1", "+1", "1.", ".5", "1e", "nan", "inf", "1e9999", "\u00b2", "1 2", "0x10"]
)
def test_no_numbers(text):
    assert fixed(text) is None and general(text) is None


def test_whole():
    assert (whole("017"), whole("9" * 18)) == (17, 10**18 - 1)
    assert {whole(one) for one in ("9" * 19, "\u00b2", "", "-1", "1.0", None, 7)} == {None}


def test_spans():
    assert Span(Fraction(1), Fraction(2)).meets(Span(Fraction(2), Fraction(3)))
    assert not Span(Fraction(1), Fraction(2)).meets(Span(Fraction("2.01"), Fraction(3)))
    assert mean([Span(Fraction(1), Fraction(2)), Span(Fraction(3), Fraction(6))]) == (2, 4)
    assert mean([]) is None
