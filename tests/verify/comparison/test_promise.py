"""Equality is bit by bit, unless a pass says that signs of zeros do not count."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.core.base import PassResult, Transformation
from onnx_passes.core.claims import Claim
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.evidence import Limits, promise_of


class Strict(Transformation):
    claims = (Claim("equality"),)

    def call(self, model: ir.Model) -> PassResult:
        return PassResult(model, modified=False)


class Careless(Strict):
    fast_math = ("nsz",)


@pytest.mark.parametrize(
    ("pass_", "found", "holds"),
    [(Strict, -0.0, False), (Careless, -0.0, True), (Careless, 1e-45, False), (Careless, np.nan, False)],
)
def test_signs_of_zeros(pass_: type[Transformation], found: float, holds: bool):
    before, after = {"y": np.zeros(2, np.float32)}, {"y": np.array([0, found], np.float32)}
    assert promise_of([pass_()], Limits()).holds(compare(before, after)) == holds
