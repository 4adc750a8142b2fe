"""Express thresholds in QONNX: one row per channel, and equal steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes import smallest_for_values
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import static_shape
from onnx_passes.ops.definition import Definition
from onnx_passes.passes.qonnx.dialect import GENERAL, USUAL_LAYOUTS

_LAYOUTS = {(2, 1): "NC", (3, 1): "NCW", (3, 2): "NWC", (4, 1): "NCHW", (4, 3): "NHWC"}
"""QONNX's layouts by rank and channel axis."""


@dataclass(frozen=True)
class QonnxThresholds:
    """Parameters of QONNX's MultiThreshold that is equivalent to ours."""

    rows: np.ndarray
    scale: float
    bias: float
    layout: str
    datatype: str

    def build(self, op: Builder, node: ir.Node) -> ir.Value:
        """Build the node of QONNX."""
        x, given = node.inputs[:2]
        if given is not None and static_shape(given) != self.rows.shape:
            given = op.initializer(self.rows, f"{given.name}_rows")
        return op.MultiThreshold(
            *(x, given),
            _domain=GENERAL,
            out_dtype=self.datatype,
            out_scale=self.scale,
            out_bias=self.bias,
            data_layout=self.layout,
        )


def qonnx_thresholds(definition: Definition, node: ir.Node) -> QonnxThresholds | str:
    """Return the thresholds of a node in QONNX; the reason if QONNX cannot express them."""
    x, given = node.inputs[0], node.inputs[1]
    shape, thresholds = static_shape(x), constant(given)
    weighted = node.inputs[2] if len(node.inputs) > 2 else None
    weights = np.ones(1, np.float32) if weighted is None else constant(weighted)
    if not isinstance(node.graph, ir.Graph):
        return "it is inside a function"
    if thresholds is None or weights is None:
        return "its thresholds or weights are not constant"
    if x is None or shape is None:
        return "the shape of its input is not known"
    if x.dtype is not ir.DataType.FLOAT or thresholds.dtype != np.float32 or weights.dtype != np.float32:
        return "its input, thresholds and weights are not all float32"
    if weights.size == 0 or (weights != weights.flat[0]).any():
        return "its steps differ in height"
    placed = _channels(thresholds.shape[:-1], len(shape))
    if placed is None:
        return "its thresholds vary along another axis than that of the channels"
    amount = thresholds.shape[-1]
    step = cast("np.float32", weights.flat[0])
    bias = np.float32(definition.checked(node)["out_bias"])
    counts = np.arange(amount + 1, dtype=np.float32)
    levels = step * counts + bias
    added = np.concatenate([[np.float32(0)], np.cumsum(np.full(amount, step))]) + bias
    if not np.array_equal(levels, added):
        return "its steps accumulate to other floats than step times count"
    channels, layout = placed
    rows = thresholds.reshape(channels, amount)
    return QonnxThresholds(rows, float(step), float(bias), layout, str(smallest_for_values(levels)))


def _channels(shape: tuple[int, ...], axes: int) -> tuple[int, str] | None:
    """Return the number of channels and the layout; None if the thresholds vary along other axes."""
    if len(shape) > axes:
        return None
    long = [axes - len(shape) + index for index, size in enumerate(shape) if size != 1]
    if not long:
        return 1, USUAL_LAYOUTS.get(axes, "")
    layout = _LAYOUTS.get((axes, long[0]))
    return (max(shape), layout) if len(long) == 1 and layout is not None else None
