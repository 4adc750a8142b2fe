from __future__ import annotations

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
