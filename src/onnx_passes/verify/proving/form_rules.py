"""Scaled-integer forms by operator: from those of its inputs, elementwise, along movements, and of products."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np

from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import dims, static_shape
from onnx_passes.numbers.range import Range
from onnx_passes.numbers.reals import Reals, joined
from onnx_passes.ops.ranges.site import RANGES, Site
from onnx_passes.ops.semantics.batch_normalization import Normalization
from onnx_passes.verify.proving.form_products import (
    average_pool,
    centred,
    conv,
    conv_transpose,
    factors,
    gemm,
    global_average,
    matmul,
    positive,
    reduce,
    refuse,
    shrunk,
)
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


def pool(visit: Visit) -> Form:
    """Take the greatest in windows over images, or of whole ones."""
    form = visit.form()
    if len(visit.node.outputs) > 1:
        raise refuse(visit, "it also says where its results come from")
    positive(visit, form)
    if any(size > 1 for array in (form.scale, form.bias) for size in array.shape[2:]):
        raise refuse(visit, "scale or bias vary within windows")
    return replace(form, term=visit.forms.term(visit.node.op_type, form.term, visit.attributes("storage_order")))


def move(visit: Visit) -> Form | list[Form]:
    """Move the integers; scale and bias move along."""
    form = visit.form()
    if visit.node.op_type == "Resize":
        _require_copies(visit)
    parameters = [_parameter(visit, index) for index in range(1, len(visit.node.inputs))]
    found: list[Form] = []
    lengths = [None if value.shape is None else len(value.shape) for value in visit.node.outputs]
    moved = [_moved(visit, array, lengths) for array in (form.scale, form.bias)]
    reach = float(form.reach.max())
    for place, length in enumerate(lengths):
        assert length is not None
        term = visit.forms.term(visit.node.op_type, form.term, visit.attributes(), *parameters, place)
        scale, bias = moved[0][place], moved[1][place]
        spread = np.full((1,) * length, reach)
        found.append(Form(term, scale, bias, form.size, spread, form.roundings, form.unsigned))
    return found[0] if len(found) == 1 else found


def _require_copies(visit: Visit) -> None:
    """Refuse a Resize that computes something of several elements, or fills in a number."""
    given = visit.node.attributes
    if given.get_string("mode", "nearest") != "nearest" or given.get_int("antialias", 0):
        raise refuse(visit, "it computes what lies between elements")
    if given.get_string("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise refuse(visit, "it fills in a number")


def _parameter(visit: Visit, index: int) -> Hashable:
    held = constant(visit.node.inputs[index]) if visit.has(index) else None
    if held is None:
        value = visit.node.inputs[index]
        return None if value is None else ("value", id(value))
    return held.shape, held.tobytes()


def _moved(visit: Visit, array: Reals, lengths: Sequence[int | None]) -> list[Reals]:
    """Return where a movement takes numbers: one for all stays one, of others the analysis of constants knows it."""
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths):
        raise refuse(visit, "the number of axes is not known")
    if array.size == 1:
        return [array.reshape(*(1,) * length) for length in known]
    ranges = [None if value is None else visit.forms.facts.near_range_of(value) for value in visit.node.inputs[1:]]
    rule = RANGES.get(visit.node)
    places = np.arange(array.size, dtype=np.float64).reshape(array.shape)
    found = None if rule is None else rule(Site(visit.node, [Range(places, places), *ranges]))
    results = [found] if isinstance(found, Range) else list(found or ())
    if len(results) < len(known) or any(result is None or not result.is_point for result in results):
        raise refuse(visit, "it is not known where scales go")
    ranked = [result.of_rank(length) for result, length in zip(results, known, strict=False) if result is not None]
    return [shrunk(array.taken(result.low.astype(np.intp))) for result in ranked]


def concat(visit: Visit) -> Form:
    """Join forms; where scales differ, the result has one for each part."""
    length, parts = visit.rank, [visit.form(index) for index in range(len(visit.node.inputs))]
    axis = visit.node.attributes.get_int("axis", 0) % length
    key = ("Concat", axis, *(part.term for part in parts))
    scale, bias = (_along(visit, arrays, axis) for arrays in ([p.scale for p in parts], [p.bias for p in parts]))
    reach = np.full((1,) * length, max(float(part.reach.max()) for part in parts))
    size, roundings = max(part.size for part in parts), max(part.roundings for part in parts)
    return visit.made(key, scale, bias, size, reach, roundings)


def _along(visit: Visit, arrays: Sequence[Reals], axis: int) -> Reals:
    if all(array.shape == arrays[0].shape and array.size == 1 and array.equals(arrays[0]) for array in arrays):
        return arrays[0]
    sizes = [static_shape(value) for value in visit.node.inputs]
    others = [tuple(size for each, size in enumerate(array.shape) if each != axis) for array in arrays]
    if None in sizes or len(set(others)) > 1:
        raise refuse(visit, "it is not known where scales go")
    counts = [size[axis] for size in sizes if size is not None]
    spreads = [
        array if array.shape[axis] > 1 or count == 1 else array.moved(lambda p, n=count: np.repeat(p, n, axis=axis))
        for array, count in zip(arrays, counts, strict=True)
    ]
    known = joined(spreads)
    places, start = list[np.ndarray](), 0
    for array in spreads:
        places.append(start + np.arange(array.size).reshape(array.shape))
        start += array.size
    return shrunk(known.taken(np.concatenate(places, axis=axis)))


FormRule = Callable[[Visit], Form | list[Form]]
SCALED_FORMS: Interface[FormRule] = Interface("scaled_form", "its result as a scale times integers, from such inputs")
SCALED_FORMS.attach(
    {
        "Add": add,
        "AveragePool": average_pool,
        "BatchNormalization": batch_normalization,
        "Cast": cast,
        "Clip": clip,
        "Concat": concat,
        "Conv": conv,
        "ConvTranspose": conv_transpose,
        "Div": div,
        "Gemm": gemm,
        "GlobalAveragePool": global_average,
        "GlobalMaxPool": pool,
        "Identity": same,
        "MatMul": matmul,
        "Max": extreme,
        "MaxPool": pool,
        "Min": extreme,
        "Mul": mul,
        "Neg": neg,
        "ReduceMean": lambda visit: reduce(visit, mean=True),
        "ReduceSum": lambda visit: reduce(visit, mean=False),
        "Relu": relu,
        "Sub": lambda visit: add(visit, -1),
        "Sum": total,
        **dict.fromkeys(
            (
                *("DepthToSpace", "Expand", "Flatten", "Gather", "Reshape", "Resize", "Slice", "SpaceToDepth", "Split"),
                *("Squeeze", "Tile", "Transpose", "Unsqueeze"),
            ),
            move,
        ),
    }
)
