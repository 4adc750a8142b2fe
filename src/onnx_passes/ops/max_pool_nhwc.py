"""MaxPoolNHWC and QuantAvgPool2d: pooling of images whose channels come last, and of integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.definition import Attribute, Call, Definition, Input, define
from onnx_passes.ops.quantizer import Quantizing
from onnx_passes.ops.rounding import round_half_even
from onnx_passes.ops.windows import SlidingWindows, channels_first, channels_last

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder


_CEIL = _DILATIONS = 10
"""The first versions in which MaxPool has them."""


@define
class MaxPoolNHWC(Definition):
    """Take the maximum of each window: the standard MaxPool for channels last, ``[N, H, W, C]``.

    What is padded never is the maximum. Of windows with NaN, and of zeros of both signs, either may come out.
    """

    name = "MaxPoolNHWC"
    inputs = (Input("x", "the image, channels last"),)
    attributes = (
        Attribute("kernel_shape", "ints", "the size of windows", required=True),
        Attribute("strides", "ints", "the steps from window to window; 1 unless given", default=()),
        Attribute("pads", "ints", "padding at the starts, then at the ends of axes; 0 unless given", default=()),
        Attribute("dilations", "ints", "the distances within a window; 1 unless given", default=()),
        Attribute("ceil_mode", "int", "whether a last window may hang over the end", default=0),
    )

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        (x,) = inputs
        least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        axes = x.ndim - 2
        return windows_of(attributes).of(x, least).max(axis=tuple(range(axes + 1, 2 * axes + 1)))

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        axes = len(call["kernel_shape"]) + 2
        pooled = op.MaxPool(channels_first(op, call.x, axes), **as_attributes(windows_of(call), op.opset))
        return channels_last(op, pooled, axes)

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer one result of the same type for each window."""
        x = node.inputs[0] if node.inputs else None
        if x is not None and x.shape is not None:
            found = windows_of(self.checked(node)).infer(ctx, x.shape, x.shape[-1])
            ctx.set_shape_and_dtype(node.outputs[0], found, x.dtype)


def windows_of(attributes: Mapping[str, Any] | Call) -> SlidingWindows:
    """Return the windows that the attributes of a pooling describe."""
    return SlidingWindows(
        attributes["kernel_shape"],
        attributes["strides"],
        attributes["pads"],
        attributes["dilations"],
        ceil=bool(attributes["ceil_mode"]),
    )


def as_attributes(windows: SlidingWindows, opset: int, dilations_since: int = _DILATIONS) -> dict[str, Any]:
    """Return the attributes with which standard operators pool these windows. Raises ModelError if they cannot."""
    given: dict[str, Any] = {"kernel_shape": list(windows.kernel), "strides": list(windows.strides)}
    if any(windows.pads):
        given["pads"] = list(windows.pads)
    young: list[tuple[str, Any, int]] = []
    if windows.ceil:
        young.append(("ceil_mode", 1, _CEIL))
    if max(windows.dilations) > 1:
        young.append(("dilations", list(windows.dilations), dilations_since))
    for name, value, since in young:
        if opset < since:
            raise ModelError(
                f"pooling has no {name} in opset {opset}", hint=f"convert the model to opset {since} or a later one"
            )
        given[name] = value
    return given


@define
class QuantAvgPool2d(Quantizing, Definition):
    """Add up integers in square windows, and shift the sums right as far as they have more than ``obits`` bits.

    The most bits that a sum may have are those of ``(2^ibits - 1) * kernel^2``. Shifting rounds down, also what is
    negative. The sum is the average times the size of the window, rounded: exact for sums below ``2^22``.
    """

    name = "QuantAvgPool2d"
    inputs = (Input("x", "the integers"),)
    attributes = (
        Attribute("stride", "int", "the step from window to window, along both axes", required=True),
        Attribute("kernel", "int", "the size of windows, along both axes", required=True),
        Attribute("ibits", "int", "how many bits elements have", required=True),
        Attribute("obits", "int", "how many bits results have", required=True),
        Attribute("signed", "int", "whether results are signed, for tools that follow", required=True),
        Attribute("data_layout", "string", "the axes", default="NCHW", choices=("NCHW", "NHWC")),
    )

    def bits(self, node: ir.Node) -> float | None:
        """Return the number of bits given by the attribute."""
        return float(node.attributes.get_int("obits", 0)) or None

    def signed(self, node: ir.Node) -> bool | None:
        """Return the signedness given by the attribute."""
        return bool(node.attributes.get_int("signed", 0))

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        (x,) = inputs
        is_first = attributes["data_layout"] == "NCHW"
        found = _windows(attributes).of(np.moveaxis(x, 1, -1) if is_first else x, 0)
        size = x.dtype.type(attributes["kernel"] ** 2)
        sums = np.rint(found.sum(axis=(3, 4), dtype=np.float64).astype(x.dtype) / size * size)
        shifted = np.floor(sums / x.dtype.type(_divisor(attributes))) + x.dtype.type(0)
        return np.ascontiguousarray(np.moveaxis(shifted, -1, 1)) if is_first else shifted

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        kernel, stride = call["kernel"], call["stride"]
        is_first = call["data_layout"] == "NCHW"
        x = call.x if is_first else channels_first(op, call.x, 4)
        average = op.AveragePool(x, kernel_shape=[kernel, kernel], strides=[stride, stride])
        sums = round_half_even(op, call, op.Mul(average, call.number(kernel * kernel)))
        # There is no negative zero among integers.
        shifted = op.Add(op.Floor(op.Div(sums, call.number(_divisor(call)))), call.number(0))
        return shifted if is_first else channels_last(op, shifted, 4)

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer one result of the same type for each window."""
        x = node.inputs[0] if node.inputs else None
        if x is None or x.shape is None or len(x.shape) != 4:
            return
        attributes = self.checked(node)
        dims = list(x.shape)
        is_first = attributes["data_layout"] == "NCHW"
        image = ir.Shape([dims[0], *dims[2:], dims[1]]) if is_first else x.shape
        found = _windows(attributes).infer(ctx, image, image[-1])
        if found is not None and is_first:
            found = ir.Shape([found[0], found[3], found[1], found[2]])
        ctx.set_shape_and_dtype(node.outputs[0], found, x.dtype)


def _windows(attributes: Mapping[str, Any]) -> SlidingWindows:
    return SlidingWindows((attributes["kernel"],) * 2, (attributes["stride"],) * 2)


def _divisor(attributes: Mapping[str, Any] | Call) -> int:
    most = (2 ** attributes["ibits"] - 1) * attributes["kernel"] ** 2
    return 1 << max(0, most.bit_length() - attributes["obits"])
