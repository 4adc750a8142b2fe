"""Which numbers a type allows, exactly, for whole arrays."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.datatypes import MiniFloat, parse

# What qonnx 1.0 allows of these, given as float32.
PROBES = [0.0, -0.0, np.nan, np.inf, 1, -1, 2, -2, 3, 7, 8, -8, -9, 0.5, 0.25, 1.5, 1.125, 1.0625, 448, 480, 496]
MEASURED = {
    "BINARY": [0.0, -0.0, 1],
    "BIPOLAR": [1, -1],
    "TERNARY": [0.0, -0.0, 1, -1],
    "INT4": [0.0, -0.0, 1, -1, 2, -2, 3, 7, -8],
    "UINT3": [0.0, -0.0, 1, 2, 3, 7],
    "FIXED<6,4>": [0.0, -0.0, 1, -1, 2, -2, 3, 7, -8, 0.5, 0.25, 1.5],
    "FLOAT<4,3>": [0.0, -0.0, 1, -1, 2, -2, 3, 7, 8, -8, -9, 0.5, 0.25, 1.5, 1.125, 448, 480],
    "FLOAT<2,1>": [0.0, -0.0, 1, -1, 2, -2, 3, 0.5, 1.5],
    "FLOAT<3,0>": [0.0, -0.0, 1, -1, 2, -2, 8, -8, 0.5, 0.25],
    "FLOAT32": PROBES,
}


@pytest.mark.parametrize("name", MEASURED)
def test_allows_what_qonnx_allows(name: str):
    probes = np.array(PROBES, np.float32)
    allowed = parse(name).allowed(probes)
    np.testing.assert_array_equal(probes[allowed], np.array(MEASURED[name], np.float32))


@pytest.mark.parametrize("name", ["INT33", "INT64", "UINT32", "UINT64", "INT25", "INT200", "FIXED<40,34>"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_first_float_beyond_the_ends_is_not_allowed(name: str, dtype: type):
    """QONNX compares with the rounded end, and takes 2**32 for an INT33."""
    datatype = parse(name)
    floats = (
        np.array([2.0**k for k in range(16)], dtype) if dtype is np.float16 else np.exp2(np.arange(120)).astype(dtype)
    )
    floats = np.concatenate([floats, -floats])
    low, high = datatype.min, datatype.max
    assert low is not None
    assert high is not None
    expected = [low <= Fraction(float(x)) <= high for x in floats]
    assert datatype.allowed(floats).tolist() == expected


@pytest.mark.parametrize(
    "name", ["INT4", "INT64", "UINT64", "INT70", "BIPOLAR", "FIXED<70,64>", "FLOAT<8,7>", "FLOAT<11,52>"]
)
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8])
def test_integers_are_compared_as_integers(name: str, dtype: type):
    info = np.iinfo(dtype)
    some = [
        0,
        1,
        2,
        3,
        7,
        8,
        255,
        256,
        257,
        2**53 - 1,
        2**53,
        2**53 + 1,
        2**53 + 2,
        2**62,
        int(info.max),
        int(info.max) - 1,
    ]
    some += [-number for number in some] + [int(info.min), int(info.min) + 1]
    exact = sorted({number for number in some if info.min <= number <= info.max})
    datatype = parse(name)
    assert datatype.allowed(np.array(exact, dtype)).tolist() == [bool(_allowed(name, number)) for number in exact]


def _allowed(name: str, number: int) -> bool:
    datatype = parse(name)
    if name == "BIPOLAR":
        return number in (-1, 1)
    assert datatype.min is not None
    assert datatype.max is not None
    if not datatype.min <= number <= datatype.max:
        return False
    return not isinstance(datatype, MiniFloat) or _significant_bits(number) <= datatype.precision


def _significant_bits(number: int) -> int:
    magnitude = abs(number)
    return (magnitude // (magnitude & -magnitude)).bit_length() if magnitude else 0


@given(st.lists(st.floats(width=32), max_size=20), st.integers(1, 8), st.integers(0, 10), st.integers(-3, 200))
def test_small_floats_are_multiples_of_their_last_bit(values: list[float], e: int, m: int, bias: int):
    datatype = MiniFloat(e, m, bias)
    array = np.array(values, np.float32)
    assert datatype.allowed(array).tolist() == [_is_float(value, datatype) for value in array.tolist()]


def _is_float(value: float, datatype: MiniFloat) -> bool:
    if not np.isfinite(value) or abs(Fraction(value)) > datatype.max:
        return False
    magnitude, exponent = abs(Fraction(value)), datatype.finest + datatype.precision - 1
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    return (magnitude / Fraction(2) ** (exponent - datatype.precision + 1)).denominator == 1


@given(st.lists(st.floats(width=32), max_size=20), st.integers(1, 30), st.integers(-20, 29))
def test_fixed_point_numbers_are_multiples_of_their_last_bit(values: list[float], bits: int, integer_bits: int):
    datatype = parse(f"FIXED<{bits},{min(integer_bits, bits - 1)}>")
    assert datatype.min is not None
    assert datatype.max is not None
    expected = [
        bool(np.isfinite(value))
        and datatype.min <= Fraction(value) <= datatype.max
        and (Fraction(value) / Fraction(2) ** datatype.finest).denominator == 1
        for value in values
    ]
    assert datatype.allowed(np.array(values, np.float32)).tolist() == expected


@pytest.mark.parametrize(("name", "dtype"), [("FLOAT16", np.float16), ("BFLOAT16", ml_dtypes.bfloat16)])
@given(st.lists(st.floats(width=32), max_size=20))
def test_half_floats_are_what_a_cast_keeps(name: str, dtype: type, values: list[float]):
    array = np.array([*values, 0.1, 1.5, 65504, 65520, 1e9, 2.0**-24, 2.0**-25, 2.0**-133, np.nan, np.inf], np.float32)
    with np.errstate(over="ignore"):
        back = array.astype(dtype).astype(np.float32)
    assert parse(name).allowed(array).tolist() == ((back == array) | np.isnan(array)).tolist()


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([1, -8, 7], ml_dtypes.int4), [True, True, True]),
        (np.array([1, 7.5, 8], ml_dtypes.bfloat16), [True, False, False]),
        (np.array([True, False]), [True, True]),
        (np.array(["1", "x"]), [False, False]),
        (np.array([1 + 1j]), [False]),
        (np.array([], np.float32), []),
    ],
)
def test_arrays_of_other_element_types(array: np.ndarray, expected: list[bool]):
    assert parse("INT4").allowed(array).tolist() == expected


def test_scalars_keep_their_shape():
    assert parse("FLOAT<4,3>").allowed(np.array(1.0)).shape == ()
    assert parse("INT4").allowed(np.zeros((2, 0, 3), np.float32)).shape == (2, 0, 3)


def test_a_scaled_integer_may_be_any_finite_number():
    assert parse("SCALEDINT<8>").allowed(np.array([0.1, 1e30, np.inf, np.nan])).tolist() == [True, True, False, False]
