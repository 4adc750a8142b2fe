"""Im2Col and Col2Im: the patches of an image, each as one row, and an image from its patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.shapes import dimension
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import OUR_DOMAIN, Attribute, Call, Definition, Input, define
from onnx_passes.ops.windows import SlidingWindows, pad, part, sizes_between

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder


_NAMED_ONE_BY_ONE = 1 << 18
PATCHES = (
    Attribute("stride", "ints", "the steps from patch to patch, along height and width", required=True),
    Attribute("kernel_size", "ints", "height and width of a patch", required=True),
    Attribute("pad_amount", "ints", "padding: top, left, bottom, right", default=(0, 0, 0, 0)),
    Attribute("dilations", "ints", "the distances within a patch, along height and width", default=(1, 1)),
)
"""The attributes that say what a patch is."""


@define
class Im2Col(Definition):
    """Make rows of the patches of an image: ``[N, H, W, C]`` to ``[N, OH, OW, KH * KW * C]``, for any N.

    A row has, for each place in the patch, all channels.
    """

    name = "Im2Col"
    inputs = (Input("x", "the image, channels last"),)
    attributes = (
        *PATCHES,
        Attribute("pad_value", "int", "what the padding holds", default=0),
        Attribute("input_shape", "string", "the shape of the image as text, used where it is not known", default=""),
        Attribute("depthwise", "int", "a note for tools that follow, without effect here", default=0),
    )

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        found = patches(attributes).of(inputs[0], attributes["pad_value"])
        return found.reshape(*found.shape[:3], -1)

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        image, _, rows, columns = self._prepare(op, call)
        found = op.Gather(op.Gather(image, rows, axis=1), columns, axis=3)
        return self._finish(op, call, op.Transpose(found, perm=[0, 1, 3, 2, 4, 5]), rows, columns)

    def fast(self, op: Builder, call: Call) -> ir.Value:
        """Take all elements at once, which saves a transposition, unless there are too many to name each."""
        image, (height, width), rows, columns = self._prepare(op, call)
        if rows.size * columns.size > _NAMED_ONE_BY_ONE:
            return self.lower(op, call)
        line = op.Reshape(image, np.array([0, height * width, -1]))
        place = rows[:, None, :, None] * width + columns[None, :, None, :]
        return self._finish(op, call, op.Gather(line, place.astype(np.int32), axis=1), rows, columns)

    def _prepare(self, op: Builder, call: Call) -> tuple[ir.Value, tuple[int, int], np.ndarray, np.ndarray]:
        """Return the padded image, its height and width, and which rows and columns of it each patch takes."""
        windows, where = patches(call), name_of(call.node)
        shape = call.x.shape if call.x.shape is not None else parse_shape(call["input_shape"], where)
        height, width = sizes_between(shape, "the image", where)
        top, left, bottom, right = windows.pads
        padded = pad(op, call.x, (0, top, left, 0, 0, bottom, right, 0), call.number(call["pad_value"]))
        rows = windows.starts(0, height)[:, None] + windows.offsets(0)
        columns = windows.starts(1, width)[:, None] + windows.offsets(1)
        return padded, (height + top + bottom, width + left + right), rows, columns

    def _finish(self, op: Builder, call: Call, found: ir.Value, rows: np.ndarray, columns: np.ndarray) -> ir.Value:
        channels = dimension(call.x, -1)
        row = -1 if channels is None else channels * rows.shape[1] * columns.shape[1]
        return op.Reshape(found, np.array([0, len(rows), len(columns), row]))

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer the type of the image, and one row for each patch."""
        image = node.inputs[0] if node.inputs else None
        if image is None or image.shape is None or len(image.shape) != 4:
            return
        windows = patches(self.checked(node))
        row = image.shape[-1] * (windows.kernel[0] * windows.kernel[1])
        ctx.set_shape_and_dtype(node.outputs[0], windows.infer(ctx, image.shape, row), image.dtype)


def patches(attributes: Mapping[str, Any] | Call) -> SlidingWindows:
    """Return the windows that attributes describe, over height and width."""
    windows = SlidingWindows(
        attributes["kernel_size"], attributes["stride"], attributes["pad_amount"], attributes["dilations"]
    )
    if len(windows.kernel) != 2:
        raise ModelError(f"a patch has a height and a width, but kernel_size is {list(windows.kernel)}")
    return windows


def parse_shape(text: str, where: str | None) -> ir.Shape | None:
    """Parse a shape of four numbers such as ``(1, 8, 8, 3)``; None if the text is empty."""
    if not text:
        return None
    parts = [part.strip() for part in text.strip("()[] ").split(",")]
    if len(parts) != 4 or not all(part.isdecimal() for part in parts):
        raise ModelError(f"'{text}' is not the shape of an image, such as (1, 8, 8, 3)", where=where)
    return ir.Shape([int(part) for part in parts])


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
