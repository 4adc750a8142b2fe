"""Fold batch normalization into the layer before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import finite_constant
from onnx_passes.passes.fuse.layers import Layer, layer_pattern
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.passes import RewriteRulePass
from onnx_passes.rewrite.refusal import Refusal, no


@passes.verify.tolerance
@passes.register("fuse")
class FuseBatchnorm(Transformation, RewriteRulePass):
    """Fold batch normalization into the weights and the bias of the layer before it.

    Rewrites: ``BatchNormalization(Conv(x, w, b), …)`` → ``Conv(x, w', b')``, also after ``ConvTranspose``, ``Gemm``
              and, as a ``Gemm``, after ``MatMul`` of matrices.
    Refuses:  training mode; parameters that are not constant, not finite, or would not be finite after folding;
              weights that are used elsewhere, unless they are small; a layer whose result is used elsewhere.
    Exactness: rounding; computed in double precision and rounded once. Sums that overflow before the
              normalization may be finite after it.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(dtypes=("float32", "float16", "float64"))

    def pattern(self, op: Any, x: Any, w: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Match a normalization of the result of a layer."""
        return op.BatchNormalization(layer_pattern(op, x, w), scale, shift, mean, variance, _outputs=["z"])

    def rewrite(self, op: Any, y: ir.Value, z: ir.Value) -> Any:
        """Change the weights, or say what stands against it."""
        node = z.producer()
        assert node is not None
        read = normalization(node)
        if isinstance(read, Refusal):
            return read
        layer = Layer.of(y)
        if isinstance(layer, Refusal):
            return layer
        if layer.node.op_type == "MatMul" and (
            layer.rank != 2 or y.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)
        ):
            return no("the product is not of matrices of floats", at=y)
        return layer.affine(op, *read)


def unusual(node: ir.Node) -> Refusal | None:
    """Say why a batch normalization is not one factor and one shift for each channel."""
    if node.attributes.get_int("training_mode", 0):
        return no("the normalization is in training mode", at=node)
    if not node.attributes.get_int("spatial", 1):
        return no("the normalization has parameters for each pixel", at=node)
    return None


def normalization(node: ir.Node) -> tuple[np.ndarray, np.ndarray] | Refusal:
    """Read a batch normalization as one factor and one shift for each channel, in double precision."""
    refusal = unusual(node)
    if refusal is not None:
        return refusal
    found: list[np.ndarray] = []
    for value in node.inputs[1:5]:
        array = finite_constant(value)
        if array is None:
            return no("a parameter of the normalization is not constant and finite", at=value)
        found.append(array)
    scale, shift, mean, variance = found
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    with np.errstate(all="ignore"):
        factors = scale / np.sqrt(variance + epsilon)
        shifts = shift - mean * factors
    if not (np.isfinite(factors).all() and np.isfinite(shifts).all()):
        return no("the variance is not positive", at=node.inputs[4])
    return factors, shifts
