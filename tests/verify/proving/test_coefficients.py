from __future__ import annotations

import re

import numpy as np

from onnx_passes.proofs.proof import Proof
from onnx_passes.verify.proving.coefficients import METHOD as COEFFICIENTS
from tests.verify.proving.windows import prove

GENERATOR = np.random.default_rng(0)
MERGED = "a = Conv(x, w) y = BatchNormalization(a, g, b, m, v)"


def merged(weights: np.ndarray, bias: np.ndarray, w: np.ndarray, **normal: np.ndarray):
    return prove("float[1,3,8,8] x", MERGED, "y = Conv(x, wm, bm)", w=w, wm=weights, bm=bias, **normal)


def test_layers_that_constants_were_merged_into_are_equal_in_real_numbers():
    w = GENERATOR.normal(size=(4, 3, 3, 3)).astype(np.float32)
    g, b, m = (GENERATOR.normal(size=4).astype(np.float32) for _ in range(3))
    v = GENERATOR.uniform(0.5, 2, 4).astype(np.float32)
    factor = g.astype(np.float64) / np.sqrt(v.astype(np.float64) + float(np.float32(1e-5)))
    weights = (w * factor[:, None, None, None]).astype(np.float32)
    bias = (b - m * factor).astype(np.float32)
    found = merged(weights, bias, w, g=g, b=b, m=m, v=v)
    assert isinstance(found, Proof)
    assert (found.level, found.method) == ("equal-in-reals", COEFFICIENTS)
    for wrong, other in (
        (weights * np.float32(1.0001), bias),
        (weights, bias + np.float32(1e-3)),
        (weights[::-1], bias),
    ):
        assert not isinstance(merged(np.ascontiguousarray(wrong), other, w, g=g, b=b, m=m, v=v), Proof)


def test_the_bound_that_is_said_holds_and_is_no_larger_than_it_has_to_be():
    w = GENERATOR.normal(size=(64, 4)).astype(np.float32)
    s, x = GENERATOR.uniform(0.5, 2, 4).astype(np.float32), GENERATOR.normal(size=(500, 64)).astype(np.float32)
    scaled = (w * s).astype(np.float32)
    found = prove("float[500,64] x", "a = MatMul(x, w) y = Mul(a, s)", "y = MatMul(x, v)", w=w, s=s, v=scaled)
    assert isinstance(found, Proof)
    said = re.search(r"off by at most (\S+) of the sizes", found.facts[1])
    assert said is not None
    sizes = np.abs(x.astype(np.float64)) @ np.abs(w.astype(np.float64) * s)
    apart = np.abs((x @ w * s).astype(np.float64) - x @ scaled) / sizes
    assert 0 < apart.max() <= float(said[1]) <= 4 * 66 * 2.0**-24
