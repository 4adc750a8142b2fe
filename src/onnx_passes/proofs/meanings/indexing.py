"""Operators that pick or put elements by indices."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx_ir as ir

from onnx_passes.proofs.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.proofs.meaning import MEANINGS, Call

_UPDATES = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}


def _indices(call: Call, index: int, size: int | None = None) -> np.ndarray:
    found = call.known(index)
    assert found is not None
    found = found.astype(np.int64)
    return found if size is None else np.where(found < 0, found + size, found)


@MEANINGS.of("Gather")
def _gather(call: Call) -> Tensor:
    x = call.tensor(0)
    axis = call.get("axis", 0)
    return Tensor(x.dtype, None, np.take(x.elements(call.algebra), _indices(call, 1), axis))


@MEANINGS.of("GatherElements")
def _gather_elements(call: Call) -> Tensor:
    x = call.tensor(0)
    elements, axis = x.elements(call.algebra), call.get("axis", 0)
    return Tensor(x.dtype, None, elements[_grid(_indices(call, 1, elements.shape[axis]), axis)])


def _grid(indices: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """Index all places of an array, but along one axis by indices."""
    found: list[np.ndarray] = list(np.indices(indices.shape))  # pyright: ignore[reportAssignmentType]
    found[axis] = indices
    return tuple(found)


@MEANINGS.of("GatherND")
def _gather_nd(call: Call) -> Tensor:
    x = call.tensor(0)
    elements, batch = x.elements(call.algebra), call.get("batch_dims", 0)
    indices = _indices(call, 1)
    if not batch:
        return Tensor(x.dtype, None, elements[tuple(np.moveaxis(indices, -1, 0))])
    lead = elements.shape[:batch]
    flat, places = elements.reshape(-1, *elements.shape[batch:]), indices.reshape(-1, *indices.shape[batch:])
    parts = [part[tuple(np.moveaxis(place, -1, 0))] for part, place in zip(flat, places, strict=True)]
    return Tensor(x.dtype, None, np.stack(parts).reshape(*lead, *parts[0].shape))


def _scatter(call: Call, places: tuple[np.ndarray, ...], updates: np.ndarray) -> Tensor:
    """Put updates one after the other, so that the last one at a place stays, or are combined."""
    x, how = call.tensor(0), call.get("reduction", "none")
    result = x.elements(call.algebra).copy()
    if how == "none":
        result[places] = updates
        return Tensor(x.dtype, None, result)
    if how not in _UPDATES:
        raise UnsupportedError(f"the reduction '{how}'")
    flat = np.ravel_multi_index(places, x.shape[: len(places)])
    if len(np.unique(flat)) < flat.size:
        raise UnsupportedError("several updates of one element")
    symbol = Symbol(_UPDATES[how], x.dtype, (x.dtype, x.dtype))
    result[places] = call.algebra.scalar(symbol, [result[places], updates])
    return Tensor(x.dtype, None, result)


@MEANINGS.of("ScatterElements", "Scatter")
def _scatter_elements(call: Call) -> Tensor:
    axis = int(call.get("axis", 0))
    return _scatter(call, _grid(_indices(call, 1, call.tensor(0).shape[axis]), axis), call.elements(2))


@MEANINGS.of("ScatterND")
def _scatter_nd(call: Call) -> Tensor:
    indices, shape = _indices(call, 1), call.tensor(0).shape
    parts: list[np.ndarray] = list(np.moveaxis(indices, -1, 0))
    places = tuple(part + shape[axis] * (part < 0) for axis, part in enumerate(parts))
    return _scatter(call, places, call.elements(2))


@MEANINGS.of("Compress")
def _compress(call: Call) -> Tensor:
    x = call.tensor(0)
    kept = call.known(1)
    assert kept is not None
    return Tensor(x.dtype, None, np.compress(kept, x.elements(call.algebra), call.get("axis", None)))


@MEANINGS.of("OneHot")
def _one_hot(call: Call) -> Tensor:
    depth = int(np.asarray(call.known(1)).reshape(-1)[0])
    values, axis = call.tensor(2), call.get("axis", -1)
    indices = _indices(call, 0)
    hot = np.where(indices < 0, indices + depth, indices)[..., None] == np.arange(depth)
    pair = values.elements(call.algebra)
    result = pair[hot.astype(np.int64)]
    return Tensor(values.dtype, None, np.moveaxis(result, -1, axis))


def _extreme(call: Call, *, largest: bool) -> Tensor:
    """Name the place of the greatest or least element of each sequence, by a function of the sequence."""
    x = call.tensor(0)
    elements, axis = x.elements(call.algebra), call.get("axis", 0)
    symbol = Symbol(
        "ArgMax" if largest else "ArgMin", ir.DataType.INT64, (x.dtype,), (call.get("select_last_index", 0),)
    )
    found = call.sequence(symbol, [np.moveaxis(elements, axis, -1)])
    return Tensor(ir.DataType.INT64, None, np.expand_dims(found, axis) if call.get("keepdims", 1) else found)


MEANINGS.attach({"ArgMax": partial(_extreme, largest=True), "ArgMin": partial(_extreme, largest=False)})
