"""Arithmetics of arrays of real numbers beside fractions and decimals: exact ones equal, intervals around."""

from __future__ import annotations

import decimal
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from onnx_passes.numbers.arithmetic import ExactArithmetic, IntervalArithmetic, Intervals, RealsArithmetic
from onnx_passes.numbers.reals import Reals
from tests.numbers.test_rounding import rounded

MODES = ("ROUND", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN")
FRACTIONS = [Fraction(n, 6) for n in range(-15, 16)] + [Fraction(n, 7) for n in (-20, -7, -1, 1, 5, 14)]
TINY = Fraction(1, 2**80)


def reals(numbers: list[Fraction]) -> Reals:
    """Return quotients, which doubles hold with an error."""
    below = [Reals.of(np.array([float(number.denominator)])) for number in numbers]
    above = [Reals.of(np.array([float(number.numerator)])) for number in numbers]
    return Reals.each([(a / b)[0] for a, b in zip(above, below, strict=True)])


def inexact(number: Fraction) -> Reals:
    """Return a number that doubles know with an error, though it may be an integer or a half."""
    third = Reals.of(np.array([1.0])) / Reals.of(np.array([3.0]))
    return third * Reals.of(np.array([3.0 * number.numerator])) / Reals.of(np.array([float(number.denominator)]))


def exact(numbers: list[Fraction]) -> np.ndarray:
    return np.array([*numbers, None], object)[:-1]


@pytest.mark.parametrize("mode", MODES)
def test_numbers_are_rounded_without_error(mode: str):
    found = RealsArithmetic().rounded(mode, reals(FRACTIONS))
    wanted = [rounded(mode, number) for number in FRACTIONS]
    assert found.near.tolist() == wanted
    assert ExactArithmetic().rounded(mode, exact(FRACTIONS)).tolist() == wanted
    for number in (Fraction(n, 2) for n in range(-7, 8)):
        assert RealsArithmetic().rounded(mode, inexact(number)).near.tolist() == [rounded(mode, number)], number
        for off in (-TINY, TINY):
            beside = inexact(number) + Reals.of(np.array([float(off)]))
            assert RealsArithmetic().rounded(mode, beside).near.tolist() == [rounded(mode, number + off)], (number, off)


@pytest.mark.parametrize("mode", MODES)
def test_intervals_round_around_what_numbers_do(mode: str):
    for number in (Fraction(n, 4) for n in range(-14, 15)):
        for width in (0.0, 2.0**-52, 0.3, 1.5):
            low, high = float(number), float(number) + width
            found = IntervalArithmetic().rounded(mode, Intervals(np.array([low]), np.array([high])))
            for inside in (low, (low + high) / 2, high):
                level = rounded(mode, Fraction(inside))
                assert found.low[0] <= level <= found.high[0], (number, width)
            assert found.high[0] - found.low[0] <= width + 2


def test_chosen_numbers_are_those_that_fractions_choose():
    for a, b in itertools.product(FRACTIONS[::3], repeat=2):
        for x, y in ((reals([a]), reals([b])), (inexact(a), inexact(a + TINY))):
            p, q = Fraction(str(x[0])) if isinstance(x[0], Fraction) else x[0], y[0]
            greater, lesser = RealsArithmetic().greater(x, y)[0], RealsArithmetic().lesser(x, y)[0]
            assert greater == max(p, q)
            assert lesser == min(p, q)
            assert RealsArithmetic().greater(y, x)[0] == max(p, q)
            assert RealsArithmetic().lesser(y, x)[0] == min(p, q)
            weights = Reals.of(np.array([5.0]))
            assert RealsArithmetic().reached(x, y, weights)[0] == (5 if p >= q else 0)
            assert RealsArithmetic().reached(y, x, weights)[0] == (5 if q >= p else 0)
        e = ExactArithmetic()
        one, other, five = exact([a]), exact([b]), exact([Fraction(5)])
        assert e.greater(one, other).tolist() == [max(a, b)]
        assert e.lesser(one, other).tolist() == [min(a, b)]
        assert e.reached(one, other, five).tolist() == [5 if a >= b else 0]
        assert e.where(exact([Fraction(1)]), one, other).tolist() == [a]
        assert e.where(exact([Fraction(0)]), one, other).tolist() == [b]
    for condition, wanted in ((1.0, 2), (0.0, 3)):
        found = RealsArithmetic().where(*(Reals.of(np.array([x])) for x in (condition, 2.0, 3.0)))
        assert found[0] == wanted


def interval(number: Fraction, width: float) -> Intervals:
    return Intervals(
        np.array([math.nextafter(float(number), -math.inf) - width]),
        np.array([math.nextafter(float(number), math.inf)]),
    )


@pytest.mark.parametrize(("mode", "level"), [("HALF_UP", 0), ("HALF_DOWN", 0), ("ROUND", 0)])
def test_intervals_hold_what_a_number_next_to_a_half_is_rounded_to(mode: str, level: int):
    for sign in (1, -1):
        near = np.array([sign * np.nextafter(0.5, 0)])
        found = IntervalArithmetic().rounded(mode, Intervals(near, near))
        assert found.low[0] <= level <= found.high[0]


def test_what_may_be_reached_is_known_to_be_reached_only_where_it_is_sure():
    def ends(*numbers: float) -> Intervals:
        return Intervals(np.array([numbers[0]]), np.array([numbers[-1]]))

    for x, threshold, wanted in (
        ((1.0,), (0.0, 2.0), (0, 3)),
        ((0.0, 2.0), (1.0,), (0, 3)),
        ((2.0,), (0.0, 2.0), (3, 3)),
        ((-1.0,), (0.0, 2.0), (0, 0)),
        ((1.0, 5.0), (0.0, 0.5), (3, 3)),
    ):
        found = IntervalArithmetic().reached(ends(*x), ends(*threshold), ends(3.0))
        assert (found.low[0], found.high[0]) == wanted, (x, threshold)


@pytest.mark.parametrize("width", [0.0, 1.5])
def test_intervals_hold_what_fractions_are(width: float):
    arithmetic = IntervalArithmetic()
    for a, b in itertools.product(FRACTIONS[::2], repeat=2):
        x, y = interval(a, width), interval(b, width)
        cases = [
            (x + y, a + b),
            (x - y, a - b),
            (x * y, a * b),
            (-x, -a),
            (abs(x), abs(a)),
            (arithmetic.greater(x, y), max(a, b)),
            (arithmetic.lesser(x, y), min(a, b)),
            (arithmetic.reached(x, y, interval(Fraction(-3), 0)), -3 if a >= b else 0),
            (arithmetic.reached(x, y, interval(Fraction(3), 0)), 3 if a >= b else 0),
        ]
        cases += [(x / y, a / b)] if b else []
        for place, (found, wanted) in enumerate(cases):
            assert found.low[0] <= wanted <= found.high[0], (place, a, b)
        if not width:
            assert all(found.high[0] - found.low[0] < 1e-9 for found, _ in cases[:7]), (a, b)
    for number in FRACTIONS:
        given = arithmetic.of(reals([number]))
        assert Fraction(float(given.low.min())) <= number <= Fraction(float(given.high.max()))
        made = arithmetic.number(number)
        assert Fraction(float(made.low)) <= number <= Fraction(float(made.high))


@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh", "asinh", "atan", "sinh", "softplus"])
def test_functions_that_grow_are_inside_narrow_intervals(name: str):
    with decimal.localcontext(prec=50):
        for n in range(-40, 41, 7):
            x = n / 8
            e = decimal.Decimal(x).exp()
            values = {
                "exp": e,
                "sigmoid": 1 / (1 + 1 / e),
                "tanh": (e - 1 / e) / (e + 1 / e),
                "sinh": (e - 1 / e) / 2,
                "softplus": (1 + e).ln(),
                "asinh": (decimal.Decimal(x) + (decimal.Decimal(x) ** 2 + 1).sqrt()).ln(),
            }
            found = IntervalArithmetic().growing(name, Intervals(np.array([x]), np.array([x])))
            wanted = values.get(name, decimal.Decimal(math.atan(x)))
            assert decimal.Decimal(float(found.low[0])) <= wanted <= decimal.Decimal(float(found.high[0])), x
            assert found.high[0] - found.low[0] <= 1e-12 * (1 + abs(float(wanted)))


def test_ranges_and_equality_are_known_only_where_they_are_sure():
    whole, near = Reals.of(np.array([2.0, 2.0])), inexact(Fraction(2)) + Reals.of(np.array([float(TINY)]))
    for arithmetic, made in (
        (RealsArithmetic(), lambda numbers: numbers),
        (IntervalArithmetic(), IntervalArithmetic().of),
    ):
        assert arithmetic.equals(made(whole), Fraction(2))
        assert not arithmetic.equals(made(whole), Fraction(3))
        assert not arithmetic.equals(made(near), Fraction(2))
        assert arithmetic.within(made(whole), 2, 2)
        assert not arithmetic.within(made(whole), 3, 9)
        assert not arithmetic.within(made(whole), -9, 1)
        assert not arithmetic.within(made(Reals.of(np.array([0.0, 5.0]))), 0, 4)
    assert ExactArithmetic().equals(exact([Fraction(1, 2)] * 2), Fraction(1, 2))
    assert not ExactArithmetic().equals(exact([Fraction(1, 2), Fraction(1)]), Fraction(1, 2))


def test_sums_and_products_of_rows_are_exact():
    rows = [FRACTIONS[:12], FRACTIONS[12:24]]
    e = ExactArithmetic()
    a = np.stack([exact(row) for row in rows])
    assert e.total(a).tolist() == [sum(row, Fraction()) for row in rows]
    squares = [sum((x * x for x in row), Fraction()) for row in rows]
    assert e.dot(a, a).tolist() == squares
    for greatest in (True, False):
        choose = max if greatest else min
        assert e.extreme(a, greatest=greatest).tolist() == [choose(row) for row in rows]
