"""Replace batch normalization by a factor and a shift."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.shapes import rank
from onnx_passes.ops.number_systems.constants import rounded
from onnx_passes.passes.fuse.layer_laws import normalization_of, unusual
from onnx_passes.rewrite.passes import RewriteRulePass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no


@passes.verify.tolerance
@passes.register("inline", aliases={"inline-batch-normalization": ""})
class InlineBatchnorm(Transformation, RewriteRulePass):
    """Lower batch normalization to a factor and a shift for each channel.

    Rewrites: ``BatchNormalization(x, scale, b, mean, var)`` → ``x * f + s`` with constants ``f`` and ``s`` of the type
              of ``x``, regardless of the types of the parameters; if parameters are not constant, ``f`` and ``s`` are
              computed in the model.
    Refuses:  training mode; constants that are not finite, or give factors that are not finite; an input of unknown
              rank or type; computed parameters of another type than ``x``.
    Exactness: rounding; constant factors are computed in double precision and rounded once.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    def pattern(self, op: Op, x: Var, scale: Var, shift: Var, mean: Var, variance: Var) -> Var:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Match any batch normalization."""
        return op.BatchNormalization(x, scale, shift, mean, variance, _outputs=["y"])

    def rewrite(self, op: Builder, x: ir.Value, y: ir.Value) -> Rewritten:
        """Return the product and sum with constant factors, or the reason for a refusal."""
        node, dims = y.producer(), rank(x)
        assert node is not None
        if dims is None or dims < 2 or x.dtype is None:
            return no("rank and type of the input are not known", at=x)
        if not all(map(is_constant, node.inputs[1:5])):
            return _computed(op, node, dims)
        read = normalization_of(node)
        if isinstance(read, Refusal):
            return read
        factors, shifts = (rounded(array, x.dtype) for array in read)
        if factors is None or shifts is None:
            return no("the factors would not be finite", at=node)
        shape = (-1, *[1] * (dims - 2))
        product = op.Mul(x, op.initializer(ir.Tensor(factors.reshape(shape), dtype=x.dtype), "factor"))
        return op.Add(product, op.initializer(ir.Tensor(shifts.reshape(shape), dtype=x.dtype), "shift"))


def _computed(op: Builder, node: ir.Node, dims: int) -> Rewritten:
    """Compute factor and shift in the model."""
    x, *parameters = node.inputs[:5]
    assert x is not None
    assert x.dtype is not None
    refusal = unusual(node)
    if refusal is not None:
        return refusal
    if any(value is None or value.dtype != x.dtype for value in parameters):
        return no("the parameters are not of the type of the input", at=node)
    scale, shift, mean, variance = parameters
    epsilon = np.array(node.attributes.get_float("epsilon", 1e-5), x.dtype.numpy())
    factor = op.Div(scale, op.Sqrt(op.Add(variance, epsilon)))
    rest = op.Sub(shift, op.Mul(mean, factor))
    if dims > 2:
        shape = np.array((-1, *[1] * (dims - 2)), np.int64)
        factor, rest = op.Reshape(factor, shape), op.Reshape(rest, shape)
    return op.Add(op.Mul(x, factor), rest)
