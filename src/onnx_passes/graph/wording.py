"""Describe parts of a model, and the differences between two parts, for messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.hashing.content import Contents, operator, present_outputs, string_elements

if TYPE_CHECKING:
    from collections.abc import Sized

_SHORT_LIST = 12


def operator_name(node: ir.Node) -> str:
    """Return the operator, with its domain and overload where they are not the usual ones."""
    name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    return f"{name}:{node.overload}" if node.overload else name


def name_of(node: ir.Node) -> str:
    """Return the operator and the name of a node; without a name, that of its first output."""
    if node.name:
        return f"{operator_name(node)} '{node.name}'"
    if node.outputs and node.outputs[0].name:
        return f"{operator_name(node)} -> '{node.outputs[0].name}'"
    return f"unnamed {operator_name(node)}"


def describe(value: ir.Value | None) -> str:
    """Describe a value: the output of a node, an input, an initializer."""
    if value is None:
        return "nothing"
    producer = value.producer()
    if producer is not None:
        return f"output {value.index()} of {name_of(producer)}" if value.index() else name_of(producer)
    if value.is_graph_input():
        return f"input '{value.name}'"
    return f"initializer '{value.name}'" if value.is_initializer() else f"undefined value '{value.name}'"


def count(things: Sized | int, noun: str) -> str:
    """Return a number with its noun: no nodes, 1 node, 2 nodes."""
    number = things if isinstance(things, int) else len(things)
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def type_text(type_: ir.TypeProtocol | None, shape: ir.Shape | None = None) -> str:
    """Return a type in words, with the shape if there is one: ``float[N,4]``."""
    if type_ is None:
        return "unknown type"
    if isinstance(type_, (ir.SequenceType, ir.OptionalType)):
        kind = "seq" if isinstance(type_, ir.SequenceType) else "optional"
        return f"{kind}({type_text(type_.elem_type, shape)})"
    name = type_.dtype.name.lower()
    name = f"sparse {name}" if isinstance(type_, ir.SparseTensorType) else name
    return name if shape is None else f"{name}[{','.join(map(dim_text, shape))}]"


def dim_text(dim: int | ir.SymbolicDim) -> str:
    """Return a dimension: a number, a name, or a question mark."""
    return str(dim) if isinstance(dim, int) else dim.value or "?"


def value_text(value: ir.Value) -> str:
    """Return name, type and shape of a value."""
    return f"{value.name}: {type_text(value.type, value.shape)}"


def attribute_text(attribute: ir.Attr, comma: str = ", ") -> str:
    """Return the value of an attribute, short."""
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    kind, value = attribute.type, attribute.value
    if kind == ir.AttributeType.TENSOR:
        return tensor_text(attribute.as_tensor())
    if kind == ir.AttributeType.GRAPH:
        return f"{{graph of {count(attribute.as_graph(), 'node')}}}"
    if kind == ir.AttributeType.GRAPHS:
        return f"{{{count(attribute.as_graphs(), 'graph')}}}"
    if kind in (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS):
        items = cast("tuple[object, ...]", value)
        shown = [repr(item) for item in items[:_SHORT_LIST]]
        return f"[{comma.join([*shown, '…'] if len(items) > _SHORT_LIST else shown)}]"
    return repr(value)


def tensor_text(tensor: ir.TensorProtocol) -> str:
    """Return element type and shape of a tensor, and its elements if they are few."""
    shape = ",".join(map(str, tensor.shape))
    head = f"{tensor.dtype.name.lower()}[{shape}]"
    if tensor.size > _SHORT_LIST:
        return head
    elements = ", ".join(map(_element_text, _flat(tensor)))
    return f"{head}({elements})"


def operator_difference(a: ir.Node, b: ir.Node) -> str | None:
    """Describe the difference of the operators or used outputs of two nodes; None if there is none."""
    if operator(a) != operator(b):
        return f"{name_of(a)} vs {name_of(b)}"
    if present_outputs(a) != present_outputs(b):
        return f"{name_of(a)} has {_outputs_text(a)} vs {_outputs_text(b)}"
    return None


def _outputs_text(node: ir.Node) -> str:
    present = present_outputs(node)
    missing = [str(index) for index, wanted in enumerate(present) if not wanted]
    return count(present, "output") + (f" (not {', '.join(missing)})" if missing else "")


def attribute_differences(
    a: ir.Node | ir.Function, b: ir.Node | ir.Function, contents: Contents, sign: str = "vs"
) -> dict[str, str]:
    """Describe the difference of each attribute in which two nodes or functions differ."""
    return {
        name: _attribute_difference(a.attributes.get(name), b.attributes.get(name), sign)
        for name in sorted({*a.attributes, *b.attributes})
        if _key(a.attributes.get(name), contents) != _key(b.attributes.get(name), contents)
    }


def _key(attribute: ir.Attr | None, contents: Contents) -> object:
    return None if attribute is None else contents.attribute(attribute)


def _attribute_difference(a: ir.Attr | None, b: ir.Attr | None, sign: str) -> str:
    if a is None or b is None:
        texts = ("absent" if attribute is None else attribute_text(attribute) for attribute in (a, b))
        return f" {sign} ".join(texts)
    if a.type != b.type:
        return f"{a.type.name} {attribute_text(a)} {sign} {b.type.name} {attribute_text(b)}"
    if a.type == ir.AttributeType.TENSOR and not (a.is_ref() or b.is_ref()):
        return tensor_difference(a.as_tensor(), b.as_tensor(), sign)
    return f"{attribute_text(a)} {sign} {attribute_text(b)}"


def tensor_difference(a: ir.TensorProtocol | None, b: ir.TensorProtocol | None, sign: str = "vs") -> str:
    """Describe the difference of two tensors: type, shape, or the first different element."""
    if a is None or b is None:
        texts = ("no value" if tensor is None else tensor_text(tensor) for tensor in (a, b))
        return f" {sign} ".join(texts)
    if a.dtype != b.dtype:
        return f"element type {a.dtype.name} {sign} {b.dtype.name}"
    shapes = tuple(a.shape), tuple(b.shape)
    if shapes[0] != shapes[1]:
        return f"shape {list(shapes[0])} {sign} {list(shapes[1])}"
    elements_a, elements_b = _flat(a), _flat(b)
    different = np.flatnonzero(_bits(elements_a, a.dtype) != _bits(elements_b, b.dtype))
    if not len(different):
        return "no difference"
    first = int(different[0])
    index = [int(i) for i in np.unravel_index(first, a.shape.numpy())]
    texts = _element_text(elements_a[first]), _element_text(elements_b[first])
    if texts[0] == texts[1]:
        texts = f"{texts[0]} (other bits)", texts[1]
    more = f" and {len(different) - 1} more" if len(different) > 1 else ""
    where = f"element {index}: " if index else ""
    return f"{where}{texts[0]} {sign} {texts[1]}{more}"


def _flat(tensor: ir.TensorProtocol) -> np.ndarray[Any, Any]:
    if tensor.dtype == ir.DataType.STRING:
        elements = np.empty(tensor.size, dtype=object)
        elements[:] = list(string_elements(tensor))
        return elements
    return tensor.numpy().reshape(-1)


def _bits(elements: np.ndarray[Any, Any], dtype: ir.DataType) -> np.ndarray[Any, Any]:
    """Return elements as comparable bits, so that NaN equals NaN and 0.0 differs from -0.0."""
    if dtype == ir.DataType.STRING:
        return elements
    if dtype.bitwidth < 8:
        return elements.view(np.uint8) & np.uint8((1 << dtype.bitwidth) - 1)
    return elements.view(f"V{elements.itemsize}")


def _element_text(element: Any) -> str:
    if isinstance(element, bytes):
        return repr(element.decode("utf-8", "replace"))
    return str(element)
