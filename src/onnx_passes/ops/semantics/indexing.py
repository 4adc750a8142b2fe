"""Operators that read or write elements by index, and operators that compute numbers from sizes and attributes."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import tensor_of_constant_node
from onnx_passes.numbers.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.ops.semantics.table import SEMANTICS, OperatorView

_UPDATES = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}


def _indices(call: OperatorView, index: int, size: int | None = None) -> np.ndarray:
    found = call.required(index).astype(np.int64)
    return found if size is None else np.where(found < 0, found + size, found)


@SEMANTICS.of("Gather")
def _gather(call: OperatorView) -> Tensor:
    x = call.tensor(0)
    axis = call.get("axis", 0)
    return Tensor(x.dtype, None, np.take(x.elements(call.algebra), _indices(call, 1), axis))


@SEMANTICS.of("GatherElements")
def _gather_elements(call: OperatorView) -> Tensor:
    x = call.tensor(0)
    elements, axis = x.elements(call.algebra), call.get("axis", 0)
    return Tensor(x.dtype, None, elements[_grid(_indices(call, 1, elements.shape[axis]), axis)])


def _grid(indices: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """Index all places of an array, but along one axis by indices."""
    found: list[np.ndarray] = list(np.indices(indices.shape))  # pyright: ignore[reportAssignmentType]
    found[axis] = indices
    return tuple(found)


@SEMANTICS.of("GatherND")
def _gather_nd(call: OperatorView) -> Tensor:
    x = call.tensor(0)
    elements, batch = x.elements(call.algebra), call.get("batch_dims", 0)
    indices = _indices(call, 1)
    if not batch:
        # An array of objects gives the object where it is indexed to rank 0.
        return Tensor(x.dtype, None, elements[(*np.moveaxis(indices, -1, 0), ...)])
    lead = elements.shape[:batch]
    flat, places = elements.reshape(-1, *elements.shape[batch:]), indices.reshape(-1, *indices.shape[batch:])
    parts = [part[(*np.moveaxis(place, -1, 0), ...)] for part, place in zip(flat, places, strict=True)]
    return Tensor(x.dtype, None, np.stack(parts).reshape(*lead, *parts[0].shape))


def _scatter(call: OperatorView, places: tuple[np.ndarray, ...], updates: np.ndarray) -> Tensor:
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


@SEMANTICS.of("ScatterElements", "Scatter")
def _scatter_elements(call: OperatorView) -> Tensor:
    axis = int(call.get("axis", 0))
    return _scatter(call, _grid(_indices(call, 1, call.tensor(0).shape[axis]), axis), call.elements(2))


@SEMANTICS.of("ScatterND")
def _scatter_nd(call: OperatorView) -> Tensor:
    indices, shape = _indices(call, 1), call.tensor(0).shape
    parts: list[np.ndarray] = list(np.moveaxis(indices, -1, 0))
    places = tuple(part + shape[axis] * (part < 0) for axis, part in enumerate(parts))
    return _scatter(call, places, call.elements(2))


@SEMANTICS.of("Compress")
def _compress(call: OperatorView) -> Tensor:
    x = call.tensor(0)
    return Tensor(x.dtype, None, np.compress(call.required(1), x.elements(call.algebra), call.get("axis", None)))


@SEMANTICS.of("OneHot")
def _one_hot(call: OperatorView) -> Tensor:
    depth = int(np.asarray(call.known(1)).reshape(-1)[0])
    values, axis = call.tensor(2), call.get("axis", -1)
    indices = _indices(call, 0)
    hot = np.where(indices < 0, indices + depth, indices)[..., None] == np.arange(depth)
    pair = values.elements(call.algebra)
    result = pair[hot.astype(np.int64)]
    return Tensor(values.dtype, None, np.moveaxis(result, -1, axis))


def _extreme(call: OperatorView, *, largest: bool) -> Tensor:
    """Name the place of the greatest or least element of each sequence, by a function of the sequence."""
    x = call.tensor(0)
    elements, axis = x.elements(call.algebra), call.get("axis", 0)
    symbol = Symbol(
        "ArgMax" if largest else "ArgMin", ir.DataType.INT64, (x.dtype,), (call.get("select_last_index", 0),)
    )
    found = call.sequence(symbol, [np.moveaxis(elements, axis, -1)])
    return Tensor(ir.DataType.INT64, None, np.expand_dims(found, axis) if call.get("keepdims", 1) else found)


SEMANTICS.attach({"ArgMax": partial(_extreme, largest=True), "ArgMin": partial(_extreme, largest=False)})

_INT64 = ir.DataType.INT64


@SEMANTICS.of("Constant")
def _constant(call: OperatorView) -> Tensor:
    tensor = tensor_of_constant_node(call.node)
    if tensor is None and len(call.attributes) == 1:
        attribute = next(iter(call.attributes.values()))
        name = next(iter(call.node.attributes))
        tensor = tensor_of_constant_node(ir.Node("", "Constant", [], [ir.Attr(name, attribute.type, attribute.value)]))
    if tensor is None:
        raise UnsupportedError("a Constant of unknown kind")
    return Tensor(tensor.dtype, tensor.numpy())


@SEMANTICS.of("Shape")
def _shape(call: OperatorView) -> Tensor:
    shape = call.tensor(0).shape
    return Tensor(_INT64, np.array(shape[call.get("start", 0) : call.get("end", None)], np.int64))


@SEMANTICS.of("Size")
def _size(call: OperatorView) -> Tensor:
    return Tensor(_INT64, np.array(int(np.prod(call.tensor(0).shape)), np.int64))


@SEMANTICS.of("ConstantOfShape")
def _constant_of_shape(call: OperatorView) -> Tensor:
    value = call.get("value", None)
    fill = np.zeros(1, np.float32) if value is None else value.numpy()
    shape = call.integers(0) or []
    dtype = ir.DataType.FLOAT if value is None else value.dtype
    return Tensor(dtype, np.broadcast_to(fill.reshape(()), shape))


@SEMANTICS.of("Range")
def _range(call: OperatorView) -> Tensor:
    dtype = call.tensor(0).dtype
    if not dtype.is_integer():
        raise UnsupportedError("Range of floats")
    start, limit, step = (int(np.asarray(call.known(index)).reshape(())) for index in range(3))
    return Tensor(dtype, np.arange(start, limit, step).astype(dtype.numpy()))


@SEMANTICS.of("EyeLike")
def _eye_like(call: OperatorView) -> Tensor:
    x = call.tensor(0)
    dtype = ir.DataType(call.get("dtype", x.dtype))
    rows, columns = x.shape
    return Tensor(dtype, np.eye(rows, columns, call.get("k", 0), dtype=np.int8).astype(dtype.numpy()))


@SEMANTICS.of("NonZero")
def _non_zero(call: OperatorView) -> Tensor:
    found = call.required(0)
    return Tensor(_INT64, np.array(np.nonzero(found), np.int64))
