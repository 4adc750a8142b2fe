"""Types say of themselves what QONNX 1.0 says, and the truth where that is wrong."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes import (
    BINARY,
    BIPOLAR,
    FLOAT32,
    TERNARY,
    DataType,
    FixedPoint,
    Integer,
    MiniFloat,
    ScaledInteger,
    parse,
)

# name, canonical name, smallest, largest, bits, signed, integer, fixed point: as qonnx 1.0 answers.
MEASURED = [
    ("BINARY", "BINARY", 0, 1, 1, False, True, False),
    ("UINT1", "BINARY", 0, 1, 1, False, True, False),
    ("BIPOLAR", "BIPOLAR", -1, 1, 1, True, True, False),
    ("TERNARY", "TERNARY", -1, 1, 2, True, True, False),
    ("INT1", "INT1", -1, 0, 1, True, True, False),
    ("INT2", "INT2", -2, 1, 2, True, True, False),
    ("UINT2", "UINT2", 0, 3, 2, False, True, False),
    ("INT4", "INT4", -8, 7, 4, True, True, False),
    ("INT04", "INT4", -8, 7, 4, True, True, False),
    ("INT 4", "INT4", -8, 7, 4, True, True, False),
    ("UINT8", "UINT8", 0, 255, 8, False, True, False),
    ("INT32", "INT32", -2147483648, 2147483647, 32, True, True, False),
    ("UINT64", "UINT64", 0, 18446744073709551615, 64, False, True, False),
    ("INT65", "INT65", -18446744073709551616, 18446744073709551615, 65, True, True, False),
    ("FIXED<8,4>", "FIXED<8,4>", -8.0, 7.9375, 8, True, False, True),
    ("FIXED< 8 , 4 >", "FIXED<8,4>", -8.0, 7.9375, 8, True, False, True),
    ("FIXED<8,0>", "FIXED<8,0>", -0.5, 0.49609375, 8, True, False, True),
    ("FIXED<8,-2>", "FIXED<8,-2>", -0.125, 0.1240234375, 8, True, False, True),
    ("FIXED<8,7>", "FIXED<8,7>", -64.0, 63.5, 8, True, False, True),
    ("FLOAT32", "FLOAT32", -3.4028234663852886e38, 3.4028234663852886e38, 32, True, False, False),
    ("FLOAT16", "FLOAT16", -65504.0, 65504.0, 16, True, False, False),
    ("FLOAT<4,3>", "FLOAT<4,3,7>", -480.0, 480.0, 8, True, False, False),
    ("FLOAT<4,3,7>", "FLOAT<4,3,7>", -480.0, 480.0, 8, True, False, False),
    ("FLOAT<4,3,0>", "FLOAT<4,3,7>", -480.0, 480.0, 8, True, False, False),
    ("FLOAT<4,3,-2>", "FLOAT<4,3,-2>", -245760.0, 245760.0, 8, True, False, False),
    ("FLOAT<5,2>", "FLOAT<5,2,15>", -114688.0, 114688.0, 8, True, False, False),
    ("FLOAT<8,7>", "FLOAT<8,7,127>", -6.779062778503071e38, 6.779062778503071e38, 16, True, False, False),
    ("FLOAT<2,1>", "FLOAT<2,1,1>", -6.0, 6.0, 4, True, False, False),
    ("FLOAT<3,0>", "FLOAT<3,0,3>", -16.0, 16.0, 4, True, False, False),
    ("FLOAT<1,2>", "FLOAT<1,2,0>", -3.5, 3.5, 4, True, False, False),
    ("SCALEDINT<8>", "SCALEDINT<8>", None, None, 8, True, False, False),
]


@pytest.mark.parametrize(("name", "canonical", "low", "high", "bits", "signed", "integer", "fixed"), MEASURED)
def test_says_what_qonnx_says(
    name: str,
    canonical: str,
    low: float | None,
    high: float | None,
    bits: int,
    signed: bool,
    integer: bool,
    fixed: bool,
):
    datatype = parse(name)
    assert str(datatype) == canonical
    assert (datatype.min, datatype.max) == (low, high)
    assert (datatype.bitwidth, datatype.signed) == (bits, signed)
    assert (datatype.is_integer, datatype.is_fixed_point) == (integer, fixed)
    assert parse(canonical) == datatype


def test_equality_and_hash_follow_the_canonical_name():
    types = [parse(row[0]) for row in MEASURED]
    for a in types:
        for b in types:
            assert (a == b) == (str(a) == str(b))
    assert len(set(types)) == len({str(datatype) for datatype in types})
    assert parse("UINT1") == BINARY != BIPOLAR
    assert parse("INT2") != TERNARY


def test_types_that_qonnx_does_not_know_are_read():
    assert parse("FLOAT64").bitwidth == 64
    assert parse("BFLOAT16").max == Fraction(float(ml_dtypes.finfo(ml_dtypes.bfloat16).max))
    assert parse("FLOAT<11,52>").max == (2**53 - 1) * 2**972, "beyond any double, and still exact"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("int4", "did you mean 'INT4'?"),
        ("float32", "did you mean 'FLOAT32'?"),
        ("BIPOLER", "did you mean 'BIPOLAR'?"),
        ("FIXED<8>", "did you mean 'FIXED<8,4>'?"),
        ("SCALEDINT8", "did you mean 'SCALEDINT<8>'?"),
        ("FLOAT<4,3,7,1>", "did you mean 'FLOAT<4,3>'?"),
        ("INT-3", "'INT8'"),
        ("", "known are BINARY"),
        ("__import__('os')", "known are BINARY"),
    ],
)
def test_unknown_names_say_what_was_meant(text: str, hint: str):
    with pytest.raises(UsageError, match="there is no data type") as caught:
        parse(text)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    "text", ["INT0", "UINT0", "FIXED<8,8>", "FIXED<0,-1>", "FLOAT<0,3>", "SCALEDINT<0>", "INT99999", "FLOAT<64,2>"]
)
def test_types_without_sensible_values_are_refused(text: str):
    with pytest.raises(UsageError, match="cannot have"):
        parse(text)


def test_a_name_cannot_take_all_memory():
    with pytest.raises(UsageError, match="there is no data type"):
        parse("INT" + "9" * 4000)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *[("BINARY", 2), ("BIPOLAR", 2), ("TERNARY", 3), ("INT4", 16), ("UINT70", 2**70), ("FLOAT<2,1>", 15)],
        ("FIXED<8,4>", 256),  # QONNX says 16: it counts the integers between the ends.
    ],
)
def test_counts_values(name: str, count: int):
    assert parse(name).count == count


@pytest.mark.parametrize(
    "name", ["BIPOLAR", "TERNARY", "INT3", "FIXED<4,2>", "FLOAT<2,1>", "FLOAT<3,0>", "FLOAT<2,2,-1>"]
)
def test_as_many_numbers_are_allowed_as_are_counted(name: str):
    datatype = parse(name)
    grid = np.arange(-4096, 4097) / 64.0
    allowed = grid[datatype.allowed(grid)]
    assert len(allowed) == datatype.count
    assert (allowed.min(), allowed.max()) == (datatype.min, datatype.max)
    assert Fraction(float(np.diff(allowed).min())) >= Fraction(2) ** datatype.finest


@pytest.mark.parametrize(
    ("name", "element"),
    [
        ("BINARY", "UINT2"),
        ("BIPOLAR", "INT2"),
        ("TERNARY", "INT2"),
        ("INT1", "INT2"),
        ("INT2", "INT2"),
        ("UINT3", "UINT4"),
        ("INT3", "INT4"),
        ("INT5", "INT8"),
        ("UINT8", "UINT8"),
        ("UINT9", "UINT16"),
        ("INT17", "INT32"),
        ("UINT33", "UINT64"),
        ("INT64", "INT64"),
        ("INT65", None),
        ("FLOAT<2,1>", "FLOAT4E2M1"),
        ("FLOAT<4,3>", "FLOAT16"),  # without NaN it reaches further than FLOAT8E4M3FN
        ("FLOAT<3,3>", "FLOAT8E4M3FN"),
        ("FLOAT<5,2>", "BFLOAT16"),
        ("FIXED<8,4>", "FLOAT16"),
        ("FIXED<24,8>", "FLOAT"),
        ("FIXED<40,8>", "DOUBLE"),
        ("FLOAT16", "FLOAT16"),
        ("BFLOAT16", "BFLOAT16"),
        ("FLOAT32", "FLOAT"),
        ("FLOAT64", "DOUBLE"),
        ("SCALEDINT<8>", "FLOAT"),
    ],
)
def test_smallest_element_type_that_holds_all_values(name: str, element: str | None):
    assert parse(name).storage == element


@pytest.mark.parametrize(
    ("name", "exact"),
    [("UINT24", True), ("UINT25", False), ("INT25", True), ("INT26", False), ("FIXED<25,3>", True), ("INT4", True)],
)
def test_a_float_holds_integers_up_to_its_precision(name: str, exact: bool):
    datatype = parse(name)
    assert datatype.fits("FLOAT") == exact
    low, high = datatype.min, datatype.max
    assert low is not None
    assert high is not None
    assert (
        Fraction(float(np.float32(float(high)))) == high and Fraction(float(np.float32(float(low)))) == low
    ) == exact


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        ("FLOAT4E2M1", ml_dtypes.float4_e2m1fn),
        ("FLOAT8E4M3FN", ml_dtypes.float8_e4m3fn),
        ("FLOAT8E5M2", ml_dtypes.float8_e5m2),
        ("FLOAT16", np.float16),
        ("BFLOAT16", ml_dtypes.bfloat16),
        ("FLOAT", np.float32),
        ("DOUBLE", np.float64),
    ],
)
def test_limits_of_floats_are_those_of_ml_dtypes(element: str, dtype: type):
    from onnx_passes.datatypes.arrays import ELEMENTS

    info, known = ml_dtypes.finfo(dtype), ELEMENTS[element]
    assert (known.high, known.precision) == (int(float(info.max)), info.nmant + 1)
    assert Fraction(2) ** known.finest == Fraction(float(info.smallest_subnormal))


def test_types_are_made_without_text_as_well():
    made: list[DataType] = [Integer(4, is_signed=True), FixedPoint(8, 4), MiniFloat(4, 3, 7), ScaledInteger(8), FLOAT32]
    assert [parse(str(datatype)) for datatype in made] == made
