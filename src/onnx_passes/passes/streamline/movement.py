"""Integer forms of what only moves elements: the same movement of the integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges.arrays import nearly_integer
from onnx_passes.analysis.ranges.range import Range
from onnx_passes.analysis.ranges.site import RANGES, Site
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.streamline.form import Form, Workshop


def move(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Move the integers; scale and bias move along, where they vary."""
    x = forms[0]
    arrays = None if x is None else _parameters(shop, node, x)
    if x is None or arrays is None:
        return None
    inputs = [x.integer, *node.inputs[1:]]
    made = shop.node(node.op_type, inputs, node.outputs[0], tuple(node.attributes.values()), after=node)
    return Form(made, *arrays[0])


def split(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> list[Form] | None:
    """Part the integers."""
    x = forms[0]
    arrays = None if x is None else _parameters(shop, node, x)
    if x is None or arrays is None:
        return None
    return [Form(part, *each) for part, each in zip(shop.parts(node, x.integer), arrays, strict=True)]


def _parameters(shop: Workshop, node: ir.Node, x: Form) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Return scale and bias of each result of a movement."""
    scales, biases = (_moved(shop, node, array) for array in (x.scale, x.bias))
    return None if scales is None or biases is None else list(zip(scales, biases, strict=True))


def _moved(shop: Workshop, node: ir.Node, array: np.ndarray) -> list[np.ndarray] | None:
    """Return where a movement takes numbers: one for all stays one, of others the analysis of constants knows it."""
    lengths = [length for output in node.outputs if (length := rank(output)) is not None]
    if len(lengths) < len(node.outputs):
        return None
    if array.size == 1:
        return [array.reshape((1,) * length) for length in lengths]
    others = [None if value is None else shop.known(value) for value in node.inputs[1:]]
    rule = RANGES.get(node)
    assert rule is not None
    found = rule(Site(node, [Range(array, array), *others]))
    results = [found] if isinstance(found, Range) else list(found or ())
    points = [result.of_rank(length).low for result, length in zip(results, lengths, strict=False) if _is_point(result)]
    return points if len(points) == len(lengths) else None


def _is_point(found: Range | None) -> TypeGuard[Range]:
    return found is not None and found.is_point


def maximum(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Take the greatest of integers: of a positive scale."""
    x = forms[0]
    if x is None or not (x.scale > 0).all() or len(node.outputs) > 1:
        return None
    if any(size > 1 for array in (x.scale, x.bias) for axis, size in enumerate(array.shape) if axis > 1):
        return None
    made = shop.node(node.op_type, [x.integer], node.outputs[0], tuple(node.attributes.values()), after=node)
    return Form(made, x.scale, x.bias)


def maximum_last(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Take the greatest of integers in windows over images whose channels come last: of a positive scale."""
    x = forms[0]
    if x is None or not (x.scale > 0).all():
        return None
    if any(size > 1 for array in (x.scale, x.bias) for size in array.shape[:-1]):
        return None
    attributes = tuple(node.attributes.values())
    made = shop.node(node.op_type, [x.integer], node.outputs[0], attributes, after=node, domain=node.domain)
    return Form(made, x.scale, x.bias)


def im2col(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Cut windows out of integers; around the image there are zeros, so that nothing may be added to these."""
    x, kernel = forms[0], node.attributes.get_ints("kernel_size")
    if x is None or kernel is None or node.attributes.get_int("pad_value", 0):
        return None
    if any(node.attributes.get_ints("pad_amount") or ()):
        x = shop.centred(x, node.outputs[0])
    if x is None:
        return None
    if any(size > 1 for array in (x.scale, x.bias) for size in array.shape[:-1]):
        return None
    attributes = tuple(node.attributes.values())
    made = shop.node(node.op_type, [x.integer], node.outputs[0], attributes, after=node, domain=node.domain)
    # A window has all channels of its first place, then all of the next.
    scale, bias = (np.tile(array, math.prod(kernel)) if array.size > 1 else array for array in (x.scale, x.bias))
    return Form(made, scale, bias)


def pad(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Pad with the integer that stands for the value to pad with."""
    x = forms[0]
    if x is None or len(node.inputs) < 2 or _pads_along(node, x):
        return None
    mode = node.attributes.get_string("mode", "constant")
    inputs = [x.integer, *node.inputs[1:]]
    if mode == "constant":
        given = node.inputs[2] if len(node.inputs) > 2 else None
        number = np.zeros(()) if given is None else constant(given)
        if number is None:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            place, meant = nearly_integer((number - x.bias) / x.scale)
        first = place.reshape(-1)[0]
        if not meant.all() or (place != first).any():
            return None
        filling = None if given is None and not first else shop.constant(first, f"{x.integer.name}_pad")
        inputs = [x.integer, node.inputs[1], filling, *node.inputs[3:]]
    made = shop.node("Pad", inputs, node.outputs[0], tuple(node.attributes.values()), after=node)
    return Form(made, x.scale, x.bias)


def _pads_along(node: ir.Node, x: Form) -> bool:
    """Tell whether a tensor may be padded along an axis on which its scale or bias varies."""
    varied = {axis for array in (x.scale, x.bias) for axis, size in enumerate(array.shape) if size > 1}
    if not varied:
        return False
    pads, axes = (constant(value) for value in (node.inputs[1], node.inputs[3] if len(node.inputs) > 3 else None))
    if pads is None or (axes is None and len(node.inputs) > 3 and node.inputs[3] is not None):
        return True
    places = range(x.scale.ndim) if axes is None else [int(axis) % x.scale.ndim for axis in axes.reshape(-1)]
    before, after = pads.reshape(2, -1)
    return any(axis in varied and (low or high) for axis, low, high in zip(places, before, after, strict=True))


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
