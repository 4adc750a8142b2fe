from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import api
from onnx_passes.fragment.fragment import Fragment, SideBySide
from onnx_passes.proofs.proof import Proof
from onnx_passes.verify.proving.domain import computed, is_arithmetic
from onnx_passes.verify.proving.facts import Budget, Facts
from onnx_passes.verify.proving.finite import METHOD as FINITE
from onnx_passes.verify.proving.pointwise import Pointwise, pointwise
from onnx_passes.verify.proving.steps import METHOD as STEPS
from tests.verify.proving.windows import HEAD, Q, is_exact, prove

ACCUMULATOR = f"q = {Q}.Quant <signed = 1, narrow = 0> (x, one, zero, bits)"
CONSTANTS = "float one = {1}, float zero = {0}, float bits = {8}, float s = {0.1}, float b = {0.3}, float two = {2}"
TAIL = f"a = Mul(q, s) c = Add(a, b) r = Relu(c) y = {Q}.Quant <signed = 0, narrow = 0> (r, one, zero, two)"
COUNT = f'y = {Q}.MultiThreshold <data_layout = "NC"> (q, t)'


def thresholds_of_tail() -> np.ndarray:
    q = np.arange(-128, 128, dtype=np.float32)
    levels = np.clip(np.rint(np.maximum(q * np.float32(0.1) + np.float32(0.3), 0)), 0, 3)
    return np.array([[q[levels >= level].min() for level in (1, 2, 3)]], np.float32)


def test_thresholds_are_proved_on_integers():
    found = prove(
        "float[2,3] x", TAIL, COUNT, constants=CONSTANTS, inside=ACCUMULATOR, ignores=("nsz",), t=thresholds_of_tail()
    )
    assert is_exact(found)
    assert found.method == STEPS
    assert "integers from -128 to 127" in found.facts[0]


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("offset", [-1, 1])
def test_a_threshold_off_by_one_is_not(place: int, offset: int):
    t = thresholds_of_tail()
    t[0, place] += offset
    assert not is_exact(
        prove("float[2,3] x", TAIL, COUNT, constants=CONSTANTS, inside=ACCUMULATOR, ignores=("nsz",), t=t)
    )


def test_half_a_step_off_is_the_same_for_integers_but_not_for_floats():
    t = thresholds_of_tail() - np.float32(0.5)
    assert is_exact(prove("float[2,3] x", TAIL, COUNT, constants=CONSTANTS, inside=ACCUMULATOR, ignores=("nsz",), t=t))
    found = prove("float[2,3] q", TAIL, COUNT, constants=CONSTANTS, ignores=("nsz",), t=t)
    assert not is_exact(found)
    assert found.refuted


def bisected(scale: float) -> np.ndarray:
    """Find the least float that a quotient rounds to 1 from, by looking at all near it."""
    x = np.float32(0.5 * scale)
    near = np.array([x], np.float32).view(np.int32) + np.arange(-40, 40, dtype=np.int32)
    floats = near.view(np.float32)
    return floats[np.rint(floats / np.float32(scale)) >= 1].min().reshape(1, 1)


SIGN = f"d = Div(x, s) y = {Q}.Quant <signed = 0, narrow = 0> (d, one, zero, one)"


@pytest.mark.parametrize("ulp", [-1, 0, 1])
def test_thresholds_of_floats_are_proved_to_the_last_bit(ulp: int):
    t = (bisected(0.1).view(np.int32) + ulp).view(np.float32)
    found = prove("float[2,3] x", SIGN, COUNT.replace("(q", "(x"), constants=CONSTANTS, ignores=("nsz", "nnan"), t=t)
    assert is_exact(found) == (ulp == 0)


def test_channels_have_thresholds_of_their_own():
    scales = np.array([0.1, 0.5, 3.0], np.float32)
    rows = np.concatenate([bisected(float(scale)) for scale in scales])
    arguments = {
        "constants": CONSTANTS.replace("float s = {0.1}", "float[3] s = {0.1, 0.5, 3.0}"),
        "ignores": ("nsz", "nnan"),
    }
    count = COUNT.replace("(q", "(x")
    assert is_exact(prove("float[2,3] x", SIGN, count, **arguments, t=rows))
    assert not is_exact(prove("float[2,3] x", SIGN, count, **arguments, t=rows[::-1].copy()))


