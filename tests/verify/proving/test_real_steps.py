from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.numbers.reals import Reals
from onnx_passes.ops.semantics.exact import set_exact_value
from onnx_passes.verify.proving.forms import same_numbers, stands_for
from onnx_passes.verify.proving.real_steps import METHOD
from tests.verify.proving.windows import Q, is_exact, prove

CONSTANTS = "float one = {1}, float zero = {0}, float bits = {8}, float two = {2}"
ACCUMULATOR = f"q = {Q}.Quant <signed = 1, narrow = 0> (x, one, zero, bits)"
TAIL = f"a = Mul(q, s) y = {Q}.Quant <signed = 0, narrow = 0> (a, one, zero, two)"
COUNT = f'y = {Q}.MultiThreshold <data_layout = "NC"> (q, t)'


def first(s: Fraction) -> list[int]:
    """Return the first integers that are rounded to 1, 2 and 3 when multiplied, halves to even."""
    levels = {q: min(max(round(q * s), 0), 3) for q in range(-128, 128)}
    return [min(q for q, level in levels.items() if level >= wanted) for wanted in (1, 2, 3)]


def test_thresholds_may_mean_real_numbers_where_floats_go_elsewhere():
    # In floats 25 times the float next to 0.1 is 2.5, a tie that goes to 2: the float is a little more than 0.1.
    s = np.float32(0.1)
    exact = first(Fraction(float(s)))
    floats = np.clip(np.rint(np.arange(-128, 128, dtype=np.float32) * s), 0, 3)
    assert exact != [int(np.argmax(floats >= level)) - 128 for level in (1, 2, 3)]
    arguments = {"constants": CONSTANTS, "inside": ACCUMULATOR, "ignores": ("nsz",), "s": np.array(s)}
    found = prove("float[2,3] x", TAIL, COUNT, **arguments, t=np.array([exact], np.float32))
    assert is_exact(found)
    assert found.method == METHOD


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("offset", [-1, 1])
def test_a_threshold_off_by_one_is_neither(place: int, offset: int):
    t = np.array([first(Fraction(float(np.float32(0.3))))], np.float32)
    t[0, place] += offset
    arguments = {"constants": CONSTANTS, "inside": ACCUMULATOR, "ignores": ("nsz",), "s": np.array(0.3, np.float32)}
    assert not is_exact(prove("float[2,3] x", TAIL, COUNT, **arguments, t=t))


def constant(array: np.ndarray) -> ir.Value:
    return ir.Value(name="c", const_value=ir.tensor(array), shape=ir.Shape(array.shape))


def test_a_constant_stands_for_what_it_holds_rounded_and_for_nothing_else():
    third = Reals.of(np.array([1.0])) / Reals.of(np.array([3.0]))
    value = constant(np.array([1 / 3], np.float32))
    set_exact_value(value, third)
    assert stands_for(value) is third
    off = constant(np.nextafter(np.array([1 / 3], np.float32), np.float32(1)))
    set_exact_value(off, third)
    assert stands_for(off) is None


def test_numbers_that_doubles_do_not_tell_apart_are_told_apart():
    third = Reals.of(np.array([1.0])) / Reals.of(np.array([3.0]))
    near = third + Reals.of(np.array([2.0**-200]))
    assert same_numbers(third, third) == (1, 1)
    assert same_numbers(third, near) is None
