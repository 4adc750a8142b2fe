from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.verify.proving.congruence import METHOD, disagreement, has_same_bits
from tests.verify.proving.windows import Q, is_exact, prove

CONSTANTS = (
    "float one = {1}, float zero = {0}, float minus = {-0.0}, float bits = {4}, float s = {0.3}, float z = {3},"
    " float[1,1,1] ones = {1}"
)
QUANT = f"y = {Q}.Quant <signed = 1> (x, s, zero, bits)"
EXTRACTED = f"d = Div(x, s) q = {Q}.Quant <signed = 1> (d, one, zero, bits) y = Mul(q, s)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (QUANT, EXTRACTED),
        (
            QUANT.replace("zero", "z"),
            f"d = Div(x, s) a = Add(d, z) q = {Q}.Quant <signed = 1> (a, one, zero, bits) b = Sub(q, z) y = Mul(b, s)",
        ),
        ("a = Mul(x, one) y = Add(a, s)", "y = Add(s, x)"),
        ("a = Add(x, minus) y = Exp(a)", "y = Exp(x)"),
        ("a = Cast <to = 1> (x) y = Exp(a)", "y = Exp(x)"),
        ("a = Mul(x, ones) y = Exp(a)", "a = Mul(x, one) y = Exp(a)"),
    ],
)
def test_what_changes_no_bit_is_seen_through(before: str, after: str):
    found = prove("float[2,3,4] x", before, after, constants=CONSTANTS)
    assert is_exact(found)
    assert found.method == METHOD


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (QUANT, EXTRACTED.replace("Mul(q, s)", "Mul(q, z)")),
        (QUANT, EXTRACTED.replace("Div(x, s)", "Mul(x, s)")),
        (QUANT, EXTRACTED.replace("signed = 1", "signed = 0")),
        ("a = Add(x, zero) y = Exp(a)", "a = Add(x, one) y = Exp(a)"),
        ("a = Mul(x, s) y = Div(a, s)", "y = Identity(x)"),
        ("y = Sub(x, s)", "y = Sub(s, x)"),
    ],
)
def test_what_changes_bits_is_not(before: str, after: str):
    assert not is_exact(prove("float[2,3,4] x", before, after, constants=CONSTANTS))


def test_adding_zero_makes_negative_zeros_positive():
    assert not is_exact(prove("float[2] x", "a = Add(x, zero) y = Div(one, a)", "y = Div(one, x)", constants=CONSTANTS))


def test_a_neutral_constant_that_raises_the_rank_is_not_dropped():
    assert not is_exact(prove("float[2] x", "y = Mul(x, ones)", "y = Identity(x)", constants=CONSTANTS))


def test_what_stands_elsewhere_in_a_model_is_one():
    assert is_exact(prove("float[2] x", "y = Exp(x)", "y = Identity(a)", inside="a = Exp(x)"))
    assert not is_exact(prove("float[2] x", "y = Exp(x)", "y = Identity(a)", inside="a = Sin(x)"))


@pytest.mark.parametrize(
    ("old", "new", "ignores", "agree"),
    [
        ([1.0, np.nan], [1.0, np.nan], (), True),
        ([1.0, np.nan], [1.0, 2.0], (), False),
        ([1.0, 2.0], [1.0, np.nan], ("nsz",), False),
        ([np.inf, 2.0], [-np.inf, 2.0], ("nsz",), False),
        ([0.0, 2.0], [-0.0, 2.0], (), False),
        ([0.0, 2.0], [-0.0, 2.0], ("nsz",), True),
        ([0.0, 2.0], [-0.0, 3.0], ("nsz",), False),
        ([1.0, 2.0], [np.nextafter(np.float32(1), np.float32(2)), 2.0], ("nsz",), False),
    ],
)
def test_results_disagree_as_numpy_says(old: list[float], new: list[float], ignores: tuple[str, ...], *, agree: bool):
    arrays = [np.array(numbers, np.float32) for numbers in (old, new)]
    assert (disagreement(arrays[:1], arrays[1:], ignores) is None) is agree
    assert disagreement(arrays[:1], [arrays[1].astype(np.float64)], ("nsz",)) is not None
    assert disagreement(arrays[:1], [arrays[1][None]], ("nsz",)) is not None
    both = [arrays[0], arrays[0]], [arrays[0], arrays[1]]
    assert (disagreement(*both, ignores) is None) is agree


@pytest.mark.parametrize("kind", ["int8", "uint16", "float16", "float32", "int64", "float64", "complex128", "bool"])
def test_one_bit_is_enough_for_arrays_to_be_others(kind: str):
    array = np.array([0, 1, 0, 1], kind)
    assert has_same_bits(array, array.copy())
    for place in range(array.nbytes):
        changed = array.copy()
        changed.view(np.uint8)[place] ^= 1
        assert not has_same_bits(array, changed)
    assert not has_same_bits(array, array[None])
    assert not has_same_bits(array, array[:3])
    assert not has_same_bits(np.array(["a"], object), np.array(["a"], object))
