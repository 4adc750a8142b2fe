"""Operators along axes: what lowering them has in common."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.passes.fuse.conditions import FLOAT, HALF
from onnx_passes.passes.lower.operator import LowerOperator
from onnx_passes.rewrite.refusal import Refusal, no


class LowerAlongAxis(LowerOperator):
    """Lower an operator that looks for the largest element along an axis."""

    since = 18

    def refuse(self, x: ir.Value, node: ir.Node) -> Refusal | None:
        """Refuse sizes that may be zero, of which there is no largest element."""
        shape = static_shape(x)
        return no("the input may be empty, or is a scalar", at=x) if not shape or 0 in shape else None


class LowerNorm(LowerOperator):
    """Lower an operator that divides by a root mean square over the last axes."""

    since = 18
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    def refuse(self, x: ir.Value, node: ir.Node) -> Refusal | None:
        """Refuse types in which kernels compute otherwise than they say, and axes that are not known."""
        if x.dtype not in (FLOAT, HALF) or node.attributes.get_int("stash_type", 1) != FLOAT.value:
            return no("the input is not of single or half precision, computed in single precision", at=x)
        if not rank(x):
            return no("the rank of the input is not known", at=x)
        return None

    def normalize(self, op: Any, x: ir.Value, node: ir.Node, *, centred: bool) -> Any:
        """Build the normalization in single precision, and scale and shift its result."""
        dims = rank(x)
        assert dims is not None
        axis = node.attributes.get_int("axis", -1)
        axes = list(range(axis % dims, dims))
        wide = op.Cast(x, to=FLOAT.value) if x.dtype is HALF else x
        if centred:
            wide = op.Sub(wide, op.ReduceMean(wide, axes, keepdims=1))
        variance = op.ReduceMean(op.Mul(wide, wide), axes, keepdims=1)
        result = op.Div(wide, op.Sqrt(op.Add(variance, node.attributes.get_float("epsilon", 1e-5))))
        if x.dtype is HALF:
            result = op.Cast(result, to=HALF.value)
        scale, *others = node.inputs[1:]
        result = op.Mul(result, scale)
        return op.Add(result, others[0]) if others and others[0] is not None else result
