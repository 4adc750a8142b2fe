"""Where levels begin, and what is rounded how, beside the decimal module of Python."""

from __future__ import annotations

import decimal
from fractions import Fraction

import numpy as np
import pytest

from onnx_passes.numbers.rounding import edge, round_numpy
from onnx_passes.ops.rounding import MODES

DECIMAL = {
    "ROUND": decimal.ROUND_HALF_EVEN,
    "HALF_EVEN": decimal.ROUND_HALF_EVEN,
    "CEIL": decimal.ROUND_CEILING,
    "FLOOR": decimal.ROUND_FLOOR,
    "UP": decimal.ROUND_UP,
    "DOWN": decimal.ROUND_DOWN,
    "HALF_UP": decimal.ROUND_HALF_UP,
    "HALF_DOWN": decimal.ROUND_HALF_DOWN,
    "ROUND_TO_ZERO": decimal.ROUND_DOWN,
}
NUMBERS = [Fraction(n, 4) for n in range(-26, 27)]
NUMBERS += [number + Fraction(sign, 2**30) for number in NUMBERS for sign in (-1, 1)]


def rounded(mode: str, number: Fraction) -> int:
    with decimal.localcontext(prec=60):
        exact = decimal.Decimal(number.numerator) / decimal.Decimal(number.denominator)
        return int(exact.to_integral_value(DECIMAL[mode]))


@pytest.mark.parametrize("mode", MODES)
def test_edges_are_where_rounded_numbers_reach_a_level(mode: str):
    for number in NUMBERS:
        for level in range(-6, 7):
            assert edge(mode, level).is_passed(number) == (rounded(mode, number) >= level), (number, level)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_rounded_as_decimals_are(mode: str, dtype: type[np.floating]):
    held = [number for number in NUMBERS if Fraction(float(dtype(float(number)))) == number]
    assert len(held) > 50
    found = round_numpy(mode, np.array([float(number) for number in held], dtype))
    assert found.dtype == dtype
    assert found.tolist() == [rounded(mode, number) for number in held]
    special = round_numpy(mode, np.array([np.inf, -np.inf, np.nan], dtype))
    assert special[:2].tolist() == [np.inf, -np.inf]
    assert np.isnan(special[2])


def test_every_mode_is_compared():
    assert set(MODES) == set(DECIMAL)
