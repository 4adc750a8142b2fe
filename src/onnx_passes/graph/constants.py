"""Which values are constant, and what they hold."""

from __future__ import annotations

from typing import cast

import numpy as np
import onnx_ir as ir

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
