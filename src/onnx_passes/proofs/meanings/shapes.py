"""Operators that make numbers out of sizes and attributes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import tensor_of_constant_node
from onnx_passes.proofs.algebra import Tensor, UnsupportedError
from onnx_passes.proofs.meaning import MEANINGS, Call

_INT64 = ir.DataType.INT64


@MEANINGS.of("Constant")
def _constant(call: Call) -> Tensor:
    tensor = tensor_of_constant_node(call.node)
    if tensor is None and len(call.attributes) == 1:
        attribute = next(iter(call.attributes.values()))
        name = next(iter(call.node.attributes))
        tensor = tensor_of_constant_node(ir.Node("", "Constant", [], [ir.Attr(name, attribute.type, attribute.value)]))
    if tensor is None:
        raise UnsupportedError("a Constant of unknown kind")
    return Tensor(tensor.dtype, tensor.numpy())


@MEANINGS.of("Shape")
def _shape(call: Call) -> Tensor:
    shape = call.tensor(0).shape
    return Tensor(_INT64, np.array(shape[call.get("start", 0) : call.get("end", None)], np.int64))


@MEANINGS.of("Size")
def _size(call: Call) -> Tensor:
    return Tensor(_INT64, np.array(int(np.prod(call.tensor(0).shape)), np.int64))


@MEANINGS.of("ConstantOfShape")
def _constant_of_shape(call: Call) -> Tensor:
    value = call.get("value", None)
    fill = np.zeros(1, np.float32) if value is None else value.numpy()
    shape = call.integers(0) or []
    dtype = ir.DataType.FLOAT if value is None else value.dtype
    return Tensor(dtype, np.broadcast_to(fill.reshape(()), shape))


@MEANINGS.of("Range")
def _range(call: Call) -> Tensor:
    dtype = call.tensor(0).dtype
    if not dtype.is_integer():
        raise UnsupportedError("Range of floats")
    start, limit, step = (int(np.asarray(call.known(index)).reshape(())) for index in range(3))
    return Tensor(dtype, np.arange(start, limit, step).astype(dtype.numpy()))


@MEANINGS.of("EyeLike")
def _eye_like(call: Call) -> Tensor:
    x = call.tensor(0)
    dtype = ir.DataType(call.get("dtype", x.dtype))
    rows, columns = x.shape
    return Tensor(dtype, np.eye(rows, columns, call.get("k", 0), dtype=np.int8).astype(dtype.numpy()))


@MEANINGS.of("NonZero")
def _non_zero(call: Call) -> Tensor:
    found = call.known(0)
    assert found is not None
    return Tensor(_INT64, np.array(np.nonzero(found), np.int64))
