"""Scaled-integer forms of elementwise operators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.streamlined import Reason
from onnx_passes.graph.shapes import dimension, rank, same_shape
from onnx_passes.numbers.reals import Reals
from onnx_passes.ops.semantics.batch_normalization import IN_TRAINING, Normalization
from onnx_passes.passes.streamline.form import (
    BIAS,
    MULTIPLES,
    NEGATIVE,
    PARAMETER,
    RANK,
    SHAPE,
    Form,
    FormBuilder,
    in_steps,
)

_BETWEEN = Reason("a bound of it lies between quantization levels", "use multiples of the scale, or quantize after it")


def add(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Add a number to the bias, or two integers of one scale."""
    return _sum(make, node, forms, 1)


def sub(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Subtract a number from the bias, or two integers of one scale."""
    return _sum(make, node, forms, -1)


def _sum(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None], sign: int) -> Form | Reason:
    length = rank(node.outputs[0])
    a, b = (make.number(value) for value in node.inputs)
    first, second = forms[0], forms[1]
    if length is None:
        return RANK
    if b is not None and first is not None:
        if not _keeps_shape(node.inputs[0], b):
            return SHAPE
        added = _exact(make, node, 1, length)
        return first.plus(added if sign > 0 else -added)
    if a is not None and second is not None:
        if not _keeps_shape(node.inputs[1], a):
            return SHAPE
        return second.times(sign).plus(_exact(make, node, 0, length))
    if first is None or second is None:
        return make.lacking(node.inputs[0 if first is None else 1])
    return _sum_of_integers(make, node, first, second, sign, length)


def _exact(make: FormBuilder, node: ir.Node, index: int, length: int) -> Reals:
    """Return the exact numbers of an operand, with the rank of the result."""
    value = node.inputs[index]
    assert value is not None
    return make.exact(value).spread(length)


def _sum_of_integers(
    make: FormBuilder, node: ir.Node, first: Form, second: Form, sign: int, length: int
) -> Form | Reason:
    result = node.outputs[0]
    known = make.known(result)
    scale = None if known is None or known.grid is None else make.resolved(known.grid.scale, _scales(first, second))
    if scale is None:
        return MULTIPLES
    parts: list[ir.Value] = []
    for form, value, factor in ((first, node.inputs[0], 1), (second, node.inputs[1], sign)):
        part = _in_steps_of(make, form if factor > 0 else form.times(-1), value, scale)
        if part is None:
            return MULTIPLES
        parts.append(part)
    bias = first.bias.spread(length) + second.times(sign).bias.spread(length)
    return Form(make.node("Add", parts, result), scale, bias)


def _in_steps_of(make: FormBuilder, form: Form, value: ir.Value | None, scale: Reals) -> ir.Value | None:
    """Return the integers of a form for another scale; None if that does not divide its own."""
    assert value is not None
    steps = in_steps(form.scale.spread(scale.ndim), scale)
    return None if steps is None else make.multiplied(form.integer, steps, value)


def _scales(*forms: Form | None) -> list[Reals]:
    """Return the candidate scales of a sum, of both signs."""
    return [each for form in forms if form is not None for each in (form.scale, -form.scale)]


def total(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Add any number of integers of one scale; numbers go into the bias."""
    return _total(make, node, forms, 1)


def mean(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Average integers of one scale; their number divides the scale."""
    return _total(make, node, forms, len(node.inputs))


def _total(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None], count: int) -> Form | Reason:
    result = node.outputs[0]
    known, length = make.known(result), rank(result)
    if length is None:
        return RANK
    missing = [
        value for value, form in zip(node.inputs, forms, strict=True) if form is None and not _is_number(make, value)
    ]
    if missing:
        return make.lacking(missing[0])
    if not all(same_shape(value, result) or _is_number(make, value) for value in node.inputs):
        return Reason("its operands differ in shape", "broadcast its operands first")
    grid = None if known is None else known.grid
    scale, bias = None if grid is None else make.resolved(grid.scale * count, _scales(*forms)), Reals.zeros(length)
    if scale is None:
        return MULTIPLES
    parts: list[ir.Value] = []
    for value, form in zip(node.inputs, forms, strict=True):
        if value is not None and _is_number(make, value):
            bias = bias + make.exact(value).spread(length)
            continue
        part = None if form is None else _in_steps_of(make, form, value, scale)
        if form is None or part is None:
            return MULTIPLES
        bias = bias + form.bias.spread(length)
        parts.append(part)
    integer = reduce(lambda a, b: make.node("Add", [a, b], result), parts)
    return Form(integer, scale / Reals.of(count), bias / Reals.of(count))


def _is_number(make: FormBuilder, value: ir.Value | None) -> bool:
    return make.number(value) is not None


def mul(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Multiply the scale by a number, or two integers."""
    length = rank(node.outputs[0])
    if length is None:
        return RANK
    for index in (0, 1):
        number, form = make.number(node.inputs[1 - index]), forms[index]
        if number is not None and form is not None:
            if not _keeps_shape(node.inputs[index], number):
                return SHAPE
            if form.is_plain and _is_image_of_integers(number) and _is_held(make, node.outputs[0]):
                integer = make.node("Mul", [form.integer, node.inputs[1 - index]], node.outputs[0])
                return Form(integer, form.scale, form.bias)
            return form.times(_exact(make, node, 1 - index, length))
    a, b = forms
    if a is None or b is None:
        return make.lacking(node.inputs[0 if a is None else 1])
    result = node.outputs[0]
    first, second = make.centred(a, result), make.centred(b, result)
    if isinstance(first, Reason) or isinstance(second, Reason):
        return BIAS
    scale = first.scale.spread(length) * second.scale.spread(length)
    integer = make.node("Mul", [first.integer, second.integer], result)
    return Form(integer, scale, Reals.zeros(length))


def _is_image_of_integers(number: np.ndarray) -> bool:
    """Return whether a constant has integers that vary along several axes, as factors of averages do: not a scale."""
    return sum(size > 1 for size in number.shape) > 1 and bool((number == np.rint(number)).all())


def _is_held(make: FormBuilder, value: ir.Value) -> bool:
    known = make.known(value)
    return known is not None and known.integer_grid is not None and make.fits(value)


def div(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Divide the scale by a number."""
    form, number, length = forms[0], make.number(node.inputs[1]), rank(node.outputs[0])
    if form is None:
        return make.lacking(node.inputs[0])
    if number is None or length is None or not number.all():
        return Reason("it does not divide by a constant", "multiply with a constant instead")
    if not _keeps_shape(node.inputs[0], number):
        return SHAPE
    return form.times(Reals.of(1.0) / _exact(make, node, 1, length))


def neg(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Negate scale and bias."""
    return make.lacking(node.inputs[0]) if forms[0] is None else forms[0].times(-1)


def batch_normalization(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Multiply the scale, and add to the bias."""
    x = forms[0]
    if x is None:
        return make.lacking(node.inputs[0])
    given = [value for value in node.inputs[1:5] if value is not None and make.number(value) is not None]
    if len(given) < 4 or x.scale.ndim < 2:
        return PARAMETER
    found = Normalization.of(node, [make.exact(value) for value in given])
    if isinstance(found, str):
        hint = "export the model for inference" if found is IN_TRAINING else "make variances positive"
        return Reason(found, hint)
    shape = (1, -1, *(1,) * (x.scale.ndim - 2))
    return x.times(found.factor.reshape(*shape)).plus(found.offset.reshape(*shape))


def relu(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Compute the maximum with the integer of zero."""
    x = forms[0]
    if x is None:
        return make.lacking(node.inputs[0])
    if not (x.scale.signs() > 0).all():
        return NEGATIVE
    place = (-x.bias / x.scale).integers()
    if place is None:
        return _BETWEEN
    result = node.outputs[0]
    if not place.any():
        return Form(make.node("Relu", [x.integer], result), x.scale, x.bias)
    least = make.constant(place, f"{result.name}_least")
    return Form(make.node("Max", [x.integer, least], result), x.scale, x.bias)


def clip(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Clamp integers to those of the bounds."""
    x = forms[0]
    if x is None:
        return make.lacking(node.inputs[0])
    if not (x.scale.signs() > 0).all():
        return NEGATIVE
    if x.scale.size > 1 or x.bias.size > 1:
        return Reason(
            "its bounds are shared by channels that differ in scale or bias",
            "use the same scale and bias for all channels",
        )
    places: list[ir.Value | None] = []
    for value in (*node.inputs[1:], None, None)[:2]:
        number = None if value is None else make.number(value)
        if value is not None and number is None:
            return PARAMETER
        if number is None or not np.isfinite(number).all():
            places.append(None)
            continue
        scale, bias = x.scale.near, x.bias.near
        place = np.rint((number.reshape(()) - bias) / scale)
        # A bound rounded to float matches the level that rounds to the same float.
        if not ((scale * place + bias).astype(np.float32) == number.astype(np.float32)).all():
            return _BETWEEN
        if value is not None and not make.exact(value).reshape().equals(x.scale * Reals.of(place) + x.bias):
            make.rounds("a bound is replaced by the nearest level")
        places.append(make.constant(place.reshape(()), f"{node.outputs[0].name}_bound"))
    if "min" in node.attributes or "max" in node.attributes:
        return Reason("its bounds are attributes", "run convert-opset, which converts them to inputs")
    return Form(make.node("Clip", [x.integer, *places], node.outputs[0]), x.scale, x.bias)


def same(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Return the form unchanged."""
    return make.lacking(node.inputs[0]) if forms[0] is None else forms[0]


def _keeps_shape(value: ir.Value | None, number: np.ndarray) -> bool:
    """Return whether a number does not enlarge a tensor, as its integers would not be enlarged with it."""
    length = rank(value)
    if length is None or number.ndim > length:
        return False
    return all(size == 1 or dimension(value, axis - number.ndim) == size for axis, size in enumerate(number.shape))
