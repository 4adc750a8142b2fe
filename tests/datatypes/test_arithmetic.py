"""Types of results hold every result, and are the smallest that do; so do the types of given numbers."""

from __future__ import annotations

from collections.abc import Callable
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
from onnx_passes.datatypes.arithmetic import add, dot, join, mul, neg, range_of, scale, shift, sub
from onnx_passes.datatypes.ranges import Interval

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
def test_sums_differences_and_products_of_small_types(a: str, b: str):
    p, q = parse(a), parse(b)
    pairs = list(product(values(p), values(q)))
    assert_smallest(add(p, q), {x + y for x, y in pairs})
    assert_smallest(sub(p, q), {x - y for x, y in pairs})
    assert_smallest(mul(p, q), {x * y for x, y in pairs})
    assert_smallest(join(p, q), {*values(p), *values(q)})
    assert_smallest(dot(p, q, 2), {x * y + v * w for x, y in pairs for v, w in pairs})


@pytest.mark.parametrize("name", SMALL)
def test_opposites_multiples_and_shifts(name: str):
    a = parse(name)
    assert_smallest(neg(a), {-x for x in values(a)})
    for factor in range(-5, 6):
        assert_smallest(scale(a, factor), {x * factor for x in values(a)})
    for bits in range(-3, 4):
        assert_smallest(shift(a, bits), {x << bits if bits >= 0 else x >> -bits for x in values(a)})


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (mul(BIPOLAR, BIPOLAR), "BIPOLAR"),
        (neg(BIPOLAR), "BIPOLAR"),
        (add(BIPOLAR, BIPOLAR), "INT3"),
        (dot(BIPOLAR, BIPOLAR, 784), "INT11"),
        (dot(parse("UINT8"), parse("INT2"), 576), "INT20"),
        (neg(parse("INT8")), "INT9"),
        (neg(parse("UINT8")), "INT9"),
        (mul(parse("INT4"), parse("INT4")), "INT8"),
        (mul(parse("INT64"), parse("INT64")), "INT128"),
        (shift(parse("UINT8"), -8), "BINARY"),
        (add(parse("FIXED<8,4>"), parse("INT4")), "FIXED<9,5>"),
        (add(parse("FIXED<8,4>"), parse("FIXED<8,2>")), "FIXED<11,5>"),
        (mul(parse("FIXED<8,4>"), parse("FIXED<8,2>")), "FIXED<16,6>"),
        (dot(parse("FIXED<8,4>"), parse("BINARY"), 4), "FIXED<10,6>"),
        (add(parse("FLOAT32"), parse("INT4")), "FLOAT32"),
        (mul(parse("SCALEDINT<8>"), parse("INT4")), "FLOAT32"),
        (join(parse("FLOAT<4,3>"), parse("FLOAT<4,3>")), "FLOAT<4,3,7>"),
        (join(BIPOLAR, parse("BINARY")), "TERNARY"),
    ],
)
def test_known_results(result: DataType, expected: str):
    assert str(result) == expected


@given(st.integers(2, 6), st.integers(-2, 5), st.integers(2, 6), st.integers(-2, 5), st.data())
def test_fixed_point_results_are_on_their_grid(b1: int, i1: int, b2: int, i2: int, data: st.DataObject):
    a, b = FixedPoint(b1, min(i1, b1 - 1)), FixedPoint(b2, min(i2, b2 - 1))
    x, y = (_draw(data, datatype) for datatype in (a, b))
    assert add(a, b).allowed(np.array(x + y)).all()
    assert sub(a, b).allowed(np.array(x - y)).all()
    assert mul(a, b).allowed(np.array(x * y)).all()
    total = add(a, b)
    assert isinstance(total, FixedPoint)
    smaller = FixedPoint(total.bits - 1, total.integer_bits - 1)
    assert smaller.min > a.min + b.min or smaller.max < a.max + b.max


def _draw(data: st.DataObject, datatype: FixedPoint) -> float:
    ends = 1 << (datatype.bits - 1)
    return data.draw(st.integers(-ends, ends - 1)) * 2.0**datatype.finest


@st.composite
def ranges(draw: Callable[..., int]) -> Interval:
    low = draw(st.integers(-(2**70), 2**70))
    return Interval(low, low + draw(st.integers(0, 2**70)))


@given(ranges(), ranges(), st.data())
def test_ranges_hold_every_result_and_reach_their_ends(a: Interval, b: Interval, data: st.DataObject):
    x, y = data.draw(st.integers(a.low, a.high)), data.draw(st.integers(b.low, b.high))
    bits, terms = data.draw(st.integers(-80, 80)), data.draw(st.integers(1, 1000))
    assert x + y in a + b
    assert x - y in a - b
    assert x * y in a * b
    assert -x in -a
    assert x in a | b
    assert y in a | b
    assert (x << bits if bits >= 0 else x >> -bits) in a.shifted(bits)
    assert x * y * terms in a.dot(b, terms)
    assert min(max(x, b.low), b.high) in a.clamped(b.low, b.high)
    corners = [p * q for p in (a.low, a.high) for q in (b.low, b.high)]
    assert {(a * b).low, (a * b).high} <= set(corners)


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
