"""Types and shapes of the results of custom operators for quantized networks, as one table."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
from onnx_shape_inference import OpShapeInferenceRegistry, ShapeInferenceContext

Inference = Callable[[ShapeInferenceContext, ir.Node], None]


def like_first_input(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Give the result type and shape of the first input."""
    first = node.inputs[0] if node.inputs else None
    if first is not None:
        ctx.set_shape_and_dtype(node.outputs[0], first.shape, first.dtype)


def like_matmul(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Give the result type and shape of a matrix product."""
    from onnx_shape_inference import registry

    infer = registry.get("", "MatMul", version=ctx.opset)
    if infer is not None:
        infer(ctx, node)


def im2col(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Give the patches of an image in NHWC layout: one row of ``kh * kw * C`` elements for each position."""
    image = node.inputs[0] if node.inputs else None
    kernel, stride = node.attributes.get_ints("kernel_size"), node.attributes.get_ints("stride")
    if image is None or image.shape is None or len(image.shape) != 4 or kernel is None or stride is None:
        return
    pads = node.attributes.get_ints("pad_amount", [0, 0, 0, 0])
    dilations = node.attributes.get_ints("dilations", [1, 1])
    batch, *size, channels = image.shape
    positions = [
        (size[axis] + (pads[axis] + pads[axis + 2] - dilations[axis] * (kernel[axis] - 1) - 1)) // stride[axis] + 1
        for axis in (0, 1)
    ]
    patch = channels * (kernel[0] * kernel[1])
    ctx.set_shape_and_dtype(node.outputs[0], ir.Shape([batch, *positions, patch]), image.dtype)


DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general", "finn")

OPERATORS: dict[str, Inference] = {
    "BipolarQuant": like_first_input,
    "DebugMarker": like_first_input,
    "FloatQuant": like_first_input,
    "Im2Col": im2col,
    "IntQuant": like_first_input,
    "MultiThreshold": like_first_input,
    "Quant": like_first_input,
    "Trunc": like_first_input,
    "XnorPopcountMatMul": like_matmul,
}


def add_custom_operators(registry: OpShapeInferenceRegistry) -> None:
    """Register the operators in every domain that has no inference of its own for them."""
    for domain in DOMAINS:
        for operator, infer in OPERATORS.items():
            if not registry.has(domain, operator):
                registry.register(domain, operator)(infer)
