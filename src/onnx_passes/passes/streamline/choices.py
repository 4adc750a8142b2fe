"""Scaled-integer forms of operators that select integers: maximum, minimum, and by a condition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.streamlined import Reason
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.numbers.reals import Reals
from onnx_passes.passes.streamline.form import MULTIPLES, NEGATIVE, VARIES, Form, FormBuilder, spread


def extreme(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Compute the maximum or minimum of integers with one positive scale."""
    return _chosen(make, node, forms, ())


def where(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Select between integers with one scale."""
    return _chosen(make, node, forms[1:], node.inputs[:1])


def _chosen(
    make: FormBuilder, node: ir.Node, forms: Sequence[Form | None], before: Sequence[ir.Value | None]
) -> Form | Reason:
    result = node.outputs[0]
    known, length = make.known(result), rank(result)
    operands = list(zip(node.inputs[len(before) :], forms, strict=True))
    missing = [value for value, form in operands if form is None and make.number(value) is None]
    if missing:
        return make.lacking(missing[0])
    if known is None or known.grid is None or length is None:
        return MULTIPLES
    if not (known.grid.scale > 0).all():
        return NEGATIVE
    of_forms = [form for _, form in operands if form is not None]
    scale = make.resolved(known.grid.scale, [each for form in of_forms for each in (form.scale, -form.scale)])
    bias = make.resolved(known.grid.bias, [Reals.zeros(1), *(form.bias for form in of_forms)])
    if scale is None or bias is None:
        return MULTIPLES
    parts: list[ir.Value] = []
    for value, form in operands:
        part = _on_grid(make, value, form, scale, bias)
        if part is None:
            return MULTIPLES
        parts.append(part)
    return Form(make.node(node.op_type, [*before, *parts], result), scale, bias)


def _on_grid(
    make: FormBuilder, value: ir.Value | None, form: Form | None, scale: Reals, bias: Reals
) -> ir.Value | None:
    """Return the integers of an operand for a scale and bias; None if it is not a multiple."""
    number = make.number(value)
    if value is None:
        return None
    if number is not None:
        step, start = scale.near, bias.near
        place = np.rint((spread(number, max(scale.ndim, number.ndim)) - start) / step)
        # A number rounded to float matches the level that rounds to the same float.
        if not np.array_equal((step * place + start).astype(np.float32), number.astype(np.float32) + 0 * place):
            return None
        if not make.exact(value).equals(scale * Reals.of(place) + bias):
            make.rounds("a number is replaced by the nearest level")
        return make.constant(place, f"{value.name}_integers")
    if form is None:
        return None
    spreads = Form(form.integer, form.scale.spread(scale.ndim), form.bias.spread(bias.ndim))
    found = make.rebased(spreads, scale, bias, value)
    return None if found is None else found.integer


def absolute(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Compute the magnitude of integers without bias."""
    result = node.outputs[0]
    if forms[0] is None:
        return make.lacking(node.inputs[0])
    x = make.centred(forms[0], result)
    if isinstance(x, Reason):
        return x
    return Form(make.node("Abs", [x.integer], result), abs(x.scale), x.bias)


def reduced_extreme(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Compute the maximum or minimum of integers along axes with a constant positive scale."""
    x = forms[0]
    if x is None:
        return make.lacking(node.inputs[0])
    if not (x.scale.signs() > 0).all():
        return NEGATIVE
    axes = reduced_axes(node, x.scale.ndim)
    if axes is None or any(array.shape[axis] > 1 for array in (x.scale, x.bias) for axis in axes):
        return VARIES
    inputs = [x.integer, *node.inputs[1:]]
    integer = make.node(node.op_type, inputs, node.outputs[0], tuple(node.attributes.values()))
    if node.attributes.get_int("keepdims", 1):
        return Form(integer, x.scale, x.bias)
    return Form(integer, squeezed(x.scale, axes), squeezed(x.bias, axes))


def squeezed(numbers: Reals, axes: Sequence[int]) -> Reals:
    """Drop axes of size 1."""
    return numbers.reshape(*(size for axis, size in enumerate(numbers.shape) if axis not in axes))


def reduced_axes(node: ir.Node, length: int) -> tuple[int, ...] | None:
    """Return the axes of a reduction; None if they are computed, or there are none."""
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
