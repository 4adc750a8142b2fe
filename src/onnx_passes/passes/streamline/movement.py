"""Scaled-integer forms of data movement: the same movement of the integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.streamlined import Reason
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.numbers.range import Range
from onnx_passes.numbers.reals import Reals
from onnx_passes.ops.ranges.site import RANGES, Site
from onnx_passes.passes.streamline.form import MULTIPLES, NEGATIVE, PARAMETER, VARIES, Form, FormBuilder


def move(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Move the integers; varying scales and biases move along."""
    x = forms[0]
    if x is None:
        return make.lacking(node.inputs[0])
    arrays = _parameters(make, node, x)
    if arrays is None:
        return VARIES
    inputs = [x.integer, *node.inputs[1:]]
    made = make.node(node.op_type, inputs, node.outputs[0], tuple(node.attributes.values()))
    return Form(made, *arrays[0])


def split(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> list[Form] | Reason:
    """Split the integers."""
    x = forms[0]
    if x is None:
        return make.lacking(node.inputs[0])
    arrays = _parameters(make, node, x)
    if arrays is None:
        return VARIES
    return [Form(part, *each) for part, each in zip(make.parts(node, x.integer), arrays, strict=True)]


def _parameters(make: FormBuilder, node: ir.Node, x: Form) -> list[tuple[Reals, Reals]] | None:
    """Return scale and bias of each result of a movement."""
    scales, biases = (_moved(make, node, array) for array in (x.scale, x.bias))
    return None if scales is None or biases is None else list(zip(scales, biases, strict=True))


def _moved(make: FormBuilder, node: ir.Node, array: Reals) -> list[Reals] | None:
    """Return numbers after a movement, computed by the range rule of the operator; None if unknown."""
    lengths = [length for output in node.outputs if (length := rank(output)) is not None]
    if len(lengths) < len(node.outputs):
        return None
    if array.size == 1:
        return [array.reshape(*(1,) * length) for length in lengths]
    others = [None if value is None else make.known(value) for value in node.inputs[1:]]
    rule = RANGES.get(node)
    assert rule is not None
    places = np.arange(array.size, dtype=np.float64).reshape(array.shape)
    found = rule(Site(node, [Range(places, places), *others]))
    results = [found] if isinstance(found, Range) else list(found or ())
    points = [result.of_rank(length).low for result, length in zip(results, lengths, strict=False) if _is_point(result)]
    if len(points) < len(lengths):
        return None
    return [_shrunk(array.taken(point.astype(np.intp))) for point in points]


def _shrunk(array: Reals) -> Reals:
    """Reduce every axis along which all numbers are equal to size 1."""
    for axis, size in enumerate(array.shape):
        first = array.moved(lambda places, axis=axis: np.take(places, [0], axis=axis)) if size > 1 else array
        if size > 1 and bool((array.near == first.near).all()) and array.equals(first):
            array = first
    return array


def _is_point(found: Range | None) -> TypeGuard[Range]:
    return found is not None and found.is_point


def maximum(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Compute the maximum of integers with a positive scale."""
    x = forms[0]
    if x is None:
        return make.lacking(node.inputs[0])
    if not (x.scale.signs() > 0).all():
        return NEGATIVE
    if len(node.outputs) > 1:
        return Reason("it also returns indices", "keep it in floats, between quantizers")
    if any(size > 1 for array in (x.scale, x.bias) for axis, size in enumerate(array.shape) if axis > 1):
        return VARIES
    made = make.node(node.op_type, [x.integer], node.outputs[0], tuple(node.attributes.values()))
    return Form(made, x.scale, x.bias)


def maximum_last(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Compute the maximum of integers with a positive scale, in windows over channels-last images."""
    x = forms[0]
    if x is None:
        return make.lacking(node.inputs[0])
    if not (x.scale.signs() > 0).all():
        return NEGATIVE
    if any(size > 1 for array in (x.scale, x.bias) for size in array.shape[:-1]):
        return VARIES
    attributes = tuple(node.attributes.values())
    made = make.node(node.op_type, [x.integer], node.outputs[0], attributes, domain=node.domain)
    return Form(made, x.scale, x.bias)


def im2col(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Extract windows from integers; zero padding requires a bias of zero."""
    x, kernel = forms[0], node.attributes.get_ints("kernel_size")
    if x is None:
        return make.lacking(node.inputs[0])
    if kernel is None or node.attributes.get_int("pad_value", 0):
        return Reason("it does not pad with zeros", "pad with zeros")
    if any(node.attributes.get_ints("pad_amount") or ()):
        centred = make.centred(x, node.outputs[0])
        if isinstance(centred, Reason):
            return centred
        x = centred
    if any(size > 1 for array in (x.scale, x.bias) for size in array.shape[:-1]):
        return VARIES
    attributes = tuple(node.attributes.values())
    made = make.node(node.op_type, [x.integer], node.outputs[0], attributes, domain=node.domain)
    # A window has all channels of its first pixel, then all of the next.
    count = math.prod(kernel)
    scale, bias = (
        array.moved(lambda places: np.tile(places, count)) if array.size > 1 else array for array in (x.scale, x.bias)
    )
    return Form(made, scale, bias)


def pad(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Pad with the integer of the padding value."""
    x = forms[0]
    if x is None:
        return make.lacking(node.inputs[0])
    if len(node.inputs) < 2 or _pads_along(node, x):
        return VARIES
    mode = node.attributes.get_string("mode", "constant")
    inputs = [x.integer, *node.inputs[1:]]
    if mode == "constant":
        given = node.inputs[2] if len(node.inputs) > 2 else None
        number = np.zeros(()) if given is None else constant(given)
        if number is None:
            return PARAMETER
        place = ((Reals.of(number) - x.bias) / x.scale).integers() if np.isfinite(number).all() else None
        if place is None or (place != place.reshape(-1)[0]).any():
            return Reason("its padding value lies between quantization levels", "pad before the bias is added")
        first = place.reshape(-1)[0]
        filling = None if given is None and not first else make.constant(first, f"{x.integer.name}_pad")
        inputs = [x.integer, node.inputs[1], filling, *node.inputs[3:]]
    made = make.node("Pad", inputs, node.outputs[0], tuple(node.attributes.values()))
    return Form(made, x.scale, x.bias)


def _pads_along(node: ir.Node, x: Form) -> bool:
    """Return whether a tensor may be padded along an axis on which its scale or bias varies."""
    varied = {axis for array in (x.scale, x.bias) for axis, size in enumerate(array.shape) if size > 1}
    if not varied:
        return False
    pads, axes = (constant(value) for value in (node.inputs[1], node.inputs[3] if len(node.inputs) > 3 else None))
    if pads is None or (axes is None and len(node.inputs) > 3 and node.inputs[3] is not None):
        return True
    places = range(x.scale.ndim) if axes is None else [int(axis) % x.scale.ndim for axis in axes.reshape(-1)]
    before, after = pads.reshape(2, -1)
    return any(axis in varied and (low or high) for axis, low, high in zip(places, before, after, strict=True))


def resize(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Repeat integers; interpolated values would not be integers."""
    if node.attributes.get_string("mode", "nearest") != "nearest":
        return Reason("it interpolates between integers", "resize to the nearest, or quantize its result")
    if node.attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        return Reason("it may extrapolate with a float", "keep it in floats, between quantizers")
    return move(make, node, forms)


def concat(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Concatenate integers with one scale and bias, or with scales and biases that vary along the concatenated axis."""
    result = node.outputs[0]
    known, length = make.known(result), rank(result)
    missing = [value for value, form in zip(node.inputs, forms, strict=True) if form is None]
    if missing:
        return make.lacking(missing[0])
    if known is None or known.grid is None or length is None:
        return MULTIPLES
    axis = node.attributes.get_int("axis", 0) % length
    of_forms = [form for form in forms if form is not None]
    scales = make.resolved(known.grid.scale, [form.scale for form in of_forms])
    biases = make.resolved(known.grid.bias, [Reals.zeros(1), *(form.bias for form in of_forms)])
    if scales is None or biases is None:
        return MULTIPLES
    parts: list[ir.Value] = []
    start = 0
    for form, value in zip(forms, node.inputs, strict=True):
        size = None if value is None or value.shape is None else value.shape[axis]
        if form is None or value is None or not isinstance(size, int):
            return Reason("the sizes of its operands are not known", "give inputs sizes that are numbers")
        scale, bias = (_section(array, axis, start, size) for array in (scales, biases))
        part = make.rebased(form, scale, bias, value)
        if part is None:
            return MULTIPLES
        parts.append(part.integer)
        start += size
    made = make.node("Concat", parts, result, tuple(node.attributes.values()))
    return Form(made, scales, biases)


def _section(array: Reals, axis: int, start: int, size: int) -> Reals:
    if array.shape[axis] == 1:
        return array
    return array.moved(lambda places: np.take(places, range(start, start + size), axis=axis))
