"""Lower DynamicQuantizeLinear to QuantizeLinear with a computed scale."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.builder import Builder
from onnx_passes.passes.quant.samples import DYNAMIC_QUANTIZER
from onnx_passes.rewrite.passes import RewriteRulePass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Rewritten

_STEPS = 255.0


@passes.verify.equality
@passes.register(tags=("quant",))
class ConvertDynamicQuantizer(Transformation, RewriteRulePass):
    """Lower DynamicQuantizeLinear to standard operators that compute scale and zero point.

    Rewrites: ``DynamicQuantizeLinear(x)`` → ``QuantizeLinear(x, scale, zero)`` with ``scale = (max - min) / 255`` and
              ``zero = round(-min / scale)``.
    Refuses:  nothing.
    Exactness: bit-exact, except for NaN and infinities.
    """

    fast_math = ("nnan", "ninf")
    converts = MappingProxyType(
        {
            "DynamicQuantizeLinear": "",
        }
    )
    fuzz_hints = MappingProxyType({"models": DYNAMIC_QUANTIZER})

    def pattern(self, op: Op, x: Var) -> Var:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Match the operator with all its results."""
        return op.DynamicQuantizeLinear(x, _outputs=["y", "scale", "zero"])

    def rewrite(self, op: Builder, x: ir.Value) -> Rewritten:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Build the definition of the standard."""
        nothing, most = np.zeros((), np.float32), np.array(_STEPS, np.float32)
        low = op.Min(op.ReduceMin(x, keepdims=0), nothing)
        high = op.Max(op.ReduceMax(x, keepdims=0), nothing)
        step = op.Div(op.Sub(high, low), most)
        scale = op.Where(op.Equal(high, low), np.ones((), np.float32), step)
        # For a range of subnormal numbers the scale is zero, and the position of zero is NaN.
        place = op.Div(op.Neg(low), scale)
        inside = op.Where(op.Less(place, most), place, most)
        zero = op.Cast(op.Round(inside), to=ir.DataType.UINT8)
        return [op.QuantizeLinear(x, scale, zero), scale, zero]
