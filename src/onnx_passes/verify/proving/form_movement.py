"""Forms of what moves elements, or chooses among them: scales and biases go along."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from onnx_passes.analysis.ranges.range import Range
from onnx_passes.analysis.ranges.site import RANGES, Site
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import static_shape
from onnx_passes.numbers.reals import Reals, joined
from onnx_passes.verify.proving.form_parts import positive, refuse, shrunk
from onnx_passes.verify.proving.forms import Form, Visit


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
