"""Arrays of real numbers: doubles with bounds, exact on demand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnx_passes.numbers.reals import Reals, joined, product
from onnx_passes.numbers.surds import Surd

floats = st.floats(-1e6, 1e6, width=32).filter(lambda number: abs(number) > 1e-6)
arrays = hnp.arrays(np.float32, (2, 3), elements=floats)


def check(found: Reals) -> None:
    """Hold doubles to their bounds."""
    slack = np.broadcast_to(found.slack, found.shape).reshape(-1)
    for place, number in enumerate(found.list()):
        assert not isinstance(number, Surd)
        assert abs(Fraction(float(found.near.flat[place])) - number) <= Fraction(float(slack[place]))


@given(arrays, arrays)
def test_doubles_stay_within_their_bounds(a: np.ndarray, b: np.ndarray):
    left, right = Reals.of(a), Reals.of(b)
    for found in (left + right, left - right, left * right, left / right, left * right + right / left, abs(-left)):
        check(found)
    assert (left * right)[4] == Fraction(float(a[1, 1])) * Fraction(float(b[1, 1]))


@given(arrays, hnp.arrays(np.float32, (3,), elements=floats))
def test_arrays_are_broadcast(a: np.ndarray, b: np.ndarray):
    found = Reals.of(a) / Reals.of(b)
    check(found)
    assert found.at((1, 2)) == Fraction(float(a[1, 2])) / Fraction(float(b[2]))


def test_integers_are_exact_or_none():
    third = Reals.of(np.array([1.0, 2.0])) / Reals.of(3.0)
    assert (third * Reals.of(3.0)).integers().tolist() == [1, 2]  # pyright: ignore[reportOptionalMemberAccess]
    assert third.integers() is None
    nearly = third * Reals.of(3.0) + Reals.of(2.0**-60)
    assert nearly.integers() is None
    assert not nearly.equals(third * Reals.of(3.0))


def test_signs_of_what_doubles_do_not_tell_from_zero():
    tenth = Reals.of(np.float32(0.1))
    zero = tenth * Reals.of(3.0) - tenth - tenth - tenth
    assert zero.signs() == 0
    assert zero.is_everywhere(0)
    assert (zero + Reals.of(2.0**-200)).signs() == 1


def test_movement_takes_exact_numbers_along():
    found = (Reals.of(np.arange(6.0).reshape(2, 3)) / Reals.of(7.0)).moved(np.transpose)
    assert found.shape == (3, 2)
    assert found.at((2, 1)) == Fraction(5, 7)
    assert joined([found, Reals.ones(1)]).taken(np.array([6, 1])).list() == [1, Fraction(3, 7)]


def test_products_with_matrices_of_integers():
    rows, matrix = Reals.of(np.float32([[0.1, 0.2, 0.3]])), np.array([[1.0, 0], [2, -1], [0, 3]])
    found = product(rows, matrix)
    check(found)
    assert found[1] == 3 * rows[2] - rows[1]
    assert product(Reals.of(np.array([[0.5]])), matrix).list() == [Fraction(3, 2), 1]


def test_a_root_of_a_root_is_not_computed():
    once = Reals.of(2.0).root()
    assert float(once[0]) == pytest.approx(2**0.5)
    with pytest.raises(ArithmeticError):
        once.root()[0]


@pytest.mark.parametrize(
    ("a", "b", "is_exact"),
    [
        (2.0**26 + 1, 2.0**26 - 1, True),
        (2.0**27 - 1, 2.0**26 + 1, False),
        (0.1, 3.0, False),
        (-7.0, 1.0, True),
    ],
)
def test_products_of_integers_lose_nothing_as_far_as_doubles_hold_integers(a: float, b: float, is_exact: bool):
    found = Reals.of(np.array([a])) * Reals.of(np.array([b]))
    error = abs(Fraction(float(found.near[0])) - Fraction(a) * Fraction(b))
    assert error <= Fraction(float(np.broadcast_to(found.slack, (1,))[0]))
    assert bool((found.slack == 0).all()) == is_exact
