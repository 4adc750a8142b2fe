"""A node on its way to another operator set: its notation, its values, and the nodes of the same kind."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.schemas import schema_of


class NoEquivalentError(Exception):
    """A node uses a feature that a version does not have; the text names it."""


@dataclass
class NodeForm:
    """One node, and the nodes that had to be put in front of it so far.

    Breaks of meaning are written in terms of it: read what the node uses, then say how an older version writes it.
    """

    node: onnx.NodeProto
    constants: Mapping[str, onnx.TensorProto]
    types: Mapping[str, onnx.TypeProto]
    used: frozenset[str] = frozenset()
    """Results of the node that somebody reads."""
    helpers: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def refuse(self, reason: str) -> NoReturn:
        """Refuse the node for a feature that the version below does not have."""
        raise NoEquivalentError(reason)

    def input(self, index: int) -> str:
        """Return the name of an input; an empty text if it is left out."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def constant(self, index: int) -> np.ndarray | None:
        """Return the value of an input if it is a small constant."""
        return self.constant_of(self.input(index))

    def constant_of(self, name: str) -> np.ndarray | None:
        """Return a small constant by name."""
        held = (node.attribute[0].t for node in self.helpers if node.op_type == "Constant" and node.output[0] == name)
        tensor = self.constants[name] if name in self.constants else next(held, None)
        return None if tensor is None else onnx.numpy_helper.to_array(tensor)

    def required(self, index: int, what: str) -> np.ndarray:
        """Return the value of an input that has to be constant."""
        array = self.constant(index)
        if array is None:
            self.refuse(f"'{what}' is not constant")
        return array

    def dtype(self, index: int) -> int | None:
        """Return the element type of an input."""
        name = self.input(index)
        if name in self.constants:
            return self.constants[name].data_type
        return self.types[name].tensor_type.elem_type or None if name in self.types else None

    def dims(self, index: int) -> list[int | None] | None:
        """Return the sizes of an input, as far as they are numbers."""
        name = self.input(index)
        if name in self.constants:
            return list(self.constants[name].dims)
        type_ = self.types.get(name)
        if type_ is None or not type_.tensor_type.HasField("shape"):
            return None
        return [dim.dim_value if dim.HasField("dim_value") else None for dim in type_.tensor_type.shape.dim]

    def size(self, axis: int) -> int | None:
        """Return the size of the first input along an axis, if it is a number."""
        dims = self.dims(0)
        return None if dims is None else dims[axis]

    def rank(self, index: int = 0) -> int:
        """Return the rank of an input that has to be known."""
        dims = self.dims(index)
        if dims is None:
            self.refuse("the rank is not known")
        return len(dims)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, texts as text."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                value = onnx.helper.get_attribute_value(attribute)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def set(self, name: str, value: Any) -> None:
        """Give an attribute a value."""
        self.drop(name)
        self.node.attribute.append(onnx.helper.make_attribute(name, value))

    def drop(self, *names: str) -> None:
        """Leave out attributes."""
        kept = [attribute for attribute in self.node.attribute if attribute.name not in names]
        del self.node.attribute[:]
        self.node.attribute.extend(kept)

    def set_inputs(self, names: Sequence[str]) -> None:
        """Replace the inputs; omitted inputs at the end are not written."""
        kept = list(names)
        while kept and not kept[-1]:
            kept.pop()
        self.node.input[:] = kept

    def hold(self, array: np.ndarray) -> str:
        """Put a constant in front of the node."""
        name = f"{self.node.output[0]}.{next(self.numbers)}"
        tensor = onnx.numpy_helper.from_array(array)
        self.helpers.append(onnx.helper.make_node("Constant", [], [name], value=tensor))
        return name

    def compute(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Put another node in front of it; returns the name of its result."""
        name = f"{self.node.output[0]}.{next(self.numbers)}"
        self.helpers.append(onnx.helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def become(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> None:
        """Make the node another one that yields the same."""
        self.node.op_type = op_type
        self.set_inputs(inputs)
        del self.node.attribute[:]
        for name, value in attributes.items():
            self.set(name, value)


_SMALL = 1024
"""Constants of up to so many bytes are shown to the converter, which needs axes, shapes and the like."""


@dataclasses.dataclass
class NodeKind:
    """Nodes that look the same to the converter: one node with placeholders for its values."""

    proto: onnx.NodeProto
    inputs: list[onnx.ValueInfoProto]
    constants: list[onnx.TensorProto]
    outputs: list[onnx.ValueInfoProto]
    used: frozenset[str] = frozenset()
    """Outputs that somebody reads."""
    nodes: list[ir.Node] = dataclasses.field(default_factory=list[ir.Node])
    result: list[onnx.NodeProto] = dataclasses.field(default_factory=list[onnx.NodeProto])
    """What the converter made of it; the last node yields the outputs."""

    def key(self) -> tuple[bytes, ...]:
        """Return the key that nodes of this kind have in common."""
        parts = (self.proto, *self.inputs, *self.constants, *self.outputs)
        return (*(part.SerializeToString(deterministic=True) for part in parts), *map(str.encode, sorted(self.used)))

    def prefix_names(self, prefix: str) -> None:
        """Prefix the placeholders, so that they differ from those of other kinds."""
        for part in (*self.inputs, *self.constants, *self.outputs):
            part.name = prefix + part.name
        for names in (self.proto.input, self.proto.output):
            names[:] = [prefix + name if name else "" for name in names]
        self.used = frozenset(prefix + name for name in self.used)

    def form(self) -> NodeForm:
        """Return the node in a form that can be rewritten, with constants and types of its values."""
        proto = onnx.NodeProto()
        proto.CopyFrom(self.proto)
        constants = {tensor.name: tensor for tensor in self.constants}
        return NodeForm(proto, constants, {info.name: info.type for info in (*self.inputs, *self.outputs)}, self.used)

    def has_references(self) -> bool:
        """Return whether its nodes take attributes from their function."""
        return any(attribute.is_ref() for attribute in self.nodes[0].attributes.values())

    def is_changed(self) -> bool:
        """Return whether the result is another node, or several."""
        if len(self.result) != 1:
            return True
        before, after = self.proto, self.result[0]
        same = before.op_type == after.op_type and list(before.input) == list(after.input)
        return not same or attributes_of(before) != attributes_of(after)


def describe(node: ir.Node, op_type: str, version: int) -> NodeKind:
    """Describe a node as one of an operator: its inputs, its small constants, and the results in use."""
    kind = NodeKind(onnx.NodeProto(op_type=op_type), [], [], [])
    for position, value in enumerate(node.inputs):
        kind.proto.input.append("" if value is None else f"i{position}")
        tensor = constant_tensor(value)
        if tensor is not None and tensor.nbytes <= _SMALL:
            proto = ir.serde.serialize_tensor(tensor)
            proto.name = f"i{position}"
            kind.constants.append(proto)
        elif value is not None:
            kind.inputs.append(_typed(value, f"i{position}"))
    for position, value in enumerate(node.outputs):
        kind.proto.output.append(f"o{position}" if value.name else "")
        if value.name:
            kind.outputs.append(_typed(value, f"o{position}"))
        if value.is_graph_output() or value.uses():
            kind.used |= {f"o{position}"}
    for attribute in node.attributes.values():
        proto = kind.proto.attribute.add()
        if attribute.is_ref():
            proto.CopyFrom(_example(attribute, node.op_type, version))
        else:
            ir.serde.serialize_attribute_into(proto, from_=attribute)
    return kind


def _typed(value: ir.Value, name: str) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto(name=name)
    if value.type is not None:
        ir.serde.serialize_type_into(info.type, value.type)
        if value.shape is not None:
            ir.serde.serialize_shape_into(info.type, value.shape)
    return info


def _example(reference: ir.Attr, op_type: str, version: int) -> onnx.AttributeProto:
    """Return some value for an attribute that a function gets from its caller."""
    schema = schema_of("", op_type, version)
    declared = None if schema is None else schema.attributes.get(reference.name)
    if declared is not None and declared.default_value.type:
        return declared.default_value
    examples = {
        ir.AttributeType.INT: 0,
        ir.AttributeType.FLOAT: 0.5,
        ir.AttributeType.STRING: "",
        ir.AttributeType.INTS: [0],
        ir.AttributeType.FLOATS: [0.5],
        ir.AttributeType.STRINGS: [""],
        ir.AttributeType.TENSOR: onnx.helper.make_tensor("", onnx.TensorProto.FLOAT, [], [0.5]),
    }
    return onnx.helper.make_attribute(reference.name, examples[reference.type])


def attributes_of(node: onnx.NodeProto) -> dict[str, bytes]:
    """Return attributes in a form that can be compared."""
    return {attribute.name: attribute.SerializeToString(deterministic=True) for attribute in node.attribute}
