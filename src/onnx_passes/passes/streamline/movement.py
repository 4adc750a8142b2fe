"""Integer forms of what only moves elements: the same movement of the integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges.arrays import nearly_integer
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.streamline.form import Form, Workshop


def move(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Move the integers; where scale and bias are known from the range of the result."""
    x, result = forms[0], node.outputs[0]
    arrays = _parameters(shop, node, x)
    if x is None or arrays is None:
        return None
    inputs = [x.integer, *node.inputs[1:]]
    made = shop.node(node.op_type, inputs, result, tuple(node.attributes.values()), after=node)
    return Form(made, *arrays)


def _parameters(shop: Workshop, node: ir.Node, x: Form | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Return scale and bias behind a movement: one number for all, or what the analysis found for the same integers."""
    value, result = node.inputs[0], node.outputs[0]
    length = rank(result)
    if x is None or value is None or length is None:
        return None
    if x.scale.size == 1 and x.bias.size == 1:
        return x.scale.reshape((1,) * length), x.bias.reshape((1,) * length)
    before, after = shop.known(value), shop.known(result)
    if before is None or after is None or before.grid is None or after.grid is None:
        return None
    agrees = np.allclose(before.grid.scale, x.scale, rtol=1e-9) and np.allclose(before.grid.bias, x.bias, rtol=1e-9)
    return (after.grid.scale, after.grid.bias) if agrees else None


def maximum(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Take the greatest of integers: of a positive scale."""
    x = forms[0]
    if x is None or not (x.scale > 0).all() or len(node.outputs) > 1:
        return None
    if any(size > 1 for array in (x.scale, x.bias) for axis, size in enumerate(array.shape) if axis > 1):
        return None
    made = shop.node(node.op_type, [x.integer], node.outputs[0], tuple(node.attributes.values()), after=node)
    return Form(made, x.scale, x.bias)


def pad(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Pad with the integer that stands for the value to pad with."""
    x = forms[0]
    if x is None or x.scale.size > 1 or x.bias.size > 1 or len(node.inputs) < 2:
        return None
    mode = node.attributes.get_string("mode", "constant")
    inputs = [x.integer, *node.inputs[1:]]
    if mode == "constant":
        given = node.inputs[2] if len(node.inputs) > 2 else None
        number = np.zeros(()) if given is None else constant(given)
        if number is None:
            return None
        place, meant = nearly_integer((number - x.bias) / x.scale)
        if not meant.all():
            return None
        filling = (
            None if given is None and not place.any() else shop.constant(place.reshape(()), f"{x.integer.name}_pad")
        )
        inputs = [x.integer, node.inputs[1], filling, *node.inputs[3:]]
    made = shop.node("Pad", inputs, node.outputs[0], tuple(node.attributes.values()), after=node)
    return Form(made, x.scale, x.bias)


def resize(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Repeat integers; what lies between them is none."""
    if node.attributes.get_string("mode", "nearest") != "nearest":
        return None
    if node.attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        return None
    return move(shop, node, forms)


def concat(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Join integers of one scale and bias, or of such that differ along the joined axis."""
    result = node.outputs[0]
    known, length = shop.known(result), rank(result)
    if known is None or known.grid is None or length is None:
        return None
    axis = node.attributes.get_int("axis", 0) % length
    parts: list[ir.Value] = []
    start = 0
    for form, value in zip(forms, node.inputs, strict=True):
        size = None if value is None or value.shape is None else value.shape[axis]
        if form is None or value is None or not isinstance(size, int):
            return None
        scale, bias = (_section(array, axis, start, size) for array in (known.grid.scale, known.grid.bias))
        part = shop.rebased(form, scale, bias, value)
        if part is None:
            return None
        parts.append(part.integer)
        start += size
    made = shop.node("Concat", parts, result, tuple(node.attributes.values()), after=node)
    return Form(made, known.grid.scale, known.grid.bias)


def _section(array: np.ndarray, axis: int, start: int, size: int) -> np.ndarray:
    return array if array.shape[axis] == 1 else np.take(array, range(start, start + size), axis=axis)