def test_a_search_for_steps_is_finished_but_no_other_begun_when_the_budget_is_spent():
    budget = Budget(1)
    arguments = {"constants": CONSTANTS, "ignores": ("nsz", "nnan", "ninf"), "budget": budget}
    plain = f"y = {Q}.Quant <signed = 1, narrow = 0> (x, one, zero, bits)"
    halved = f"z = Mul(x, two) h = {Q}.Quant <signed = 1, narrow = 0> (z, two, zero, bits) y = Div(h, two)"
    assert is_exact(prove("float[2,3] x", halved, plain, **arguments))
    assert budget.is_spent
    found = prove("float[2,3] x", halved, plain, **arguments)
    assert not is_exact(found)
    assert "--effort" in str(found)


BACK = "a = Mul(q, q) y = Relu(a)"


@pytest.mark.parametrize(
    ("after", "right"), [("a = Abs(q) y = Mul(a, a)", True), ("a = Add(q, one) y = Mul(a, q)", False)]
)
def test_what_goes_up_and_down_is_compared_everywhere(after: str, right: bool):
    found = prove("float[2,3] x", BACK, after, constants=CONSTANTS, inside=ACCUMULATOR, ignores=("nsz",))
    assert is_exact(found) == right
    assert not right or found.method == FINITE


def test_a_sign_of_zero_counts_unless_the_pass_says_otherwise():
    arguments = {"constants": CONSTANTS, "inside": ACCUMULATOR}
    assert is_exact(
        prove("float[2,3] x", "y = Mul(q, zero)", "a = Abs(q) y = Mul(a, zero)", **arguments, ignores=("nsz",))
    )
    assert not is_exact(prove("float[2,3] x", "y = Mul(q, zero)", "a = Abs(q) y = Mul(a, zero)", **arguments))


FALLING = f"m = MatMul(q, w) n = Mul(m, minus) y = {Q}.Quant <signed = 0, narrow = 0> (n, one, zero, two)"
TURNED = f'm = MatMul(q, v) y = {Q}.MultiThreshold <data_layout = "NC"> (m, t)'


@pytest.mark.parametrize(("sign", "shift", "right"), [(-1, 0, True), (1, 0, False), (-1, 1, False)])
def test_weights_that_were_turned_around_are_seen_through(sign: int, shift: int, right: bool):
    w = np.array([[1, -2], [3, 1], [-1, 2]], np.float32)
    found = prove(
        "float[2,3] x",
        FALLING,
        TURNED,
        constants=CONSTANTS + ", float minus = {-1}",
        inside=ACCUMULATOR,
        ignores=("nsz",),
        w=w,
        v=sign * w,
        t=np.array([[1, 2, 3], [1, 2, 3 + shift]], np.float32),
    )
    assert is_exact(found) == right


@pytest.mark.parametrize("tail", [TAIL, SIGN.replace("(x,", "(q,"), "a = Sub(s, q) n = Neg(a) y = Min(n, two)"])
def test_numpy_computes_what_onnx_runtime_does(tail: str):
    model = ir.from_onnx_text(f"{HEAD} g (float[2,3] q) => (float[2,3] y) <{CONSTANTS}> {{ {tail} }}")
    model = api.apply(model, "shape-inference", verify=False).model
    side = Fragment(tuple(model.graph), tuple(model.graph.outputs), tuple(model.graph.inputs))
    found = pointwise((side, side))
    assert isinstance(found, Pointwise)
    assert is_arithmetic(side)
    points = np.random.default_rng(0).normal(scale=100, size=(1, 1000)).astype(np.float32)
    (expected,), _ = SideBySide((side, side), model, Facts(model).executor)([found.laid(points)])
    assert np.array_equal(computed(found, side, points), found.unlaid(expected))


def test_what_becomes_of_nan_is_no_proof_of_bits_unless_the_pass_leaves_it_out():
    t = bisected(0.1)
    found = prove("float[2,3] x", SIGN, COUNT.replace("(q", "(x"), constants=CONSTANTS, ignores=("nsz",), t=t)
    assert not (isinstance(found, Proof) and "bits" in found.preserves)
