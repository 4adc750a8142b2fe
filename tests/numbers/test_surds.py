"""Sums of roots, compared without rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.numbers.surds import Surd, square_root

fractions = st.fractions(min_value=-50, max_value=50, max_denominator=40)
radicands = st.fractions(min_value=Fraction(1, 64), max_value=50, max_denominator=64)


@given(fractions, fractions, radicands, fractions)
def test_sums_products_and_quotients_are_those_of_many_digits(a: Fraction, b: Fraction, n: Fraction, other: Fraction):
    root = square_root(n)
    number = a + b * root
    with mpmath.workdps(60):
        near = mpmath.mpf(a.numerator) / a.denominator + mpmath.mpf(b.numerator) / b.denominator * mpmath.sqrt(
            mpmath.mpf(n.numerator) / n.denominator
        )
        shift = mpmath.mpf(other.numerator) / other.denominator
        assert float(number + other) == pytest.approx(float(near + shift), rel=1e-14, abs=1e-14)
        assert float(number * other) == pytest.approx(float(near * shift), rel=1e-14, abs=1e-14)
        assert float(other / root) == pytest.approx(float(shift / mpmath.sqrt(mpmath.mpf(n.numerator) / n.denominator)))
        if abs(near - shift) > mpmath.mpf(10) ** -40:
            assert (number < other) == (near < shift)
            assert math.floor(number) == int(mpmath.floor(near))


@given(radicands, fractions.filter(bool))
def test_what_cancels_is_a_rational_number(n: Fraction, factor: Fraction):
    root = square_root(n)
    assert root * root == n
    assert (factor * root) / root == factor
    assert root * factor - factor * root == 0
    assert not isinstance(root / square_root(4 * n), Surd)


def test_numbers_that_doubles_do_not_tell_apart():
    root = square_root(2)
    near = Fraction(math.isqrt(2 * 10**80), 10**40)
    assert near < root
    assert root < near + Fraction(1, 10**40)
    assert float(near) == float(root)


def test_roots_of_several_numbers():
    number = square_root(2) + square_root(3)
    assert number * number == 5 + 2 * square_root(6)
    assert number > Fraction(314, 100)
    with pytest.raises(ArithmeticError, match="several roots"):
        number.inverse()


def test_a_square_is_rational():
    assert square_root(Fraction(9, 4)) == Fraction(3, 2)
    with pytest.raises(ArithmeticError, match="negative"):
        square_root(-1)


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10) ** 320, Fraction(1, 10**320), Fraction(1, 10**290)])
def test_signs_are_those_of_the_numbers_however_near_to_zero(scale: Fraction) -> None:
    """Convergents of the root of 2 lie on either side of it in turn, ever closer."""
    root, (p, q) = square_root(2), (1, 1)
    for turn in range(200):
        for factor in (scale, -scale):
            apart = root * (q * factor) - p * factor
            assert isinstance(apart, Surd)
            assert apart.sign() == (1 if turn % 2 == 0 else -1) * (1 if factor > 0 else -1)
            assert (apart > 0) == (apart.sign() == 1)
        p, q = p + 2 * q, p + q


def test_signs_of_sums_that_nearly_cancel() -> None:
    near = square_root(2) + square_root(3) - square_root(10**40 + 1) / 10**20 - Fraction(math.isqrt(2 * 10**40), 10**20)
    rest = Fraction(math.isqrt(3 * 10**40), 10**20) - 1
    assert _sign_by_bits(near - rest, 400) == (near - rest).sign()
    for number in range(2, 200):
        for denominator in (10**3, 10**8, 10**17):
            below = Fraction(math.isqrt(number * denominator**2), denominator)
            apart = square_root(number) - below
            if isinstance(apart, Surd):
                assert apart.sign() == 1
                assert (apart - Fraction(1, denominator)).sign() == -1


def _sign_by_bits(number: Surd, bits: int) -> int:
    low, high = number.enclosed(bits)
    assert low > 0 or high < 0
    return 1 if low > 0 else -1
