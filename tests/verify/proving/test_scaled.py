from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.proofs.proof import Proof
from onnx_passes.verify.proving.scaled import METHOD
from tests.verify.proving.windows import Q, is_exact, prove

GENERATOR = np.random.default_rng(0)
INTEGERS = GENERATOR.integers(-7, 8, (4, 3, 3, 3)).astype(np.float32)
QUANT = f"q = {Q}.Quant <signed = 1> (x, one, zero, bits)"
CONSTANTS = "float one = {{1}}, float zero = {{0}}, float bits = {{{bits}}}, float s = {{{s}}}"
CONV = "a = Mul(q, s) y = Conv <pads = [1,1,1,1]> (a, w)"
MOVED = "a = Conv <pads = [1,1,1,1]> (q, v) y = Mul(a, f)"


def moved(factor: float, *, bits: int = 8, after: str = MOVED, v: np.ndarray = INTEGERS):
    constants = CONSTANTS.format(bits=bits, s=0.5) + ", float t = {0.25}, float four = {4}"
    inside = f"{QUANT} w = {Q}.Quant <signed = 1> (wf, t, zero, four)"
    held = {"wf": INTEGERS * np.float32(0.25), "v": v, "f": np.full((1, 1, 1, 1), factor, np.float32)}
    ignores = ("nsz", "reassoc")
    return prove("float[1,3,8,8] x", CONV, after, constants=constants, inside=inside, ignores=ignores, **held)


def test_a_scale_that_moves_past_integers_is_the_same_real_number():
    found = moved(0.125)
    assert is_exact(found)
    assert found.method == METHOD
    assert "< 2²⁴" in found.facts[0]


@pytest.mark.parametrize("factor", [0.25, 0.1251, -0.125])
def test_a_wrong_scale_is_not(factor: float):
    assert not isinstance(moved(factor), Proof)


def test_other_weights_are_not():
    turned = np.ascontiguousarray(INTEGERS.swapaxes(2, 3))
    assert not isinstance(moved(0.125, v=turned), Proof)
    one_off = INTEGERS.copy()
    one_off[1, 2, 0, 1] += 1
    assert not isinstance(moved(0.125, v=one_off), Proof)


def test_other_windows_are_not():
    assert not isinstance(moved(0.125, after=MOVED.replace("[1,1,1,1]", "[0,0,2,2]")), Proof)


def test_sums_beyond_what_floats_hold_are_not():
    assert is_exact(moved(0.125, bits=12))
    assert not isinstance(moved(0.125, bits=20), Proof)


def test_scales_merged_in_floats_are_equal_in_real_numbers_with_a_bound():
    s, t = np.float32(0.1), np.float32(0.3)
    constants = CONSTANTS.format(bits=8, s=float(s)) + f", float t = {{{float(t)}}}"
    before, after = "a = Mul(q, s) y = Mul(a, t)", "y = Mul(q, f)"
    arguments = {"constants": constants, "inside": QUANT, "ignores": ("nsz", "reassoc")}
    found = prove("float[2,3] x", before, after, f=np.array(s * t, np.float32), **arguments)
    assert isinstance(found, Proof)
    assert found.level == "equal-in-reals"
    q = np.arange(-128, 128, dtype=np.float32)
    assert 0 < np.abs(q * s * t - q * np.float32(s * t)).max() <= found.bound < 1e-5
    wrong = np.array(s * t * np.float32(1.00001), np.float32)
    assert not isinstance(prove("float[2,3] x", before, after, f=wrong, **arguments), Proof)


def test_a_bound_holds_for_constants_that_were_merged_less_well():
    s, t = np.float32(0.7), np.float32(0.3)
    merged = np.float32(float(s) * float(t) * (1 + 12 * 2.0**-24))
    constants = CONSTANTS.format(bits=20, s=0.5)
    held = {"v": np.array(s), "w": np.array(t), "f": np.array(merged)}
    before, after = "a = Mul(q, v) y = Mul(a, w)", "y = Mul(q, f)"
    found = prove("float[2,3] x", before, after, constants=constants, inside=QUANT, ignores=("nsz", "reassoc"), **held)
    assert isinstance(found, Proof)
    q = np.arange(-(2**19), 2**19, dtype=np.float32)
    assert 0 < np.abs((q * s * t).astype(np.float64) - q * merged).max() <= found.bound


