"""MaxPoolNHWC: maximum pooling of an image whose channels come last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.definition import Attribute, Call, Definition, Input, define
from onnx_passes.ops.layouts import channels_first, channels_last
from onnx_passes.ops.windows import SlidingWindows

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
