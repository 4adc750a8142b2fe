"""Convert a model from one version of the default operator set to another, in place.

Upwards it is onnx's own converter that knows what changed. It drops functions, metadata and annotations, and reads
every weight. So each kind of node that changed is given to it alone, and only what it makes of that node is brought
back: the node itself stays, with its name, its metadata and the values it yields. Downwards see ``opset_down``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import onnx
import onnx.checker
import onnx.helper
import onnx.version_converter
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph import opset_rules
from onnx_passes.graph.builder import type_outputs
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.edits import remove_unused_constants, subgraphs_of
from onnx_passes.graph.names import Names
from onnx_passes.graph.opset_down import descend, schema_of
from onnx_passes.graph.opset_form import Form, NoEquivalentError
from onnx_passes.graph.schemas import signature
from onnx_passes.graph.wellformed import node_label

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

Scope = ir.Graph | ir.Function
Refused = tuple[ir.Node, str]
"""A node that has no equivalent, and what it uses."""

_SMALL = 1024
"""Constants of up to so many bytes are shown to the converter, which needs axes, shapes and the like."""


_INITIALIZERS_SINCE, _FUNCTIONS_SINCE, _OVERLOADS_SINCE = 4, 8, 10
"""Versions of the format with initializers that are no inputs, with functions, and with several of one name."""


def target_versions() -> range:
    """Return the versions of the default operator set that models can be converted to."""
    return range(7, 26)


def convert_opset(model: ir.Model, version: int) -> ir.Model:
    """Convert graph, subgraphs and functions of a model to another version of the default operator set.

    Returns the model itself, changed in place. Names, metadata, annotations, weights and nodes of other domains
    stay. Raises ModelError, and leaves the model alone, if a node has no equivalent in that version.
    """
    OpsetConversion(model, version).apply()
    return model


class OpsetError(ModelError):
    """Nodes of a model have no equivalent in another version; all are named."""

    def __init__(self, refused: Sequence[Refused], source: int, target: int) -> None:
        self.refused = tuple(refused)
        between = f"cannot be converted from opset {source} to {target}"
        hint = "choose another version" if target > source else "stay with a higher version"
        if len(self.refused) == 1:
            node, reason = self.refused[0]
            super().__init__(f"{node_label(node)} {between}: {reason}", hint=hint)
            return
        alike: dict[str, list[ir.Node]] = {}
        for node, reason in self.refused:
            alike.setdefault(reason, []).append(node)
        lines = [f"  {', '.join(map(node_label, nodes))}: {reason}" for reason, nodes in alike.items()]
        super().__init__("\n".join((f"{len(self.refused)} nodes {between}:", *lines)), hint=hint)


class OpsetConversion:
    """What there is to do for another version; finding out changes nothing yet, and raises ModelError if it cannot."""

    def __init__(self, model: ir.Model, version: int) -> None:
        versions = target_versions()
        if version not in versions:
            raise ModelError(
                f"there is no conversion to opset {version}", hint=f"choose {versions[0]} to {versions[-1]}"
            )
        self._model = model
        self._version = version
        scopes: list[Scope] = [model.graph, *model.functions.values()]
        self._parts = [
            _Conversion(scope, scope.opset_imports[""], version, model.functions.keys())
            for scope in scopes
            if scope.opset_imports.get("", version) != version
        ]
        for part in self._parts:
            if part.refused:
                raise OpsetError(part.refused, part.source, version)

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def nodes(self) -> list[ir.Node]:
        """List the nodes that become others."""
        return [node for part in self._parts for node in part.changed_nodes()]

    def apply(self) -> None:
        """Convert the model in place."""
        for part in self._parts:
            part.apply()
        if self._parts:
            down = all(part.source > self._version for part in self._parts)
            self._model.ir_version = _ir_version(self._model, self._version, lower=down)


def _ir_version(model: ir.Model, version: int, *, lower: bool) -> int:
    """Return the version of the format that goes with operator sets, or one that the model needs for something else."""
    opsets = {**model.opset_imports, "": version}
    ids = [onnx.helper.make_opsetid(*item) for item in opsets.items()]
    needed = onnx.helper.find_min_ir_version_for(ids, ignore_unknown=True)
    if not lower:
        return max(model.ir_version, needed)
    if any(function.overload for function in model.functions.values()):
        needed = max(needed, _OVERLOADS_SINCE)
    if model.functions:
        needed = max(needed, _FUNCTIONS_SINCE)
    return min(model.ir_version, max(needed, _INITIALIZERS_SINCE))


@dataclasses.dataclass
class _Kind:
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
        parts = (self.proto, *self.inputs, *self.constants, *self.outputs)
        return (*(part.SerializeToString(deterministic=True) for part in parts), *map(str.encode, sorted(self.used)))

    def prefix_names(self, prefix: str) -> None:
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

    def is_changed(self) -> bool:
        if len(self.result) != 1:
            return True
        before, after = self.proto, self.result[0]
        same = before.op_type == after.op_type and list(before.input) == list(after.input)
        return not same or _attributes(before) != _attributes(after)


class _Conversion:
    """The conversion of one graph with its subgraphs, or of one function; finding out changes nothing yet."""

    def __init__(self, scope: Scope, source: int, target: int, functions: Collection[ir.OperatorIdentifier]) -> None:
        self._scope = scope
        self.source = source
        self._target = target
        self.refused: list[Refused] = []
        self._kinds: dict[tuple[bytes, ...], _Kind] = {}
        for node in scope.all_nodes():
            if node.domain == "" and node.op_identifier() not in functions:
                self._examine(node)
        if target < source:
            self._descend()
        elif self._kinds:
            self._ascend()

    def changed_nodes(self) -> list[ir.Node]:
        return [node for kind in self._kinds.values() if kind.is_changed() for node in kind.nodes]

    def apply(self) -> None:
        names: Names | None = None
        for kind in self._kinds.values():
            if kind.is_changed():
                names = names or Names.of(self._scope)
                for node in kind.nodes:
                    _rewrite(node, kind, names, self._target)
            for node in kind.nodes:
                opset_rules.retype_outputs(node, self._target)
        self._scope.opset_imports[""] = self._target

    def _examine(self, node: ir.Node) -> None:
        before = schema_of(node.op_type, self.source)
        if before is None:
            raise ModelError(f"{node_label(node)} is no operator of opset {self.source}")
        after = schema_of(node.op_type, self._target)
        if after is not None and before.since_version == after.since_version:
            return
        reason = opset_rules.objection(node, self.source, self._target)
        if reason is not None:
            self.refused.append((node, reason))
        if reason is not None or subgraphs_of(node):
            return
        kind = _describe(node, opset_rules.stand_in(node.op_type, self.source, self._target), self.source)
        key = (node.op_type.encode(), *kind.key())
        known = self._kinds.setdefault(key, kind)
        if known is kind:
            kind.prefix_names(f"{len(self._kinds)}.")
        known.nodes.append(node)

    def _descend(self) -> None:
        for kind in self._kinds.values():
            try:
                kind.result = descend(kind.form(), self.source, self._target)
            except NoEquivalentError as error:
                self._refuse(kind, str(error))
                continue
            self._check(kind)

    def _ascend(self) -> None:
        kinds = list(self._kinds.values())
        try:
            result = _run_converter(kinds, self.source, self._target)
        except Exception as error:
            self._blame(kinds)
            if not self.refused:
                what = f"opset {self.source} cannot be converted to {self._target}: {_message(error)}"
                raise ModelError(what) from error
            return
        producers = {name: node for node in result.graph.node for name in node.output if name}
        constants = {tensor.name: tensor for tensor in result.graph.initializer}
        order = {id(node): position for position, node in enumerate(result.graph.node)}
        for kind in kinds:
            kind.result = _made_of(kind, producers, constants, order)
            opset_rules.mend(kind.result, kind.nodes[0], self.source, self._target)
            self._check(kind)

    def _check(self, kind: _Kind) -> None:
        """Refuse what cannot be put in the place of all nodes of a kind, or is not as the version wants it."""
        if _has_references(kind.nodes[0]) and kind.is_changed():
            self._refuse(kind, "it takes an attribute from its function")
            return
        context = type(onnx.checker.DEFAULT_CONTEXT)()
        context.ir_version = onnx.IR_VERSION
        context.opset_imports = {"": self._target}
        try:
            for proto in kind.result:
                onnx.checker.check_node(proto, context)
        except onnx.checker.ValidationError as error:
            self._refuse(kind, str(error).splitlines()[0])

    def _refuse(self, kind: _Kind, reason: str) -> None:
        self.refused += [(node, reason) for node in kind.nodes]

    def _blame(self, kinds: list[_Kind]) -> None:
        """Find the nodes that the converter stumbles over: it does not say."""
        for kind in kinds:
            try:
                _run_converter([kind], self.source, self._target)
            except Exception as reason:  # noqa: BLE001 - becomes part of the error that is raised
                self._refuse(kind, _message(reason))


def _message(error: Exception) -> str:
    return str(error).rpartition("failed: ")[2].strip().rstrip(".") or type(error).__name__


def _has_references(node: ir.Node) -> bool:
    return any(attribute.is_ref() for attribute in node.attributes.values())


def _describe(node: ir.Node, op_type: str, version: int) -> _Kind:
    kind = _Kind(onnx.NodeProto(op_type=op_type), [], [], [])
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
    schema = schema_of(op_type, version)
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


def _run_converter(kinds: Iterable[_Kind], source: int, target: int) -> onnx.ModelProto:
    model = onnx.ModelProto(ir_version=10)
    model.opset_import.add(domain="", version=source)
    graph = model.graph
    graph.name = "kinds"
    for kind in kinds:
        graph.node.append(kind.proto)
        graph.input.extend(kind.inputs)
        graph.initializer.extend(kind.constants)
        graph.output.extend(kind.outputs)
    return onnx.version_converter.convert_version(model, target)


def _made_of(
    kind: _Kind,
    producers: Mapping[str, onnx.NodeProto],
    constants: Mapping[str, onnx.TensorProto],
    order: Mapping[int, int],
) -> list[onnx.NodeProto]:
    """List the nodes that compute the outputs of a kind from its inputs, in order."""
    found: dict[int, onnx.NodeProto] = {}
    added: dict[str, onnx.NodeProto] = {}
    waiting = [info.name for info in kind.outputs]
    while waiting:
        name = waiting.pop()
        node = producers.get(name)
        if node is not None and id(node) not in found:
            found[id(node)] = node
            waiting += node.input
        elif name in constants and name not in kind.proto.input:
            added[name] = onnx.helper.make_node("Constant", [], [name], value=constants[name])
    return [*added.values(), *sorted(found.values(), key=lambda node: order[id(node)])]


def _attributes(node: onnx.NodeProto) -> dict[str, bytes]:
    return {attribute.name: attribute.SerializeToString(deterministic=True) for attribute in node.attribute}


def _rewrite(node: ir.Node, kind: _Kind, names: Names, version: int) -> None:
    """Make a node the last one of the result of its kind, with the others in front of it."""
    values: dict[str, ir.Value | None] = {**dict(zip(kind.proto.input, node.inputs, strict=True)), "": None}
    wish = next((value.name for value in node.outputs if value.name), node.op_type)
    *helpers, last = kind.result
    for proto in helpers:
        helper = ir.Node(
            "",
            proto.op_type,
            [values[name] for name in proto.input],
            [ir.serde.deserialize_attribute(attribute) for attribute in proto.attribute],
            num_outputs=len(proto.output),
            name=names.node(f"{node.name}_{proto.op_type}") if node.name else None,
        )
        for name, value in zip(proto.output, helper.outputs, strict=True):
            value.name = names.value(f"{wish}_{proto.op_type}")
            values[name] = value
        type_outputs(helper, signature("", helper.op_type, version))
        node.prepend(helper)
    node.op_type = last.op_type
    before, after = _attributes(kind.proto), _attributes(last)
    for name in before.keys() - after.keys():
        del node.attributes[name]
    for attribute in last.attribute:
        if before.get(attribute.name) != after[attribute.name]:
            node.attributes.add(ir.serde.deserialize_attribute(attribute))
    given = list(node.inputs)
    node.resize_inputs(len(last.input))
    for position, name in enumerate(last.input):
        node.replace_input_with(position, values[name])
    remove_unused_constants(given)
