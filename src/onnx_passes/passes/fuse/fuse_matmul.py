"""Merge products with two constant matrices into one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arithmetic import rounded
from onnx_passes.graph.constants import constant_tensor, finite_constant
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no
from onnx_passes.rewrite.rule import Rule


@passes.verify.tolerance
@passes.register("fuse")
class FuseMatmul(Transformation, RewriteRuleSetPass):
    """Merge two consecutive products with constant matrices into one.

    Rewrites: ``(x @ a) @ b`` → ``x @ (a @ b)``.
    Refuses:  what is not a constant and finite matrix of floats, or not finite as a product; a product that is larger
              than both matrices together, or than what it saves because they are used elsewhere.
    Exactness: rounding; computed in double precision and rounded once.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(
        dtypes=("float32", "float16", "float64"),
        shapes={"x": ((2, 3), (3,), (2, 1, 3)), "a": ((3, 2), (3, 4)), "b": ((2, 3), (4, 2))},
    )

    def rules(self) -> list[Rule]:
        """Return the one rule."""
        return [Rule(_pattern, _merge, name="MatMul")]


def _pattern(op: Any, x: Any, a: Any, b: Any) -> Any:
    return op.MatMul(op.MatMul(x, a), b)


def _merge(op: Any, x: ir.Value, a: ir.Value, b: ir.Value) -> Any:
    tensor = constant_tensor(a)
    left, right = finite_constant(a), finite_constant(b)
    if tensor is None or left is None or right is None or left.ndim != 2 or right.ndim != 2:
        return no("the factors are not constant and finite matrices", at=a)
    saved = sum(array.size for value, array in ((a, left), (b, right)) if len(value.uses()) == 1)
    if left.shape[0] * right.shape[1] > saved:
        return no("the merged matrix would be larger", at=a)
    with np.errstate(all="ignore"):
        merged = rounded(left @ right, tensor.dtype)
    if merged is None:
        return no("the merged matrix would not be finite", at=a)
    return op.MatMul(x, op.initializer(merged, a.name))
