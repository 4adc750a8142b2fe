"""Windows on smaller images, where every way in which they meet the border of the image still occurs.

Convolutions, pooling and elementwise operators do the same everywhere: an element of the result depends on a field of
the image around it, and on how far that reaches over the border. On an image that is as large as the field no field
reaches over both borders, as on larger ones; if strides end in the same way, all ways to reach over either occur.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor, is_constant_node
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.traits import traits_of

_AXES = 2


def shrink_images(before: ir.Model, after: ir.Model) -> str:
    """Make the images that two models start from smaller, in place; says so, or nothing where that is not possible."""
    sides = [static_shape(value) for value in before.graph.inputs]
    sizes = {shape[2:] for shape in sides if shape is not None and len(shape) == 2 + _AXES}
    if len(sizes) != 1 or any(shape is None or len(shape) != 2 + _AXES for shape in sides):
        return ""
    if not all(_is_local(node) for model in (before, after) for node in model.graph):
        return ""
    (size,) = sizes
    strides = [_stride(model) for model in (before, after)]
    step = math.lcm(*strides)
    reach = max(_reach(model, stride) for model, stride in zip((before, after), strides, strict=True))
    small = tuple(_smaller(side, reach + step, step) for side in size)
    if small == size and all(shape is not None and shape[0] == 1 for shape in sides):
        return ""
    for model in (before, after):
        for value in model.graph.inputs:
            shape = static_shape(value)
            assert shape is not None
            value.shape = ir.Shape([1, shape[1], *small])
        for node in model.graph:
            for output in node.outputs:
                output.shape = None
    return f"images of {small[0]} × {small[1]} meet their borders in every way that those of {size[0]} × {size[1]} do"


def _smaller(side: int, enough: int, step: int) -> int:
    """Return a smaller size on which strides end in the same way."""
    return side if side <= enough else enough + (side - enough) % step


def _is_local(node: ir.Node) -> bool:
    """Tell whether a node does the same at every place of an image, wherever its borders are."""
    if node.domain or is_constant_node(node):
        return not node.domain
    if _windowed(node):
        is_fixed = node.attributes.get_string("auto_pad", "NOTSET") in ("NOTSET", "VALID")
        return is_fixed and not node.attributes.get_int("ceil_mode", 0) and all(map(_is_parameter, node.inputs[1:]))
    if node.op_type == "BatchNormalization":
        return all(map(_is_parameter, node.inputs[1:]))
    return traits_of(node).kind == "elementwise" and all(map(_is_alike_everywhere, node.inputs))


def _windowed(node: ir.Node) -> bool:
    return node.op_type in ("Conv", "ConvInteger") or (
        traits_of(node).kind == "pooling" and "kernel_shape" in node.attributes and len(node.outputs) == 1
    )


def _is_parameter(value: ir.Value | None) -> bool:
    return value is None or constant_tensor(value) is not None


def _is_alike_everywhere(value: ir.Value | None) -> bool:
    """Tell whether an operand is an image, or a constant that does not depend on the place."""
    tensor = constant_tensor(value)
    return tensor is None or all(size == 1 for size in tuple(tensor.shape.numpy())[-_AXES:])


def _stride(model: ir.Model) -> int:
    """Return the product of all strides."""
    found = (max(node.attributes.get_ints("strides") or (1,)) for node in model.graph if _windowed(node))
    return math.prod(found)


def _reach(model: ir.Model, stride: int) -> int:
    """Bound how many elements of the image behind the first a result sees."""
    return stride * sum(_extents(model))


def _extents(model: ir.Model) -> Iterator[int]:
    for node in model.graph:
        if _windowed(node):
            weight = constant_tensor(node.inputs[1]) if len(node.inputs) > 1 else None
            kernel = node.attributes.get_ints("kernel_shape") or (() if weight is None else weight.shape.numpy()[2:])
            dilations = node.attributes.get_ints("dilations") or (1,) * len(kernel)
            yield max(((k - 1) * d for k, d in zip(kernel, dilations, strict=True)), default=0)
