"""Nodes that look the same to a conversion: they are described once, without names, and converted once."""

from __future__ import annotations

import dataclasses

import onnx
import onnx.helper
import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.schemas import schema_of
from onnx_passes.ops.opsets.form import Form

_SMALL = 1024
"""Constants of up to so many bytes are shown to the converter, which needs axes, shapes and the like."""


@dataclasses.dataclass
class Kind:
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
        """Return what nodes of this kind have in common."""
        parts = (self.proto, *self.inputs, *self.constants, *self.outputs)
        return (*(part.SerializeToString(deterministic=True) for part in parts), *map(str.encode, sorted(self.used)))

    def prefix_names(self, prefix: str) -> None:
        """Tell its placeholders from those of other kinds."""
        for part in (*self.inputs, *self.constants, *self.outputs):
            part.name = prefix + part.name
        for names in (self.proto.input, self.proto.output):
            names[:] = [prefix + name if name else "" for name in names]
        self.used = frozenset(prefix + name for name in self.used)

    def form(self) -> Form:
        """Return the node as something that can be written otherwise, with what is known of its values."""
        proto = onnx.NodeProto()
        proto.CopyFrom(self.proto)
        constants = {tensor.name: tensor for tensor in self.constants}
        return Form(proto, constants, {info.name: info.type for info in (*self.inputs, *self.outputs)}, self.used)

    def has_references(self) -> bool:
        """Tell whether its nodes take attributes from their function."""
        return any(attribute.is_ref() for attribute in self.nodes[0].attributes.values())

    def is_changed(self) -> bool:
        """Tell whether the result is another node, or several."""
        if len(self.result) != 1:
            return True
        before, after = self.proto, self.result[0]
        same = before.op_type == after.op_type and list(before.input) == list(after.input)
        return not same or attributes_of(before) != attributes_of(after)


def describe(node: ir.Node, op_type: str, version: int) -> Kind:
    """Describe a node as one of an operator: what it is given, its small constants, and which results are used."""
    kind = Kind(onnx.NodeProto(op_type=op_type), [], [], [])
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
