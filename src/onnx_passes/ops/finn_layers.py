"""Layers of FINN's hardware library that it infers from no other operator in a way that leaves integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.definition import FINN_DOMAIN, Attribute, Call, Definition, Input, define

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder

_AXES_AS_INPUT = 13
_PIXELS = (1, 2)
_COMMON = (
    Attribute("NumChannels", "int", "how many channels the image has", required=True),
    Attribute("inputDataType", "string", "the data type of elements", default=""),
    Attribute("backend", "string", "where FINN looks for layers of hardware", default="fpgadataflow"),
)


@define
class GlobalAccPool(Definition):
    """Add up all pixels of each channel, channels last: ``[N, H, W, C]`` to ``[N, 1, 1, C]``.

    Made for integers, whose sums are exact; others are added up in doubles.
    """

    name = "GlobalAccPool"
    domains = (FINN_DOMAIN,)
    inputs = (Input("x", "the image, channels last"),)
    attributes = (
        *_COMMON,
        Attribute("PE", "int", "how many channels are computed at once", default=1),
        Attribute("numInputVectors", "ints", "the sizes of all axes but that of channels", default=()),
    )

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        (x,) = inputs
        return x.sum(axis=_PIXELS, keepdims=True, dtype=np.float64).astype(x.dtype)

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        x = op.Cast(call.x, to=ir.DataType.DOUBLE)
        if op.opset < _AXES_AS_INPUT:
            total = op.ReduceSum(x, axes=list(_PIXELS), keepdims=1)
        else:
            total = op.ReduceSum(x, np.array(_PIXELS, np.int64), keepdims=1)
        return op.Cast(total, to=call.x.dtype or ir.DataType.FLOAT)

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer one pixel of the same type."""
        _infer_image(ctx, node, 1, 1)


@define
class UpsampleNearestNeighbour(Definition):
    """Repeat pixels, as often along each axis as the image is to be larger, channels last."""

    name = "UpsampleNearestNeighbour"
    domains = (FINN_DOMAIN,)
    inputs = (Input("x", "the image, channels last"),)
    attributes = (
        *_COMMON,
        Attribute("HI", "int", "the height of the image", required=True),
        Attribute("WI", "int", "the width of the image", required=True),
        Attribute("HO", "int", "the height of the result, a multiple", required=True),
        Attribute("WO", "int", "the width of the result, a multiple", required=True),
        Attribute("SIMD", "int", "how many channels are computed at once", default=1),
        Attribute("batchSize", "int", "the number of images", default=1),
    )

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        (x,) = inputs
        down, across = _factors(attributes)
        return x.repeat(down, axis=1).repeat(across, axis=2)

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        down, across = _factors(call)
        rows, columns = np.repeat(range(call["HI"]), down), np.repeat(range(call["WI"]), across)
        return op.Gather(op.Gather(call.x, rows, axis=1), columns, axis=2)

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer a larger image of the same type."""
        attributes = self.checked(node)
        _infer_image(ctx, node, attributes["HO"], attributes["WO"])


def _factors(attributes: Mapping[str, Any] | Call) -> tuple[int, int]:
    return attributes["HO"] // attributes["HI"], attributes["WO"] // attributes["WI"]


def _infer_image(ctx: ShapeInferenceContext, node: ir.Node, height: int, width: int) -> None:
    x = node.inputs[0] if node.inputs else None
    if x is not None and x.shape is not None and len(x.shape) == 4:
        ctx.set_shape_and_dtype(node.outputs[0], ir.Shape([x.shape[0], height, width, x.shape[3]]), x.dtype)
