"""Normalizations over the last axes: what lowering them has in common."""

from __future__ import annotations

from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes.core.base import Transformation
from onnx_passes.graph.shapes import rank
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRulePass
from onnx_passes.rewrite.refusal import no, yes

_REDUCES_OVER_INPUTS = 18


class LowerNorm(Transformation, RewriteRulePass):
    """Put simpler operators in the place of one that divides by a root mean square, ``centred`` or not."""

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    operator: ClassVar[str] = ""
    centred: ClassVar[bool] = False

    def pattern(self, op: Any, x: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Match the operator by its first input."""
        return getattr(op, self.operator)(x, _allow_other_inputs=True, _outputs=["y"])

    def check(self, op: Match, x: ir.Value, y: ir.Value) -> Any:
        """Refuse types in which kernels compute otherwise than they say, and axes that are not known."""
        if op.opset < _REDUCES_OVER_INPUTS:
            return no(f"needs opset {_REDUCES_OVER_INPUTS}", at=y)
        if x.dtype is None or not x.dtype.is_floating_point():
            return no("the input is not known to be of floats", at=x)
        node = y.producer()
        assert node is not None
        if (
            x.dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16)
            or node.attributes.get_int("stash_type", 1) != ir.DataType.FLOAT.value
        ):
            return no("the input is not of single or half precision, computed in single precision", at=x)
        return yes if rank(x) else no("the rank of the input is not known", at=x)

    def rewrite(self, op: Any, x: ir.Value, y: ir.Value) -> Any:
        """Build the normalization in single precision, and scale and shift its result."""
        node, dims = y.producer(), rank(x)
        assert node is not None
        assert dims is not None
        axis = node.attributes.get_int("axis", -1)
        axes = list(range(axis % dims, dims))
        wide = op.Cast(x, to=ir.DataType.FLOAT.value) if x.dtype is ir.DataType.FLOAT16 else x
        if self.centred:
            wide = op.Sub(wide, op.ReduceMean(wide, axes, keepdims=1))
        variance = op.ReduceMean(op.Mul(wide, wide), axes, keepdims=1)
        result = op.Div(wide, op.Sqrt(op.Add(variance, node.attributes.get_float("epsilon", 1e-5))))
        if x.dtype is ir.DataType.FLOAT16:
            result = op.Cast(result, to=ir.DataType.FLOAT16.value)
        scale, *others = node.inputs[1:]
        result = op.Mul(result, scale)
        return op.Add(result, others[0]) if others and others[0] is not None else result