def test_a_sum_of_multiples_is_one_of_integers():
    constants = (
        "float one = {1}, float zero = {0}, float bits = {4}, float s = {0.5}, float t = {0.25}, float two = {2}"
    )
    inside = f"{QUANT} r = {Q}.Quant <signed = 0> (z, one, zero, bits)"
    before = "a = Mul(q, s) b = Mul(r, t) c = Add(a, b) y = Relu(c)"
    after = "a = Mul(q, two) c = Add(a, r) d = Relu(c) y = Mul(d, t)"
    arguments = {"constants": constants, "inside": inside, "ignores": ("nsz", "reassoc")}
    assert is_exact(prove("float[2,3] x, float[2,3] z", before, after, **arguments))
    wrong = after.replace("Mul(q, two)", "Mul(q, one)")
    assert not isinstance(prove("float[2,3] x, float[2,3] z", before, wrong, **arguments), Proof)


SMALL = GENERATOR.integers(-5, 6, (4, 3)).astype(np.float32)
TALL = GENERATOR.integers(-5, 6, (8, 3)).astype(np.float32)
KERNEL = GENERATOR.integers(-3, 4, (2, 4, 1)).astype(np.float32)


def _gain(weights: np.ndarray, *axes: int) -> float:
    return float(np.abs(weights).sum(axis=axes).max())


GROWING = {
    "product": ("y = MatMul({}, w)", {"w": SMALL}, _gain(SMALL, 0)),
    "turned": ("y = Gemm <transB = 1> ({}, w)", {"w": SMALL.T.copy()}, _gain(SMALL, 0)),
    "joined": ("c = Concat <axis = 1> (small, {}) y = MatMul(c, w)", {"w": TALL}, _gain(TALL[4:], 0)),
    "behind": ("c = Concat <axis = 1> ({}, small) y = MatMul(c, w)", {"w": TALL}, _gain(TALL[:4], 0)),
    "sum": ("y = ReduceSum({}, last)", {}, 4.0),
    "twice": ("c = Add({}, other) y = Add(c, other)", {}, 3.0),
    "slope": ("y = Mul({}, w)", {"w": np.array(65, np.float32)}, 65.0),
    "window": ("u = Unsqueeze({}, end) c = Conv(u, w) y = Squeeze(c, end)", {"w": KERNEL}, _gain(KERNEL, 1, 2)),
}


@pytest.mark.parametrize("name", GROWING)
def test_integers_are_exact_up_to_just_what_floats_hold(name: str):
    body, held, gain = GROWING[name]
    most = int(np.floor(np.log2(2**24 / gain))) + 1
    for bits in (most - 1, most + 2):
        constants = CONSTANTS.format(bits=bits, s=0.5) + (
            ", float three = {3}, int64[1] last = {1}, int64[1] end = {2}, float half = {0.5}"
        )
        inside = (
            f"{QUANT} r = {Q}.Quant <signed = 1> (z, one, zero, bits) t = {Q}.Quant <signed = 1> (z, one, zero, three)"
        )
        scaled = "d = Mul(q, s) other = Mul(r, s) small = Mul(t, s)"
        found = prove(
            "float[2,4] x, float[2,4] z",
            f"{scaled} {body.format('d')}",
            f"{body.format('q').replace('other', 'r').replace('small', 't').replace('y =', 'e =')} y = Mul(e, half)",
            constants=constants,
            inside=inside,
            ignores=("nsz", "reassoc"),
            **held,
        )
        assert isinstance(found, Proof) == (bits < most), (bits, found)
