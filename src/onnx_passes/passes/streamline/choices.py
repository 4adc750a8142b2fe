"""Integer forms of what takes one of several integers: the greatest, the least, or by a condition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.streamline.form import Form, Workshop, spread


def extreme(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Take the greatest, or the least, of integers of one positive scale."""
    return _chosen(shop, node, forms, ())


def where(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Take integers of one scale by a condition."""
    return _chosen(shop, node, forms[1:], node.inputs[:1])


def _chosen(
    shop: Workshop, node: ir.Node, forms: Sequence[Form | None], before: Sequence[ir.Value | None]
) -> Form | None:
    result = node.outputs[0]
    known, length = shop.known(result), rank(result)
    if known is None or known.grid is None or length is None or not (known.grid.scale > 0).all():
        return None
    scale, bias = known.grid.scale, known.grid.bias
    parts: list[ir.Value] = []
    for value, form in zip(node.inputs[len(before) :], forms, strict=True):
        part = _on_grid(shop, value, form, scale, bias)
        if part is None:
            return None
        parts.append(part)
    return Form(shop.node(node.op_type, [*before, *parts], result, after=node), scale, bias)


def _on_grid(
    shop: Workshop, value: ir.Value | None, form: Form | None, scale: np.ndarray, bias: np.ndarray
) -> ir.Value | None:
    """Return the integers of an operand on a grid, if it lies there."""
    number = shop.number(value)
    if value is None:
        return None
    if number is not None:
        place = np.rint((spread(number, max(scale.ndim, number.ndim)) - bias) / scale)
        # A number that floats have rounded is the point of the grid that floats have rounded likewise.
        if not np.array_equal((scale * place + bias).astype(np.float32), number.astype(np.float32) + 0 * place):
            return None
        return shop.constant(place, f"{value.name}_integers")
    if form is None:
        return None
    spreads = Form(form.integer, spread(form.scale, scale.ndim), spread(form.bias, bias.ndim))
    found = shop.rebased(spreads, scale, bias, value)
    return None if found is None else found.integer


def absolute(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Take the size of integers whose zero is zero."""
    result = node.outputs[0]
    x = None if forms[0] is None else shop.centred(forms[0], result)
    if x is None:
        return None
    return Form(shop.node("Abs", [x.integer], result, after=node), np.abs(x.scale), x.bias)


def reduced_extreme(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Take the greatest, or the least, of integers along axes on which a positive scale is the same."""
    x = forms[0]
    if x is None or not (x.scale > 0).all():
        return None
    axes = reduced_axes(node, x.scale.ndim)
    if axes is None or any(array.shape[axis] > 1 for array in (x.scale, x.bias) for axis in axes):
        return None
    inputs = [x.integer, *node.inputs[1:]]
    integer = shop.node(node.op_type, inputs, node.outputs[0], tuple(node.attributes.values()), after=node)
    if node.attributes.get_int("keepdims", 1):
        return Form(integer, x.scale, x.bias)
    return Form(integer, np.squeeze(x.scale, axes), np.squeeze(x.bias, axes))


def reduced_axes(node: ir.Node, length: int) -> tuple[int, ...] | None:
    """Return the axes of a reduction of so many axes; nothing where they are computed, or there are none."""
    given: Sequence[int] | None = node.attributes.get_ints("axes")
    if given is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        array = constant(node.inputs[1])
        if array is None:
            return None
        given = [int(axis) for axis in array.reshape(-1)]
    if not given:
        if node.attributes.get_int("noop_with_empty_axes", 0):
            return None
        given = range(length)
    return tuple(sorted(axis % length for axis in given))
