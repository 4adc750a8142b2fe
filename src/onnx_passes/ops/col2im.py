"""Col2Im: an image from its patches, added where they overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import OUR_DOMAIN, Attribute, Call, Definition, Input, define
from onnx_passes.ops.im2col import PATCHES, parse_shape, patches
from onnx_passes.ops.layouts import pad, part
from onnx_passes.ops.windows import SlidingWindows

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder


@define
class Col2Im(Definition):
    """Add up patches to an image: ``[N, OH, OW, KH * KW * C]`` to ``[N, H, W, C]``, the adjoint of Im2Col.

    Each element of a row is added to where Im2Col would have taken it from, place by place of the patch; what lies in
    the padding is dropped. This is channels last, unlike the standard operator of the same name.
    """

    name = "Col2Im"
    domains = (OUR_DOMAIN,)
    inputs = (Input("x", "the rows"),)
    attributes = (
        *PATCHES,
        Attribute("input_shape", "string", "the shape of the image, as (1, H, W, C), for any N", required=True),
    )

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        (x,) = inputs
        windows, height, width, channels = _image(attributes, None)
        kernel_height, kernel_width = windows.kernel
        rows = x.reshape(*x.shape[:3], kernel_height, kernel_width, channels)
        top, left, bottom, right = windows.pads
        total = np.zeros((len(x), height + top + bottom, width + left + right, channels), x.dtype)
        down, across = windows.starts(0, height), windows.starts(1, width)
        for i, row in enumerate(windows.offsets(0)):
            for j, column in enumerate(windows.offsets(1)):
                total[:, (down + row)[:, None], across + column] += rows[:, :, :, i, j]
        return total[:, top : top + height, left : left + width]

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        windows, height, width, channels = _image(call, name_of(call.node))
        zero = call.number(0)
        # Elements of the image to which a patch adds nothing take it from a row and a column of zeros.
        padded = pad(op, call.x, (0, 0, 0, 0, 0, 1, 1, 0), zero)
        rows, columns = _sources(windows, 0, height), _sources(windows, 1, width)
        total: Any = zero
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                start = (i * len(columns) + j) * channels
                one = part(op, padded, 3, start, start + channels)
                total = op.Add(op.Gather(op.Gather(one, row, axis=1), column, axis=2), total)
        return total

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer the type of the rows, and the shape of the image."""
        rows = node.inputs[0] if node.inputs else None
        if rows is None:
            return
        _, height, width, channels = _image(self.checked(node), name_of(node))
        shape = None if rows.shape is None else ir.Shape([rows.shape[0], height, width, channels])
        ctx.set_shape_and_dtype(node.outputs[0], shape, rows.dtype)


def _image(attributes: Mapping[str, Any] | Call, where: str | None) -> tuple[SlidingWindows, int, int, int]:
    """Return the windows, and height, width and channels of the image."""
    shape = parse_shape(attributes["input_shape"], where)
    if shape is None:
        raise ModelError("Col2Im needs the shape of the image", where=where, hint="give input_shape")
    height, width, channels = (size for size in list(shape)[1:] if isinstance(size, int))
    return patches(attributes), height, width, channels


def _sources(windows: SlidingWindows, axis: int, size: int) -> list[np.ndarray]:
    """Return, for each place in a window, which window adds to each element of an axis: the one too many if none."""
    amount = windows.amount(axis, size)
    found: list[np.ndarray] = []
    for offset in windows.offsets(axis):
        distance = np.arange(size, dtype=np.int64) + windows.pads[axis] - offset
        window, rest = np.divmod(distance, windows.strides[axis])
        found.append(np.where((rest == 0) & (window >= 0) & (window < amount), window, amount))
    return found
