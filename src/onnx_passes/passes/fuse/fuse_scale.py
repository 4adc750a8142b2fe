"""Fold constants that multiply the result or the input of a layer into its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import finite_constant
from onnx_passes.passes.fuse.fuse_bias import IMAGES, per_input_channel
from onnx_passes.passes.fuse.layers import Layer, layer_pattern
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Refusal, no
from onnx_passes.rewrite.rule import Rule


@passes.verify.tolerance
@passes.register("fuse")
class FuseScale(Transformation, RewriteRuleSetPass):
    """Fold a constant factor after a layer, or before a convolution, into the weights of the layer.

    Rewrites: ``Conv(x, w, b) * c`` → ``Conv(x, w * c, b * c)``, with ``/`` too, also for ``ConvTranspose``, ``Gemm``
              and ``MatMul``; ``Conv(x * c, w, b)`` → ``Conv(x, w * c, b)``.
    Refuses:  what is not constant and finite, or would not be after folding; a factor that is not one number, or one
              for each channel; weights that are used elsewhere, unless they are small; a layer whose result is.
    Exactness: rounding; computed in double precision and rounded once. What overflows before the factor may be
              finite after it.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(dtypes=("float32", "float16", "float64"), shapes=IMAGES)

    def rules(self) -> Sequence[Rule]:
        """Return the rules for factors after a layer, and that for one before it."""
        return [
            Rule(_pattern_multiply, _multiply, name="MulAfter"),
            Rule(_pattern_divide, _divide, name="DivAfter"),
            Rule(_pattern_before, _scale_before, name="MulBefore"),
        ]


def _pattern_multiply(op: Any, x: Any, w: Any, c: Any) -> Any:
    return op.Mul(layer_pattern(op, x, w), c)


def _pattern_divide(op: Any, x: Any, w: Any, c: Any) -> Any:
    return op.Div(layer_pattern(op, x, w), c)


def _pattern_before(op: Any, image: Any, w: Any, each: Any) -> Any:
    return op.Conv(op.Mul(image, each), w, _allow_other_inputs=True, _outputs=["y"])


def _multiply(op: Any, y: ir.Value, c: ir.Value) -> Any:
    return _scale(op, y, finite_constant(c))


def _divide(op: Any, y: ir.Value, c: ir.Value) -> Any:
    return _scale(op, y, _inverse(finite_constant(c)))


def _inverse(array: np.ndarray | None) -> np.ndarray | None:
    return None if array is None or (array == 0).any() else 1 / array


def _scale(op: Any, y: ir.Value, array: np.ndarray | None) -> Any:
    if array is None:
        return no("the factor is not constant and finite", at=y)
    layer = Layer.of(y)
    if isinstance(layer, Refusal):
        return layer
    factors = layer.spread(array)
    if factors is None:
        return no("the factor is not one number for each channel", at=y)
    return layer.affine(op, factors)


def _scale_before(op: Any, image: ir.Value, each: ir.Value, y: ir.Value) -> Any:
    array = finite_constant(each)
    if array is None:
        return no("the factor is not constant and finite", at=each)
    layer = Layer.of(y)
    if isinstance(layer, Refusal):
        return layer
    factors = per_input_channel(layer, image, array)
    if factors is None:
        return no("the factor is not one number for each channel of the input", at=each)
    weights = layer.weights()
    if isinstance(weights, Refusal):
        return weights
    groups = layer.node.attributes.get_int("group", 1)
    outputs, inputs, *kernel = layer.shape
    with np.errstate(all="ignore"):
        grouped = weights.reshape(groups, outputs // groups, inputs, *kernel)
        scaled = grouped * factors.reshape(groups, 1, inputs, *[1] * len(kernel))
    moved = layer.rebuild(op, scaled.reshape(layer.shape), layer.bias)
    if isinstance(moved, Refusal):
        return moved
    moved.producer().replace_input_with(0, image)
    return moved
