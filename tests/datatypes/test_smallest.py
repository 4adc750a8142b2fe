"""Types of given numbers, ranges and types hold all of these, and are the smallest that do."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes import (
    BIPOLAR,
    FLOAT32,
    DataType,
    FixedPoint,
    IntegerType,
    parse,
    smallest_for,
    smallest_for_values,
)
from onnx_passes.datatypes.types import Interval, range_of, smallest_for_both

SMALL = ["BINARY", "BIPOLAR", "TERNARY", "INT1", "INT2", "INT3", "UINT2", "UINT3", "INT4"]


def values(datatype: DataType) -> list[int]:
    integers = np.arange(-64, 65)
    return integers[datatype.allowed(integers)].tolist()


def assert_smallest(datatype: DataType, results: set[int]) -> None:
    assert isinstance(datatype, IntegerType)
    assert datatype.allowed(np.array(sorted(results))).all(), f"{datatype} has not all of {sorted(results)}"
    exact = smallest_for(min(results), max(results), bipolar=0 not in results)
    assert datatype.bitwidth <= smallest_for(min(results), max(results)).bitwidth
    assert datatype.bitwidth == exact.bitwidth or exact is BIPOLAR


@pytest.mark.parametrize(("a", "b"), list(product(SMALL, SMALL)))
def test_the_values_of_two_small_types(a: str, b: str):
    p, q = parse(a), parse(b)
    assert_smallest(smallest_for_both(p, q), {*values(p), *values(q)})


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("FIXED<8,4>", "INT4", "FIXED<8,4>"),
        ("FIXED<8,4>", "INT5", "FIXED<9,5>"),
        ("FIXED<8,4>", "FIXED<8,2>", "FIXED<10,4>"),
        ("FIXED<8,4>", "BIPOLAR", "FIXED<8,4>"),
        ("FLOAT<4,3>", "FLOAT<4,3>", "FLOAT<4,3,7>"),
        ("BIPOLAR", "BINARY", "TERNARY"),
        ("FLOAT32", "INT4", "FLOAT32"),
        ("SCALEDINT<8>", "INT4", "FLOAT32"),
    ],
)
def test_known_types_of_both(a: str, b: str, expected: str):
    assert str(smallest_for_both(parse(a), parse(b))) == expected


@given(st.integers(2, 6), st.integers(-2, 5), st.integers(2, 6), st.integers(-2, 5))
def test_fixed_points_of_both_fit_and_no_bit_less_does(b1: int, i1: int, b2: int, i2: int):
    a, b = FixedPoint(b1, min(i1, b1 - 1)), FixedPoint(b2, min(i2, b2 - 1))
    both = smallest_for_both(a, b)
    assert both.allowed(np.array([float(end) for each in (a, b) for end in (each.min, each.max)])).all()
    smaller = FixedPoint(both.bitwidth - 1, both.bitwidth - 1 + both.finest) if both.bitwidth > 1 else both
    assert both in (a, b) or smaller.min > min(a.min, b.min) or smaller.max < max(a.max, b.max)


@given(st.integers(), st.integers(), st.integers(), st.integers())
def test_ranges_join_and_meet(a: int, b: int, c: int, d: int):
    p, q = Interval(min(a, b), max(a, b)), Interval(min(c, d), max(c, d))
    assert all(number in p | q for number in (a, b, c, d))
    met = p & q
    assert met is None or (met in p and met in q)
    assert all((number in q) == (met is not None and number in met) for number in (a, b))


# As qonnx 1.0 answers get_smallest_possible; 2**64 is beyond what it can answer.
@pytest.mark.parametrize(
    ("number", "name"),
    [
        *[(0, "BINARY"), (1, "BINARY"), (2, "UINT2"), (3, "UINT2"), (4, "UINT3"), (255, "UINT8"), (256, "UINT9")],
        *[(-1, "BIPOLAR"), (-2, "INT2"), (-3, "INT3"), (-4, "INT3"), (-128, "INT8"), (-129, "INT9")],
        *[(2**32, "UINT33"), (2**63, "UINT64"), (-(2**63), "INT64"), (2**64, "UINT65"), (-(2**64) - 1, "INT66")],
    ],
)
def test_the_smallest_type_of_one_number(number: int, name: str):
    assert str(smallest_for(number, number)) == name


@given(st.integers(), st.integers())
def test_no_smaller_integer_type_would_do(a: int, b: int):
    low, high = min(a, b), max(a, b)
    found = smallest_for(low, high)
    assert found.min <= low
    assert high <= found.max
    assert found.signed == (low < 0)
    if found.bitwidth > 2:
        smaller = parse(f"{'INT' if low < 0 else 'UINT'}{found.bitwidth - 1}")
        known = range_of(smaller)
        assert known is not None
        assert Interval(low, high) not in known


def test_options_of_the_smallest_type():
    assert str(smallest_for(-1, 1)) == "TERNARY"
    assert str(smallest_for(-1, 1, bipolar=True)) == "BIPOLAR"
    assert str(smallest_for(-1, 0)) == "INT1"
    assert str(smallest_for(-1, 0, narrow=True)) == "TERNARY"
    assert str(smallest_for(-8, 7)) == "INT4"
    assert str(smallest_for(-8, 7, narrow=True)) == "INT5"
    assert str(smallest_for(-7, 7, narrow=True)) == "INT4"
    with pytest.raises(UsageError, match="no integer lies between"):
        smallest_for(1, 0)


@pytest.mark.parametrize(
    ("array", "name"),
    [
        (np.array([-1.0, 1, -1], np.float32), "BIPOLAR"),
        (np.array([-1.0, 0, 1], np.float32), "TERNARY"),
        (np.array([-2, 1], np.float32), "INT2"),
        (np.array([0, 1.0]), "BINARY"),
        (np.array([0.5, 1.0]), "FLOAT32"),
        (np.array([np.nan, 1.0]), "FLOAT32"),
        (np.array([np.inf, 1.0]), "FLOAT32"),
        (np.append(np.ones(1000), 0.5), "FLOAT32"),
        (np.append(np.ones(1000), 7), "UINT3"),
        (np.array([2.0**40]), "UINT41"),
        (np.array([2**64 - 1], np.uint64), "UINT64"),
        (np.array([True, True]), "BINARY"),
        (np.array(["x"]), "FLOAT32"),
        (np.zeros((0, 3), np.float32), "BINARY"),
    ],
)
def test_the_smallest_type_of_an_array(array: np.ndarray, name: str):
    assert str(smallest_for_values(array)) == name
    assert smallest_for_values(array) == FLOAT32 or smallest_for_values(array).allowed(array).all()
