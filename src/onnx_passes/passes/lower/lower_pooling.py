"""Lower pooling to gathering and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.core.options import option
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.passes.lower.image_rows import pooling_rules
from onnx_passes.passes.lower.windows import Window, unfold, windows_of
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Refusal, no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.tolerance
@passes.register("lower")
class LowerPooling(Transformation, RewriteRuleSetPass):
    """Lower pooling to gathers and reductions.

    Rewrites: ``MaxPool(x)`` → ``ReduceMax`` of what each window sees, ``AveragePool(x)`` → ``ReduceSum`` of it divided
              by how much that is, ``GlobalMaxPool`` and ``GlobalAveragePool`` → ``ReduceMax`` and ``ReduceMean``; with
              any padding, strides, dilations, ``ceil_mode`` and ``count_include_pad``. With ``im2col``, pooling of
              images → ``MaxPoolNHWC(x)`` and ``ReduceSum(Im2Col(x)) * c`` channels last, between two transpositions.
    Refuses:  opsets below 18; spatial sizes that are not known; the second result of ``MaxPool``; windows that see
              nothing but padding.
    Exactness: rounding for averages.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc")
    fuzz_hints = hints(dtypes=("float32", "float16", "float64", "int8", "uint8"))

    im2col: bool = option(False, "pool channels last, with operators of QONNX, where the image is known")

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each kind of pooling, after those for images if they are asked for."""
        return [
            *(pooling_rules() if self.im2col else ()),
            Rule(_pattern("MaxPool"), _max_pool, _check, name="MaxPool"),
            Rule(_pattern("AveragePool"), _average_pool, _check, name="AveragePool"),
            Rule(_pattern("GlobalMaxPool"), _global_max, _check_global, name="GlobalMaxPool"),
            Rule(_pattern("GlobalAveragePool"), _global_average, _check_global, name="GlobalAveragePool"),
        ]


def _pattern(operator: str) -> Callable[..., Any]:
    def pattern(op: Any, x: Any) -> Any:
        return getattr(op, operator)(x, _outputs=["y"])

    return pattern


def _windows(x: ir.Value, y: ir.Value) -> list[Window] | Refusal:
    node = y.producer()
    assert node is not None
    return windows_of(x, node, node.attributes.get_ints("kernel_shape", ()))


def _check(match: Match, x: ir.Value, y: ir.Value) -> Any:
    if match.opset < 18:
        return no("needs opset 18", at=y)
    if x.dtype is None:
        return no("the type of the input is not known", at=x)
    windows = _windows(x, y)
    if isinstance(windows, Refusal):
        return windows
    if any((window.seen == 0).any() for window in windows):
        return no("a window sees nothing but padding", at=y)
    return yes


def _check_global(match: Match, x: ir.Value, y: ir.Value) -> Any:
    if match.opset < 18:
        return no("needs opset 18", at=y)
    shape = static_shape(x)
    return (
        no("the input may be empty, or has no spatial axes", at=x) if not shape or len(shape) < 3 or 0 in shape else yes
    )


def _max_pool(op: Any, x: ir.Value, y: ir.Value) -> Any:
    windows = _windows(x, y)
    assert not isinstance(windows, Refusal)
    assert x.dtype is not None
    lowest = -np.inf if x.dtype.is_floating_point() else x.dtype.min
    return op.ReduceMax(unfold(op, x, windows, _typed(op, lowest, x)), _kernel_axes(windows), keepdims=0)


def _average_pool(op: Any, x: ir.Value, y: ir.Value) -> Any:
    windows, node = _windows(x, y), y.producer()
    assert not isinstance(windows, Refusal)
    assert node is not None
    sums = op.ReduceSum(unfold(op, x, windows, _typed(op, 0, x)), _kernel_axes(windows), keepdims=0)
    with_padding = bool(node.attributes.get_int("count_include_pad", 0))
    counts = reduce(np.multiply.outer, [window.counted if with_padding else window.seen for window in windows])
    return op.Div(sums, _typed(op, counts if (counts != counts.flat[0]).any() else counts.flat[0], x))


def _global_max(op: Any, x: ir.Value) -> Any:
    return op.ReduceMax(x, list(range(2, rank(x) or 0)), keepdims=1)


def _global_average(op: Any, x: ir.Value) -> Any:
    return op.ReduceMean(x, list(range(2, rank(x) or 0)), keepdims=1)


def _kernel_axes(windows: Sequence[Window]) -> list[int]:
    return [3 + 2 * number for number in range(len(windows))]


def _typed(op: Any, number: Any, x: ir.Value) -> Any:
    assert x.dtype is not None
    return op.initializer(ir.Tensor(np.asarray(number).astype(x.dtype.numpy()), dtype=x.dtype), "constant")
