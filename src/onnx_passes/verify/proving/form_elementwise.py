"""Forms of what computes element by element: scales and biases of constants, sums, bounds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from onnx_passes.graph.shapes import dims
from onnx_passes.numbers.reals import Reals
from onnx_passes.ops.normalization import Normalization
from onnx_passes.verify.proving.form_parts import centred, factors, positive, refuse
from onnx_passes.verify.proving.forms import Form, Visit


def mul(visit: Visit) -> Form:
    """Multiply with a constant, or two forms."""
    for index in (0, 1):
        if visit.is_constant(index):
            return _grown(visit, visit.form(1 - index).times(visit.numbers(index)))
    a, b = (centred(visit, visit.form(index)) for index in (0, 1))
    key = ("Mul", *sorted((a.term, b.term)))
    reach, zero = a.reach * b.reach, Reals.zeros(visit.rank)
    return visit.made(key, a.scale * b.scale, zero, a.size * b.size, reach, a.roundings + b.roundings + 1)


def div(visit: Visit) -> Form:
    """Divide by a constant."""
    if not visit.is_constant(1):
        raise refuse(visit, "it divides by something that is computed")
    by = visit.numbers(1)
    if not (np.abs(by.near) > by.slack).all():
        raise refuse(visit, "it divides by 0")
    return _grown(visit, visit.form().times(Reals.of(1.0) / by))


def add(visit: Visit, sign: int = 1) -> Form:
    """Add a constant, or two forms; or subtract the second."""
    for index in (0, 1):
        if visit.is_constant(index):
            number, form = visit.numbers(index), visit.form(1 - index)
            if sign < 0:
                number, form = (-number, form) if index else (number, form.times(Reals.of(-1.0)))
            return _grown(visit, form.plus(number))
    b = visit.form(1)
    return _sum(visit, [visit.form(0), b if sign > 0 else b.times(Reals.of(-1.0))])


def _grown(visit: Visit, form: Form) -> Form:
    """Take a form for that of a result of the same shape: a constant must not make it larger."""
    before = next(dims(value) for value in visit.node.inputs if visit.side.is_dynamic(value))
    after = dims(visit.node.outputs[0])
    if before is None or after is None or len(before) != len(after) or form.rank != len(after):
        raise refuse(visit, "a constant may make its result larger")
    sizes = [max(array.shape[axis] for array in (form.scale, form.bias)) for axis in range(form.rank)]
    if any(size > 1 and size != dim for size, dim in zip(sizes, before, strict=True)):
        raise refuse(visit, "a constant makes its result larger")
    return form


def _sum(visit: Visit, parts: Sequence[Form]) -> Form:
    """Add up forms whose scales are multiples of one: that of the part whose scale is least."""
    length = visit.rank
    scales = [part.scale.spread(length) for part in parts]
    for base in sorted(scales, key=lambda scale: float(np.abs(scale.near).max())):
        steps = [(scale / base).integers() for scale in scales]
        if all(step is not None for step in steps):
            break
    else:
        raise refuse(visit, "scales are no multiples of one another")
    whole = [np.asarray(step) for step in steps]
    key = ("Add", *sorted((part.term, *factors(visit, step)) for part, step in zip(parts, whole, strict=True)))
    size = sum(part.size * float(np.abs(step).max()) for part, step in zip(parts, whole, strict=True))
    bias, reach = parts[0].bias.spread(length), parts[0].reach
    for part in parts[1:]:
        bias, reach = bias + part.bias.spread(length), reach + part.reach
    return visit.made(key, base, bias, size, reach, max(part.roundings for part in parts) + len(parts) - 1)


def extreme(visit: Visit) -> Form:
    """Take the greatest, or the least, of forms and constants that are multiples of one scale."""
    length, indices = visit.rank, range(len(visit.node.inputs))
    parts = [visit.form(index) for index in indices if not visit.is_constant(index)]
    numbers = [visit.numbers(index) for index in indices if visit.is_constant(index)]
    if len(parts) == 1:
        return _grown(visit, _bounded(visit, parts[0], visit.node.op_type, numbers))
    if numbers:
        raise refuse(visit, "constants are among several inputs")
    parts = [centred(visit, part) for part in parts]
    base = min((part.scale.spread(length) for part in parts), key=lambda scale: float(np.abs(scale.near).max()))
    if not (base.signs() > 0).all():
        raise refuse(visit, "a scale is not positive")
    key: list[tuple[Hashable, ...]] = []
    size, reach = 0.0, np.zeros((1,) * length)
    for part in parts:
        steps = (part.scale.spread(length) / base).integers()
        if steps is None:
            raise refuse(visit, "scales are no multiples of one another")
        key.append(("term", part.term, *factors(visit, steps)))
        size, reach = max(size, part.size * float(np.abs(steps).max())), np.maximum(reach, part.reach)
    whole = (visit.node.op_type, *sorted(key, key=repr))
    return visit.made(whole, base, Reals.zeros(length), size, reach, max(part.roundings for part in parts))


def total(visit: Visit) -> Form:
    """Add up forms."""
    if any(visit.is_constant(index) for index in range(len(visit.node.inputs))):
        raise refuse(visit, "a constant is among its inputs")
    return _sum(visit, [visit.form(index) for index in range(len(visit.node.inputs))])


def batch_normalization(visit: Visit) -> Form:
    """Multiply and add a constant for each channel."""
    shape = (1, -1, *(1,) * (visit.rank - 2))
    normal = Normalization.of(visit.node, [visit.numbers(index).reshape(*shape) for index in (1, 2, 3, 4)])
    if isinstance(normal, str):
        raise refuse(visit, normal)
    found = visit.form().plus(-normal.mean).times(normal.factor).plus(normal.shift)
    # A square root, a quotient and the sum before it are rounded as well.
    return replace(found, roundings=found.roundings + 3)


def same(visit: Visit) -> Form:
    """Give back the form."""
    return visit.form()


def cast(visit: Visit) -> Form:
    """Hold the numbers in another type of floats."""
    to = visit.node.outputs[0].dtype
    if to is None or not to.is_floating_point() or to.bitwidth < 32:
        raise refuse(visit, "it is not to float or double")
    return visit.form()


def neg(visit: Visit) -> Form:
    """Turn the form around."""
    return visit.form().times(Reals.of(-1.0))


def _bounded(visit: Visit, form: Form, operator: str, numbers: Sequence[Reals]) -> Form:
    """Take the greatest, or the least, of a form and numbers: of its integers and those that stand for the numbers."""
    positive(visit, form)
    key: list[tuple[Hashable, ...]] = [("term", form.term, "all", 1)]
    size, reach, unsigned = form.size, form.reach, form.unsigned
    for number in numbers:
        steps = ((number.spread(form.rank) - form.bias) / form.scale).integers()
        if steps is None:
            raise refuse(visit, "a bound lies between integers")
        key.append(("number", *factors(visit, steps)))
        size, reach = max(size, float(np.abs(steps).max())), np.maximum(reach, np.abs(number.near).max())
        is_bound = operator == "Max" and bool((steps >= 0).all())
        unsigned = is_bound or (unsigned and (operator == "Max" or bool((steps >= 0).all())))
    term = visit.forms.term(operator, *sorted(key, key=repr))
    return replace(form, term=term, size=size, reach=reach, unsigned=unsigned)


def relu(visit: Visit) -> Form:
    """Take what is not negative."""
    return _bounded(visit, visit.form(), "Max", [Reals.of(0.0)])


def clip(visit: Visit) -> Form:
    """Take what lies between bounds."""
    form = visit.form()
    positive(visit, form)
    bounds: list[Hashable] = []
    size, reach = form.size, form.reach
    for index, name in ((1, "min"), (2, "max")):
        # In older versions, bounds are attributes.
        held = visit.node.attributes.get_float(name)
        if held is None and not visit.has(index):
            bounds.append(None)
            continue
        bound = visit.numbers(index) if held is None else Reals.of(float(np.float32(held)))
        steps = ((bound.spread(form.rank) - form.bias) / form.scale).integers()
        if steps is None:
            raise refuse(visit, "a bound lies between integers")
        bounds.append(factors(visit, steps))
        size, reach = max(size, float(np.abs(steps).max())), np.maximum(reach, np.abs(bound.near).max())
    term = visit.forms.term("Clip", form.term, *bounds)
    return replace(form, term=term, size=size, reach=reach, unsigned=False)
