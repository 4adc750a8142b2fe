"""The text in the box of a node: operator, name, attributes, constants; and the label of a wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.core.text import shortened
from onnx_passes.drawing.scene import Row
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.schemas import default_attribute
from onnx_passes.graph.tensor_types import datatype_of
from onnx_passes.graph.wording import attribute_text, dim_text, operator_name, type_text
from onnx_passes.ops.describe import operand_names

_MOST_ROWS = 6
_MOST_ELEMENTS = 4
LONGEST = 36
_NEUTRAL = {"dilations": 1, "strides": 1, "pads": 0}
"""Neutral elements of window attributes, which ONNX does not declare as defaults."""
_TYPES = (("", "to"), ("", "dtype"))
"""Attributes that are an element type."""
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def rows_of(node: ir.Node, opset: int | None) -> tuple[Row, ...]:
    """List constants and the attributes that differ from their defaults in an opset, if it is known."""
    rows = [*_constants(node), *_attributes(node, opset)]
    if len(rows) <= _MOST_ROWS:
        return tuple(rows)
    return (*rows[: _MOST_ROWS - 1], Row("", f"… {len(rows) - _MOST_ROWS + 1} more"))


def hint_of(node: ir.Node) -> str:
    """Return the details of a node for its tooltip."""
    lines = [f"{operator_name(node)} {node.name or ''}".rstrip()]
    lines += [f"{name} = {attribute_text(attribute)}" for name, attribute in node.attributes.items()]
    for label, values in (("reads", node.inputs), ("gives", node.outputs)):
        lines += [f"{label} {v.name}: {type_text(v.type, v.shape)}" for v in values if v is not None and v.name]
    return "\n".join(shortened(line, 120) for line in lines)


def label_of(value: ir.Value) -> str:
    """Return known shape and type of a value; float is omitted as the usual type."""
    type_ = value.type
    if type_ is not None and not isinstance(type_, ir.TensorType):
        return shortened(type_text(type_, value.shape), LONGEST)
    # Generated names of dimensions are long, and only mean that the size is unknown.
    shape = "" if value.shape is None else _shape_text(shortened(dim_text(dim), 10, front=True) for dim in value.shape)
    return shortened(" ".join(filter(None, (shape, _element(value, value.dtype)))), LONGEST)


def held_tensor(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of a constant, also for initializers that old models list as inputs."""
    if value is None:
        return None
    return value.const_value if value.producer() is None else constant_tensor(value)


def _element(value: ir.Value, dtype: ir.DataType | None) -> str:
    try:
        annotated = datatype_of(value)
    except ModelError:
        annotated = None
    if annotated is not None:
        return str(annotated)
    return "" if dtype in (None, ir.DataType.FLOAT) else dtype.name.lower()


def _constants(node: ir.Node) -> Iterator[Row]:
    for index, value in enumerate(node.inputs):
        tensor = held_tensor(value)
        if value is not None and tensor is not None:
            yield Row(parameter_name(node, index), _tensor_text(value, tensor))


def _tensor_text(value: ir.Value, tensor: ir.TensorProtocol) -> str:
    if tensor.size <= _MOST_ELEMENTS and tensor.dtype is not ir.DataType.STRING:
        elements = [_number_text(element, tensor.dtype) for element in tensor.numpy().reshape(-1)]
        return elements[0] if not tensor.shape.dims and elements else f"[{', '.join(elements)}]"
    return " ".join(filter(None, (_shape_text(map(str, tensor.shape)), _element(value, tensor.dtype))))


def _number_text(number: Any, dtype: ir.DataType) -> str:
    if not dtype.is_integer():
        return f"{float(number):.4g}" if dtype.is_floating_point() else str(number)
    # The largest integer is the end of a slice without one.
    return "max" if dtype is ir.DataType.INT64 and number == dtype.max else str(int(number))


def _shape_text(sizes: Iterable[str]) -> str:
    return "×".join(sizes) or "scalar"


def _attributes(node: ir.Node, opset: int | None) -> Iterator[Row]:
    for name, attribute in node.attributes.items():
        if attribute.type in _GRAPHS and not attribute.is_ref():
            continue
        if node.domain == "" and opset and _is_default(node.op_type, attribute, opset):
            continue
        text = attribute_text(attribute, comma=",").strip("'")
        if (
            (node.domain, attribute.name) in _TYPES
            and attribute.type is ir.AttributeType.INT
            and not attribute.is_ref()
        ):
            text = ir.DataType(attribute.as_int()).name.lower()
        yield Row(name, shortened(text, LONGEST - min(len(name), 12)))


def _is_default(op_type: str, attribute: ir.Attr, version: int) -> bool:
    if attribute.is_ref() or attribute.type is ir.AttributeType.TENSOR:
        return False
    if attribute.name in _NEUTRAL and attribute.type is ir.AttributeType.INTS:
        return set(attribute.as_ints()) == {_NEUTRAL[attribute.name]}
    return default_attribute("", op_type, attribute.name, version) == attribute.value


def parameter_name(node: ir.Node, index: int) -> str:
    """Return the operator's name for an input, or its number."""
    names = operand_names(node)
    return names[index] if index < len(names) else str(index)
