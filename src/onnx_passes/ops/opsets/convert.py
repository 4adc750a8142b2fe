"""Convert a model from one version of the default operator set to another, in place.

Each kind of node that changed is converted alone, upwards (``opset_up``) or downwards (``opset_down``), and only what
is made of it is brought back: the node itself stays, with its name, its metadata and the values it yields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import onnx.checker
import onnx.helper
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.builder import type_outputs
from onnx_passes.graph.edits import remove_unused_constants, subgraphs_of
from onnx_passes.graph.names import Names
from onnx_passes.graph.schemas import schema_of, signature
from onnx_passes.graph.wellformed import node_label
from onnx_passes.ops.opsets.down import descend
from onnx_passes.ops.opsets.form import NodeKind, NoEquivalentError, attributes_of, describe
from onnx_passes.ops.opsets.up import ascend, objection, retype_outputs, stand_in

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Scope = ir.Graph | ir.Function
Refused = tuple[ir.Node, str]
"""A node that has no equivalent, and what it uses."""

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
    """Plan of a conversion to another version; planning changes no node, and raises ModelError if it fails."""

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


class _Conversion:
    """The conversion of one graph with its subgraphs, or of one function; finding out changes nothing yet."""

    def __init__(self, scope: Scope, source: int, target: int, functions: Collection[ir.OperatorIdentifier]) -> None:
        self._scope = scope
        self.source = source
        self._target = target
        self.refused: list[Refused] = []
        self._kinds: dict[tuple[bytes, ...], NodeKind] = {}
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
                retype_outputs(node, self._target)
        self._scope.opset_imports[""] = self._target

    def _examine(self, node: ir.Node) -> None:
        before = schema_of("", node.op_type, self.source)
        if before is None:
            raise ModelError(f"{node_label(node)} is no operator of opset {self.source}")
        after = schema_of("", node.op_type, self._target)
        if after is not None and before.since_version == after.since_version:
            return
        reason = objection(node, self.source, self._target)
        if reason is not None:
            self.refused.append((node, reason))
        if reason is not None or subgraphs_of(node):
            return
        kind = describe(node, stand_in(node.op_type, self.source, self._target), self.source)
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
        blamed = ascend(kinds, self.source, self._target)
        for position, reason in blamed.items():
            self._refuse(kinds[position], reason)
        if not blamed:
            for kind in kinds:
                self._check(kind)

    def _check(self, kind: NodeKind) -> None:
        """Refuse a result that cannot replace all nodes of a kind, or that the version does not accept."""
        if kind.has_references() and kind.is_changed():
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

    def _refuse(self, kind: NodeKind, reason: str) -> None:
        self.refused += [(node, reason) for node in kind.nodes]


def _rewrite(node: ir.Node, kind: NodeKind, names: Names, version: int) -> None:
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
    before, after = attributes_of(kind.proto), attributes_of(last)
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
