"""Sums are exact: rounded once, whatever the order and the parts they were made in."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.verify.metrics.accumulators import ExactSum

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def total(*parts: list[float]) -> ExactSum:
    whole = ExactSum()
    for part in parts:
        one = ExactSum()
        one.add(np.array(part, np.float64))
        whole.merge(one)
    return whole


@given(st.lists(FINITE, max_size=40))
def test_as_fractions_add_up(numbers: list[float]):
    exact = sum(map(Fraction, numbers), Fraction(0))
    try:
        expected = float(exact)
    except OverflowError:
        expected = math.inf if exact > 0 else -math.inf
    assert total(numbers).value == expected


@given(st.lists(st.lists(FINITE, max_size=10), min_size=1, max_size=6), st.randoms())
def test_order_and_parts_do_not_matter(parts: list[list[float]], random):
    whole = [number for part in parts for number in part]
    random.shuffle(parts)
    for part in parts:
        random.shuffle(part)
    assert total(*parts) == total(whole)


def test_subnormal_and_largest_numbers():
    least, most = 5e-324, 1.7976931348623157e308
    assert total([least] * 3).value == 3 * least
    assert total([most, most, -most]).value == most
    assert total([most, most]).value == math.inf
    assert total([most, most]).over(2) == most
    assert total([-most, -most]).value == -math.inf


def test_what_is_not_finite_is_counted():
    assert total([1.0, math.inf], [2.0]).value == math.inf
    assert total([-math.inf]).value == -math.inf
    assert math.isnan(total([math.inf], [-math.inf]).value)
    assert math.isnan(total([math.nan, math.inf]).value)


def test_of_nothing():
    assert total().value == 0
    assert math.isnan(total([1.0]).over(0))


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_many(size: int):
    numbers = np.random.default_rng(size).standard_normal(size) * 1e-3
    one = ExactSum()
    one.add(numbers)
    assert one.value == math.fsum(numbers)
