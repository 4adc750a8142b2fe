"""Fold constants that are added around a layer into its bias."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arithmetic import per_channel
from onnx_passes.graph.constants import finite_constant
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.passes.fuse.layers import BIASED, Layer, layer_pattern
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Refusal, no
from onnx_passes.rewrite.rule import Rule

IMAGES = MappingProxyType(
    {
        "image": ((1, 2, 4, 4), (2, 2, 4), (1, 4, 3, 5)),
        "each": ((2, 1, 1), (1, 2, 1, 1), (2, 1), (4, 1, 1), (1,), ()),
    }
)


@passes.verify.tolerance
@passes.register("fuse")
class FuseBias(Transformation, RewriteRuleSetPass):
    """Fold a constant that is added after a layer, or before a convolution, into the bias of the layer.

    Rewrites: ``Conv(x, w, b) ± c`` → ``Conv(x, w, b ± c)``, also for ``ConvTranspose`` and ``Gemm``;
              ``Conv(x + c, w, b)`` → ``Conv(x, w, b')``.
    Refuses:  what is not constant and finite; a constant that is not one number, or one for each channel; a layer
              whose result is used elsewhere; before a convolution also padding, whose zeros would get the constant.
    Exactness: rounding; computed in double precision and rounded once.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(dtypes=("float32", "float16", "float64"), shapes=IMAGES)

    def rules(self) -> Sequence[Rule]:
        """Return the rules for constants after a layer, and that for one before it."""
        return [
            Rule(_pattern_add, _add, name="AddAfter"),
            Rule(_pattern_subtract, _subtract, name="SubAfter"),
            Rule(_pattern_before, _shift_before, name="AddBefore"),
        ]


def _pattern_add(op: Any, x: Any, w: Any, c: Any) -> Any:
    return op.Add(layer_pattern(op, x, w, BIASED), c)


def _pattern_subtract(op: Any, x: Any, w: Any, c: Any) -> Any:
    return op.Sub(layer_pattern(op, x, w, BIASED), c)


def _pattern_before(op: Any, image: Any, w: Any, each: Any) -> Any:
    return op.Conv(op.Add(image, each), w, _allow_other_inputs=True, _outputs=["y"])


def _add(op: Any, y: ir.Value, c: ir.Value) -> Any:
    return _shift(op, y, c, 1)


def _subtract(op: Any, y: ir.Value, c: ir.Value) -> Any:
    return _shift(op, y, c, -1)


def _shift(op: Any, y: ir.Value, c: ir.Value, sign: int) -> Any:
    array = finite_constant(c)
    if array is None:
        return no("what is added is not constant and finite", at=c)
    layer = Layer.of(y)
    if isinstance(layer, Refusal):
        return layer
    shift = layer.spread(array)
    if shift is None:
        return no("what is added is not one number for each channel", at=c)
    return layer.shifted(op, sign * shift)


def _shift_before(op: Any, image: ir.Value, each: ir.Value, y: ir.Value) -> Any:
    array = finite_constant(each)
    if array is None:
        return no("what is added is not constant and finite", at=each)
    layer = Layer.of(y)
    if isinstance(layer, Refusal):
        return layer
    if not is_unpadded(layer.node):
        return no("the convolution is padded", at=layer.node)
    shift = per_input_channel(layer, image, array)
    if shift is None:
        return no("what is added is not one number for each channel of the input", at=each)
    weights = layer.weights()
    if isinstance(weights, Refusal):
        return weights
    sums = np.sum(weights, axis=tuple(range(2, weights.ndim)))
    outputs, inputs = sums.shape
    groups = layer.node.attributes.get_int("group", 1)
    with np.errstate(all="ignore"):
        added = np.einsum("goi,gi->go", sums.reshape(groups, outputs // groups, inputs), shift.reshape(groups, inputs))
    moved = layer.shifted(op, added.reshape(-1))
    if isinstance(moved, Refusal):
        return moved
    moved.producer().replace_input_with(0, image)
    return moved


def is_unpadded(node: ir.Node) -> bool:
    """Tell whether a convolution or pooling sees nothing but its input."""
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    return mode == "VALID" or (mode == "NOTSET" and not any(node.attributes.get_ints("pads", ())))


def per_input_channel(layer: Layer, x: ir.Value, array: np.ndarray) -> np.ndarray | None:
    """Read a constant that meets the input of a convolution as one number for each channel, if it is that."""
    channels = layer.shape[1] * layer.node.attributes.get_int("group", 1)
    if rank(x) != layer.rank or dimension(x, 1) != channels:
        return None
    return per_channel(array, layer.rank, 1, channels)
