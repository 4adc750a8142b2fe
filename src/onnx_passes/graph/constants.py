"""Which values are constant, and what they hold."""

from __future__ import annotations

import functools
import math
from typing import cast

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.uses import is_used_elsewhere

_SMALL = 4096
"""Constants of up to so many bytes may be there twice."""
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
    if node.op_type != "Constant" or node.domain != "":
        return None
    return value.const_value or tensor_of_constant_node(node)


def constant(value: ir.Value | None) -> np.ndarray | None:
    """Return the array of a constant, or nothing if the value is computed or can be overridden."""
    tensor = constant_tensor(value)
    return None if tensor is None else tensor.numpy()


def is_constant(value: ir.Value | None) -> bool:
    """Tell whether every run of the model sees the same value here."""
    return constant_tensor(value) is not None


def tensor_of_constant_node(node: ir.Node) -> ir.TensorProtocol | None:
    """Return what a Constant node holds; a reference to a function's attribute holds nothing yet."""
    attribute = next(iter(node.attributes.data.values()), None)
    if attribute is None or attribute.is_ref():
        return None
    if attribute.type is ir.AttributeType.TENSOR:
        # `as_tensor` looks at every member of the protocol each time.
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
    """Return what a value holds that a check found to be constant."""
    array = constant(value)
    assert array is not None
    return array


def owned_constant(value: ir.Value) -> np.ndarray | None:
    """Return a constant that may be replaced by a changed one."""
    array = constant(value)
    return None if array is None or array.dtype == object or grows(value) else array


def is_own_constant(value: ir.Value) -> bool:
    """Tell whether a value is a constant that may be replaced by a changed one."""
    return owned_constant(value) is not None


def grows(value: ir.Value) -> bool:
    """Tell whether a changed copy of a constant comes on top of it, as it is used elsewhere, and is not small."""
    tensor = constant_tensor(value)
    return is_used_elsewhere(value) and tensor is not None and tensor.nbytes > _SMALL


def holds_only(value: ir.Value | None, number: float) -> bool:
    """Tell whether a value is constant and every element is a number; zeros have to have its sign."""
    array = constant(value)
    if array is None or array.dtype == object:
        return False
    wanted = _as_type(array.dtype, number, math.copysign(1, number))
    start = array.reshape(-1)[:1]
    return _equal(start, wanted) and _equal(array, wanted)


@functools.lru_cache(maxsize=256)
def _as_type(dtype: np.dtype, number: float, sign: float) -> np.ndarray:
    """Return a number as an array of a type; zeros of both signs are equal, but not the same."""
    with np.errstate(all="ignore"):
        return np.asarray(number).astype(dtype)


def _equal(array: np.ndarray, number: np.ndarray) -> bool:
    if not (array == number).all():
        return False
    if number != 0 or array.dtype.kind in "biu":
        return True
    return bool((np.signbit(array.astype(np.float64)) == np.signbit(number.astype(np.float64))).all())


def number(value: ir.Value | None, of: ir.Value | None = None) -> float | None:
    """Return the number that a constant of one element holds, if it does not raise the rank of ``of``."""
    tensor = constant_tensor(value)
    if tensor is None or tensor.size != 1 or not (tensor.dtype.is_floating_point() or tensor.dtype.is_integer()):
        return None
    dims = len(tensor.shape)
    if dims > 0 and (of is None or of.shape is None or len(of.shape) < dims):
        return None
    return float(tensor.numpy().reshape(()).item())


def is_number(value: ir.Value | None, expected: float, of: ir.Value | None = None) -> bool:
    """Tell whether a constant of one element is a number, as closely as its type can say."""
    found, tensor = number(value, of), constant_tensor(value)
    if found is None or tensor is None:
        return False
    tolerance = 2e-3 if tensor.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) else 1e-5
    return math.isclose(found, expected, rel_tol=tolerance)


def finite_constant(value: ir.Value | None) -> np.ndarray | None:
    """Return a constant of floats in double precision if all its elements are finite."""
    tensor = constant_tensor(value)
    if tensor is None or not tensor.dtype.is_floating_point():
        return None
    wide = tensor.numpy().astype(np.float64)
    return wide if np.isfinite(wide).all() else None
