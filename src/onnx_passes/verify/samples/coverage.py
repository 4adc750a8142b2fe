"""Coverage of a model by the values that are known of it: signs of inputs, and sides of boundaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
import onnx_ir as ir

from onnx_passes.core.coverage import Coverage
from onnx_passes.fragment.boundaries import critical_values
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.traits import traits_of
from onnx_passes.verify.samples.reference import Array

_MOST_VALUES = 500
"""In larger models as many as this are looked at, spread over all."""
_MOST_ELEMENTS = 2**12
"""Of larger arrays the first elements are looked at."""
_MOST_PLACES = 8
"""Of operators with more boundaries, as many as this, spread over all."""


def coverage_of(model: ir.Model, values: Callable[[ir.Value], Sequence[Array] | None]) -> Coverage:
    """Count what is seen of a model; of values that are not known nothing is."""
    seen: Counter[str] = Counter()
    read = _uses(model)
    for value, uses in islice(read.items(), 0, None, -(-len(read) // _MOST_VALUES) or 1):
        known = values(value)
        arrays = [array for array in map(_cut, known or ()) if array.dtype.kind in "iuf" and array.size]
        if known and not arrays:
            continue
        flat = np.concatenate([array.reshape(-1) for array in arrays]) if arrays else np.empty(0, np.float32)
        if any(traits_of(node).kind == "elementwise" for node, _ in uses):
            seen["inputs"] += 1
            _count(seen, ("negative", "zero", "positive"), flat, np.zeros(1))
        rank = 0 if value.shape is None else len(value.shape)
        places = [place for node, index in uses for place in _spread(critical_values(node, index, rank))]
        single = np.array([place.reshape(()) for place in places if place.size == 1], np.float64)
        seen["boundaries"] += len(places)
        _count(seen, _SIDES, flat, single)
        for place in (place for place in places if place.size > 1):
            for side, compare in zip(_SIDES, (np.less, np.equal, np.greater), strict=True):
                seen[side] += any(_any(compare, array, place) for array in arrays)
    return Coverage(**seen)


_NUMBERS = frozenset(dtype for dtype in ir.DataType if dtype.is_floating_point() or dtype.is_integer())
_SIDES = ("below", "at", "above")


def _uses(model: ir.Model) -> dict[ir.Value, list[tuple[ir.Node, int]]]:
    """Return the values that are computed or given, each with where the graph reads it, unless they are no numbers."""
    found: dict[ir.Value, list[tuple[ir.Node, int]]] = {}
    for node in model.graph:
        for index, value in enumerate(node.inputs):
            if value is not None and not is_constant(value) and (value.dtype is None or value.dtype in _NUMBERS):
                found.setdefault(value, []).append((node, index))
    return found


def _spread(places: list[Array]) -> list[Array]:
    """Choose some boundaries of all; zero is one of signs."""
    others = [place for place in places if place.any()]
    return others[:: -(-len(others) // _MOST_PLACES)] if others else []


def _cut(array: Array) -> Array:
    """Return the beginning of a large array; places along other axes stay where they are."""
    if array.size <= _MOST_ELEMENTS or array.ndim == 0:
        return array
    for axis in (0, array.ndim - 1, *range(1, array.ndim - 1)):
        row = array.size // array.shape[axis]
        array = array[(slice(None),) * axis + (slice(max(1, _MOST_ELEMENTS // row)),)]
        if array.size <= _MOST_ELEMENTS:
            break
    return array


def _count(seen: Counter[str], sides: tuple[str, str, str], flat: Array, places: Array) -> None:
    """Count the places that some elements are below, at and above; NaN is nowhere."""
    if not flat.size or not places.size:
        return
    with np.errstate(over="ignore"):
        places = places.astype(flat.dtype) if flat.dtype.kind == "f" else places
    seen[sides[0]] += int((np.fmin.reduce(flat) < places).sum())
    seen[sides[1]] += int(np.isin(places, flat).sum()) if places.size > 1 else int((flat == places).any())
    seen[sides[2]] += int((np.fmax.reduce(flat) > places).sum())


def _any(compare: Callable[[Array, Array], Array], array: Array, place: Array) -> bool:
    try:
        return bool(compare(array, place.astype(array.dtype, copy=False) if array.dtype.kind == "f" else place).any())
    except ValueError:
        # The axis of channels was cut, or is elsewhere.
        return False
