"""Multiply constant matrices with each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arithmetic import rounded, wide
from onnx_passes.graph.constants import constant_tensor, grows, held, is_constant
from onnx_passes.graph.shapes import is_float
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.tolerance
@passes.register("fast-math")
class GroupMatmul(Transformation, RewriteRuleSetPass):
    """Fold two consecutive matrix products with constants into one.

    Rewrites: ``(x @ a) @ b`` → ``x @ (a @ b)`` of floats.
    Refuses:  constants that are no matrices, not finite, whose product is not, or that a caller may override; large
              ones that others use, too; a product of more elements than both together, which is more work, too.
    Exactness: rounding; what overflows on the way, and only there, may be finite now, or the other way round.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc")
    fuzz_hints = hints(
        *(
            f"""g ({kind}[{rows}3] x) => ({kind}[{rows}2] z) <{kind}[3,4] a = {{1,0,-2,3,4,0,0.5,1,2,2,-1,7}},
                {kind}[4,2] b = {{1,2,-3,0.25,5,0,7,8}}> {{y = MatMul (x, a) z = MatMul (y, b)}}"""
            for kind in ("float", "double")
            for rows in ("", "2,", "N,", "0,", "4,1,")
        ),
        dtypes=["float32", "float64"],
    )

    def rules(self) -> Sequence[Rule]:
        """Return the one rule."""
        return [Rule(_pattern, _rewrite, _check, name="MatMul")]


def _pattern(op: Any, x: Any, a: Any, b: Any) -> Any:
    return op.MatMul(op.MatMul(x, a), b)


def _check(op: Match, x: ir.Value, a: ir.Value, b: ir.Value) -> Any:
    first, second = constant_tensor(a), constant_tensor(b)
    if first is None or second is None or is_constant(x) or not is_float(a):
        return no("the matrices are not constant, or not of floats", at=b)
    if len(first.shape) != 2 or len(second.shape) != 2:
        return no("the constants are no matrices", at=b)
    if grows(a) or grows(b):
        return no("a matrix is used elsewhere, too", at=b)
    (rows, _), (_, columns) = first.shape.numpy(), second.shape.numpy()
    if rows * columns > first.size + second.size:
        return no("the product has more elements than both matrices", at=b)
    return yes


def _rewrite(op: Any, x: ir.Value, a: ir.Value, b: ir.Value) -> Any:
    assert a.dtype is not None
    with np.errstate(all="ignore"):
        product = rounded(wide(held(a)) @ wide(held(b)), a.dtype)
    if product is None:
        return no("the product of the matrices is not finite", at=b)
    return op.MatMul(x, product)
