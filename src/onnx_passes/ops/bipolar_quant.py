"""BipolarQuant: quantize to one bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.definition import Call, Definition, Input
from onnx_passes.ops.portable import greater_or_equal

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder


class BipolarQuant(Definition):
    """Quantize to ``+scale`` where x is not negative, to ``-scale`` elsewhere.

    Zero of either sign gives ``+scale``, NaN gives ``-scale``.
    """

    name = "BipolarQuant"
    inputs = (Input("x", "the values"), Input("scale", "the size of the result, for the tensor or for each channel"))

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        x, scale = inputs
        with np.errstate(invalid="ignore"):
            return np.where(x >= 0, 1, -1).astype(x.dtype) * scale.astype(x.dtype)

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        sign = op.Where(greater_or_equal(op, call.x, call.number(0)), call.number(1), call.number(-1))
        return op.Mul(sign, call.input(1))
