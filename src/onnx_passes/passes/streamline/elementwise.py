"""Integer forms of what is computed element by element."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges.arrays import nearly_integer
from onnx_passes.graph.shapes import dimension, rank, same_shape
from onnx_passes.passes.streamline.form import Form, Workshop, spread


def add(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Add a number to the bias, or two integers of one scale."""
    return _sum(shop, node, forms, 1)


def sub(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Subtract likewise."""
    return _sum(shop, node, forms, -1)


def _sum(shop: Workshop, node: ir.Node, forms: Sequence[Form | None], sign: int) -> Form | None:
    length = rank(node.outputs[0])
    a, b = (shop.number(value) for value in node.inputs)
    first, second = forms[0], forms[1]
    if length is None:
        return None
    if b is not None and first is not None:
        return first.plus(sign * spread(b, length)) if _keeps_shape(node.inputs[0], b) else None
    if a is not None and second is not None:
        return second.times(sign).plus(spread(a, length)) if _keeps_shape(node.inputs[1], a) else None
    if first is None or second is None:
        return None
    return _sum_of_integers(shop, node, first, second, sign, length)


def _sum_of_integers(shop: Workshop, node: ir.Node, first: Form, second: Form, sign: int, length: int) -> Form | None:
    result = node.outputs[0]
    known = shop.known(result)
    if known is None or known.grid is None:
        return None
    scale = known.grid.scale
    parts: list[ir.Value] = []
    for form, value, factor in ((first, node.inputs[0], 1), (second, node.inputs[1], sign)):
        part = _in_steps_of(shop, form.times(factor), value, scale)
        if part is None:
            return None
        parts.append(part)
    bias = spread(first.bias, length) + sign * spread(second.bias, length)
    return Form(shop.node("Add", parts, result, after=node), scale, bias)


def _in_steps_of(shop: Workshop, form: Form, value: ir.Value | None, scale: np.ndarray) -> ir.Value | None:
    """Return the integers of a form for another scale, if that divides its own."""
    assert value is not None
    steps, meant = nearly_integer(spread(form.scale, scale.ndim) / scale)
    return shop.multiplied(form.integer, steps, value) if meant.all() else None


def total(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Add up any number of integers of one scale, one after the other; numbers go into the bias."""
    return _total(shop, node, forms, 1)


def mean(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Add up likewise; how many there are goes into the scale."""
    return _total(shop, node, forms, len(node.inputs))


def _total(shop: Workshop, node: ir.Node, forms: Sequence[Form | None], count: int) -> Form | None:
    result = node.outputs[0]
    known, length = shop.known(result), rank(result)
    if known is None or known.grid is None or length is None:
        return None
    scale, bias = known.grid.scale * count, np.zeros((1,) * length)
    parts: list[ir.Value] = []
    for value, form in zip(node.inputs, forms, strict=True):
        number = shop.number(value)
        if number is not None:
            bias = bias + spread(number, length)
            continue
        part = None if form is None or not same_shape(value, result) else _in_steps_of(shop, form, value, scale)
        if form is None or part is None:
            return None
        bias = bias + spread(form.bias, length)
        parts.append(part)
    integer = reduce(lambda a, b: shop.node("Add", [a, b], result, after=node), parts)
    return Form(integer, scale, bias).times(1 / count)


def mul(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Multiply the scale with a number, or two integers."""
    length = rank(node.outputs[0])
    if length is None:
        return None
    for index in (0, 1):
        number, form = shop.number(node.inputs[1 - index]), forms[index]
        if number is not None and form is not None:
            if not _keeps_shape(node.inputs[index], number):
                return None
            if form.is_plain and _is_image_of_integers(number) and _is_held(shop, node.outputs[0]):
                integer = shop.node("Mul", [form.integer, node.inputs[1 - index]], node.outputs[0], after=node)
                return Form(integer, form.scale, form.bias)
            return form.times(spread(number, length))
    a, b = forms
    if a is None or b is None:
        return None
    result = node.outputs[0]
    first, second = shop.centred(a, result), shop.centred(b, result)
    if first is None or second is None:
        return None
    scale = spread(first.scale, length) * spread(second.scale, length)
    integer = shop.node("Mul", [first.integer, second.integer], result, after=node)
    return Form(integer, scale, np.zeros((1,) * length))


def _is_image_of_integers(number: np.ndarray) -> bool:
    """Tell whether integers differ from place to place, as those do that even out averages: they are no scale."""
    return sum(size > 1 for size in number.shape) > 1 and bool((number == np.rint(number)).all())


def _is_held(shop: Workshop, value: ir.Value) -> bool:
    known = shop.known(value)
    return known is not None and known.integer_grid is not None and shop.fits(value)


def div(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Divide the scale by a number."""
    form, number, length = forms[0], shop.number(node.inputs[1]), rank(node.outputs[0])
    if form is None or number is None or length is None or not number.all():
        return None
    if not _keeps_shape(node.inputs[0], number):
        return None
    return form.times(1 / spread(number, length))


def neg(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Turn scale and bias around."""
    return None if forms[0] is None else forms[0].times(-1)


def batch_normalization(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Multiply the scale, add to the bias."""
    x = forms[0]
    numbers = [shop.number(value) for value in node.inputs[1:5]]
    if x is None or x.scale.ndim < 2 or node.attributes.get_int("training_mode", 0):
        return None
    gamma, beta, mean, variance = numbers
    if gamma is None or beta is None or mean is None or variance is None:
        return None
    shape = (1, -1) + (1,) * (x.scale.ndim - 2)
    factor = gamma / np.sqrt(variance + node.attributes.get_float("epsilon", 1e-5))
    return x.times(factor.reshape(shape)).plus((beta - mean * factor).reshape(shape))


def relu(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Let no integer be less than that of zero."""
    x = forms[0]
    if x is None or not (x.scale > 0).all():
        return None
    place, meant = nearly_integer(-x.bias / x.scale)
    if not meant.all():
        return None
    result = node.outputs[0]
    if not place.any():
        return Form(shop.node("Relu", [x.integer], result, after=node), x.scale, x.bias)
    least = shop.constant(place, f"{result.name}_least")
    return Form(shop.node("Max", [x.integer, least], result, after=node), x.scale, x.bias)


def clip(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Keep integers between those that stand for the bounds."""
    x = forms[0]
    if x is None or x.scale.size > 1 or x.bias.size > 1 or not (x.scale > 0).all():
        return None
    places: list[ir.Value | None] = []
    for value in (*node.inputs[1:], None, None)[:2]:
        number = None if value is None else shop.number(value)
        if value is not None and number is None:
            return None
        if number is None or not np.isfinite(number).all():
            places.append(None)
            continue
        place = np.rint((number.reshape(()) - x.bias) / x.scale)
        # A bound that floats have rounded is the level that floats have rounded likewise.
        if not ((x.scale * place + x.bias).astype(np.float32) == number.astype(np.float32)).all():
            return None
        places.append(shop.constant(place.reshape(()), f"{node.outputs[0].name}_bound"))
    if "min" in node.attributes or "max" in node.attributes:
        return None
    return Form(shop.node("Clip", [x.integer, *places], node.outputs[0], after=node), x.scale, x.bias)


def same(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Leave everything as it is."""
    return forms[0]


def _keeps_shape(value: ir.Value | None, number: np.ndarray) -> bool:
    """Tell whether a number does not make a tensor larger: its integers would not grow along."""
    length = rank(value)
    if length is None or number.ndim > length:
        return False
    return all(size == 1 or dimension(value, axis - number.ndim) == size for axis, size in enumerate(number.shape))
