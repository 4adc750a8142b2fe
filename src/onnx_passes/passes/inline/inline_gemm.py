"""Replace Gemm by a product, factors and a sum."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.uses import is_used_elsewhere
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRulePass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Answer, Rewritten, no, yes


@passes.verify.tolerance
@passes.register("inline")
class InlineGemm(Transformation, RewriteRulePass):
    """Lower Gemm to a product, factors and a sum.

    Rewrites: ``Gemm(a, b, c)`` → ``MatMul(a, b) + c``, with ``Transpose`` and ``Mul`` as the attributes require; a
              constant matrix is transposed and a constant ``c`` scaled at once.
    Refuses:  empty matrices; unknown types; integers with fractional factors; opsets below 7.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = MappingProxyType({"dtypes": ("float32", "float64", "float16")})

    def pattern(self, op: Op, a: Var, b: Var) -> Var:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Match any Gemm."""
        return op.Gemm(a, b, _allow_other_inputs=True, _outputs=["y"])

    def check(self, op: Match, y: ir.Value) -> Answer:
        """Check that the factors are exact in the type of the matrices."""
        node = y.producer()
        assert node is not None
        dtype = node.inputs[0].dtype if node.inputs[0] is not None else None
        if op.opset < 7:
            return no("opset < 7 has no implicit broadcasting", at=node)
        if dtype is None:
            return no("the type is not known", at=y)
        if any(0 in (static_shape(value) or ()) for value in node.inputs[:2]):
            return no("the matrices are empty, and kernels then ignore the factors", at=node)
        factors = [node.attributes.get_float(name, 1.0) for name in ("alpha", "beta")]
        if dtype.is_integer() and any(factor != int(factor) for factor in factors):
            return no("the factors are fractional, but the matrices are integers", at=node)
        return yes

    def rewrite(self, op: Builder, y: ir.Value) -> Rewritten:
        """Build only the nodes that the attributes require."""
        node = y.producer()
        assert node is not None
        a, b, *others = node.inputs
        c = others[0] if others else None
        product = op.MatMul(
            _transposed(op, a) if node.attributes.get_int("transA", 0) else a,
            _transposed(op, b) if node.attributes.get_int("transB", 0) else b,
        )
        product = _times(op, product, node.attributes.get_float("alpha", 1.0), a)
        beta = node.attributes.get_float("beta", 1.0)
        # With a factor of zero the operand counts as absent, even if it is not finite.
        return product if c is None or beta == 0 else op.Add(product, _times(op, c, beta, a))


def _transposed(op: Builder, x: ir.Value | None) -> Rewritten:
    array = constant(x)
    if x is not None and array is not None and not is_used_elsewhere(x):
        return op.initializer(ir.Tensor(np.ascontiguousarray(array.T), dtype=x.dtype), x.name)
    return op.Transpose(x, perm=[1, 0])


def _times(op: Builder, x: Any, factor: float, typed: ir.Value | None) -> Rewritten:
    assert typed is not None
    assert typed.dtype is not None
    if factor == 1:
        return x
    number = np.asarray(factor).astype(typed.dtype.numpy())
    array = constant(x)
    if array is not None:
        with np.errstate(all="ignore"):
            return op.initializer(ir.Tensor(array * number, dtype=typed.dtype), x.name)
    return op.Mul(x, op.initializer(ir.Tensor(number, dtype=typed.dtype), "factor"))
