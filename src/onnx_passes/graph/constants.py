"""Constant values and their contents."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.uses import is_used_elsewhere

if TYPE_CHECKING:
    import onnx

_CONSTANT = "Constant"
_SMALL = 4096
"""Constants up to this number of bytes may be duplicated."""
_SCALAR_KINDS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def constant_tensor(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of a constant: an initializer that no caller can override, or a Constant node."""
    if value is None:
        return None
    node = value.producer()
    if node is None:
        return None if value.is_graph_input() else value.const_value
    if not is_constant_node(node):
        return None
    return value.const_value or tensor_of_constant_node(node)


def constant(value: ir.Value | None) -> np.ndarray | None:
    """Return the array of a constant; None if the value is computed or may be overridden."""
    tensor = constant_tensor(value)
    return None if tensor is None else tensor.numpy()


def is_constant(value: ir.Value | None) -> bool:
    """Return whether a value is the same in every run of the model."""
    return constant_tensor(value) is not None


def is_constant_node(node: ir.Node | onnx.NodeProto) -> bool:
    """Return whether a node is a Constant of ONNX."""
    return node.op_type == _CONSTANT and node.domain in ("", "ai.onnx")


def constant_node(tensor: ir.TensorProtocol, name: str | None = None) -> ir.Node:
    """Make a Constant node that holds a tensor."""
    return ir.Node("", _CONSTANT, [], [ir.AttrTensor("value", tensor)], name=name)


def tensor_of_constant_node(node: ir.Node) -> ir.TensorProtocol | None:
    """Return the tensor of a Constant node; None if it refers to a function's attribute."""
    attribute = next(iter(node.attributes.data.values()), None)
    if attribute is None or attribute.is_ref():
        return None
    if attribute.type is ir.AttributeType.TENSOR:
        # `as_tensor` checks every member of the protocol each time.
        return cast("ir.TensorProtocol", attribute.value)
    if attribute.name in _SCALAR_KINDS:
        return ir.Tensor(np.array(attribute.value, dtype=_SCALAR_KINDS[attribute.name]))
    if attribute.name == "value_string":
        return ir.StringTensor([attribute.as_string().encode()], shape=ir.Shape([]))
    if attribute.name == "value_strings":
        texts = [text.encode() for text in attribute.as_strings()]
        return ir.StringTensor(texts, shape=ir.Shape([len(texts)]))
    return None


def held(value: ir.Value) -> np.ndarray:
    """Return the array of a value that is known to be constant."""
    array = constant(value)
    assert array is not None
    return array


def owned_constant(value: ir.Value) -> np.ndarray | None:
    """Return the array of a constant that may be replaced by a changed one; None otherwise."""
    array = constant(value)
    return None if array is None or array.dtype == object or grows(value) else array


def is_own_constant(value: ir.Value) -> bool:
    """Return whether a value is a constant that may be replaced by a changed one."""
    return owned_constant(value) is not None


def grows(value: ir.Value) -> bool:
    """Return whether changing a constant would add a copy, as it is used elsewhere and not small."""
    tensor = constant_tensor(value)
    return is_used_elsewhere(value) and tensor is not None and tensor.nbytes > _SMALL


def holds_only(value: ir.Value | None, number: float) -> bool:
    """Return whether a value is constant and all elements equal ``number``, including the sign of zeros."""
    array = constant(value)
    if array is None or array.dtype == object:
        return False
    wanted = _as_type(array.dtype, number, math.copysign(1, number))
    start = array.reshape(-1)[:1]
    return _equal(start, wanted) and _equal(array, wanted)


@functools.lru_cache(maxsize=256)
def _as_type(dtype: np.dtype, number: float, sign: float) -> np.ndarray:
    """Return a number as an array of a type, keeping the sign of zeros."""
    with np.errstate(all="ignore"):
        return np.asarray(number).astype(dtype)


def _equal(array: np.ndarray, number: np.ndarray) -> bool:
    if not (array == number).all():
        return False
    if number != 0 or array.dtype.kind in "biu":
        return True
    return bool((np.signbit(array.astype(np.float64)) == np.signbit(number.astype(np.float64))).all())


def number(value: ir.Value | None, of: ir.Value | None = None) -> float | None:
    """Return the number of a constant with one element, unless its rank exceeds that of ``of``; None otherwise."""
    tensor = constant_tensor(value)
    if tensor is None or tensor.size != 1 or not (tensor.dtype.is_floating_point() or tensor.dtype.is_integer()):
        return None
    dims = len(tensor.shape)
    if dims > 0 and (of is None or of.shape is None or len(of.shape) < dims):
        return None
    return float(tensor.numpy().reshape(()).item())


def is_number(value: ir.Value | None, expected: float, of: ir.Value | None = None) -> bool:
    """Return whether a constant of one element equals ``expected`` up to the precision of its type."""
    found, tensor = number(value, of), constant_tensor(value)
    if found is None or tensor is None:
        return False
    tolerance = 2e-3 if tensor.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) else 1e-5
    return math.isclose(found, expected, rel_tol=tolerance)


def finite_constant(value: ir.Value | None) -> np.ndarray | None:
    """Return a constant of floats in double precision; None unless all its elements are finite."""
    tensor = constant_tensor(value)
    if tensor is None or not tensor.dtype.is_floating_point():
        return None
    wide = tensor.numpy().astype(np.float64)
    return wide if np.isfinite(wide).all() else None
