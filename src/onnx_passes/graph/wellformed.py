"""Refuse models that are not well formed, with the reason, before they enter the IR.

onnx_ir drops sparse initializers and training information, reads a tensor without data as zeros, and invents values
for undefined inputs. None of that may go unnoticed.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, NoReturn

import onnx
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.attribute_kinds import KIND_NAMES, attribute_kinds
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.wire import tensor_nbytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, MutableSequence, Sequence

    from google.protobuf.message import Message

_Attribute = onnx.AttributeProto

_ELEMENTS = {
    ir.DataType.FLOAT: ("float_data", 1),
    ir.DataType.COMPLEX64: ("float_data", 2),
    ir.DataType.DOUBLE: ("double_data", 1),
    ir.DataType.COMPLEX128: ("double_data", 2),
    ir.DataType.INT64: ("int64_data", 1),
    ir.DataType.UINT32: ("uint64_data", 1),
    ir.DataType.UINT64: ("uint64_data", 1),
    ir.DataType.STRING: ("string_data", 1),
}


TEXTS = ("name", "producer_name", "producer_version", "domain", "doc_string")
"""Text fields without effect on the model: if they are not UTF-8, they are repaired."""

_MOST_ELEMENTS = 2**60
"""No array has as many elements, as sizes in bytes have 63 bits."""


@dataclasses.dataclass
class WalkFindings:
    """Findings of a walk over a well-formed model."""

    unsorted: bool = False
    overloaded: bool = False
    external: bool = False
    domains: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    """Domains used in the graph and its subgraphs, each with a node that uses it."""
    function_domains: list[dict[str, str]] = dataclasses.field(default_factory=list[dict[str, str]])
    """The same for each function of the model."""
    untyped: list[onnx.AttributeProto] = dataclasses.field(default_factory=list[onnx.AttributeProto])
    """Attributes without a type, as in models of IR version 1."""
    garbled: list[Message] = dataclasses.field(default_factory=list["Message"])
    """Messages with a name or documentation that is not UTF-8, which protobuf returns as bytes."""
    unordered: list[onnx.AttributeProto] = dataclasses.field(default_factory=list[onnx.AttributeProto])
    """Axes of Squeeze and Unsqueeze that are not ascending."""
    annotated: list[onnx.GraphProto] = dataclasses.field(default_factory=list[onnx.GraphProto])
    """Graphs with quantization annotations."""
    repeated: list[MutableSequence[onnx.NodeProto]] = dataclasses.field(
        default_factory=list["MutableSequence[onnx.NodeProto]"]
    )
    """Node lists with several Constant nodes for one value."""


def inspect(model: onnx.ModelProto, where: str, without_data: Collection[int] = ()) -> WalkFindings:
    """Check the names, tensors and attributes of a model, its subgraphs and functions.

    Raises ModelError for content that cannot be represented or is invalid; ``without_data`` are the positions of
    initializers whose data are stored elsewhere.
    """
    return _Inspector(where, set(without_data)).model(model)


def node_label(node: onnx.NodeProto | ir.Node) -> str:
    """Return the name of a node for messages, or its result if it has no name."""
    if node.name:
        return f"node '{node.name}' ({node.op_type})"
    results = node.output if isinstance(node, onnx.NodeProto) else [v.name for v in node.outputs]
    result = next((name for name in results if name), None)
    return f"the {node.op_type} node" + (f" that yields '{result}'" if result else "")


class _Scope:
    """The names of one graph: all that it defines, and those defined so far."""

    __slots__ = ("defined", "outer", "ready")

    def __init__(self, outer: _Scope | None) -> None:
        self.outer = outer
        self.defined: set[str] = set()
        self.ready: set[str] = set()


class _Inspector:
    def __init__(self, where: str, without_data: set[int]) -> None:
        self._where = where
        self._without_data = without_data
        self._findings = WalkFindings()
        self._domains = self._findings.domains
        self._kinds: dict[tuple[str, str], Mapping[str, int]] = {}
        self._versions: dict[str, int] = {}
        self._defined: set[tuple[str, str]] = set()

    def model(self, model: onnx.ModelProto) -> WalkFindings:
        if model.training_info:
            self._refuse("the model holds training information", "export it for inference")
        if any(isinstance(getattr(model, field), bytes) for field in TEXTS if field != "name"):
            self._findings.garbled.append(model)
        for entry in model.opset_import:
            self._require_text(entry.domain, "an imported domain")
        self._defined = {(function.domain, function.name) for function in model.functions}
        self._versions = {entry.domain: entry.version for entry in model.opset_import}
        self._graph(model.graph, None, self._without_data)
        for function in model.functions:
            self._require_text(function.name, "the name of a function")
            self._require_text(function.domain, f"the domain of function '{function.name}'")
            self._kinds.clear()
            self._versions = {entry.domain: entry.version for entry in function.opset_import}
            self._domains: dict[str, str] = {}
            self._findings.function_domains.append(self._domains)
            self._function(function)
        return self._findings

    def _refuse(self, what: str, hint: str | None = None) -> NoReturn:
        raise ModelError(what.replace("\n", "\\n"), where=self._where, hint=hint)

    def _require_text(self, text: str | bytes, label: str) -> None:
        """Refuse text that is not UTF-8, which protobuf returns as bytes."""
        if isinstance(text, bytes):
            self._refuse(f"{label} is {text!r}, which is not UTF-8", "the file is corrupt")

    def _graph(self, graph: onnx.GraphProto, outer: _Scope | None, without_data: Collection[int] = ()) -> None:
        if graph.sparse_initializer:
            name = graph.sparse_initializer[0].values.name
            self._refuse(f"initializer '{name}' is sparse", "store it as a dense tensor")
        if graph.quantization_annotation:
            self._annotations(graph)
        if isinstance(graph.name, bytes) or isinstance(graph.doc_string, bytes):
            self._findings.garbled.append(graph)
        scope = _Scope(outer)
        for value in (*graph.input, *graph.output):
            if isinstance(value.doc_string, bytes):
                self._findings.garbled.append(value)
        for value in graph.input:
            self._require_possible(value)
        self._define(scope, [value.name for value in graph.input], "graph input")
        initializers = [tensor.name for tensor in graph.initializer]
        if "" in initializers:
            self._refuse(f"initializer number {initializers.index('')} has no name", "export the model again")
        self._define(_Scope(None), initializers, "initializer")
        scope.defined.update(initializers)
        for position, tensor in enumerate(graph.initializer):
            if isinstance(tensor.doc_string, bytes):
                self._findings.garbled.append(tensor)
            if position not in without_data:
                self._tensor(tensor, f"initializer '{tensor.name}'")
        self._nodes(graph.node, scope)
        self._outputs([value.name for value in graph.output], scope)

    def _annotations(self, graph: onnx.GraphProto) -> None:
        self._findings.annotated.append(graph)
        for annotation in graph.quantization_annotation:
            self._require_text(annotation.tensor_name, "the tensor of an annotation")
            for entry in annotation.quant_parameter_tensor_names:
                self._require_text(entry.key, f"an annotation of '{annotation.tensor_name}'")
                self._require_text(entry.value, f"the annotation '{entry.key}' of '{annotation.tensor_name}'")

    def _require_possible(self, value: onnx.ValueInfoProto) -> None:
        """Refuse an input that is larger than any array, even if one of its dimensions is zero."""
        sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if math.prod(size for size in sizes if size > 0) >= _MOST_ELEMENTS:
            text = ",".join(map(str, sizes))
            self._refuse(f"input '{value.name}' of shape [{text}] is larger than any array", "the file is corrupt")

    def _function(self, function: onnx.FunctionProto) -> None:
        scope = _Scope(None)
        self._define(scope, function.input, f"input of function '{function.name}'")
        self._nodes(function.node, scope)
        self._outputs(function.output, scope)

    def _define(self, scope: _Scope, names: Sequence[str], kind: str) -> None:
        before = len(scope.defined)
        scope.defined.update(names)
        if len(scope.defined) != before + len(names):
            twice = next(name for name in names if list(names).count(name) > 1)
            self._refuse(f"{kind} '{twice}' is defined twice", "names of values must be unique")

    def _nodes(self, protos: MutableSequence[onnx.NodeProto], scope: _Scope) -> None:
        nodes = list(protos)
        scope.ready = set(scope.defined)
        if self._results(nodes, scope.defined):
            self._findings.repeated.append(protos)
            self._findings.unsorted = True
        for node in nodes:
            if not node.op_type:
                self._refuse(f"a node that yields '{', '.join(node.output)}' names no operator")
            kinds = self._kinds.get((node.domain, node.op_type))
            if kinds is None:
                kinds = self._operator(node)
            if node.domain not in self._domains:
                self._domains[node.domain] = node_label(node)
            for name in node.input:
                if name and name not in scope.ready:
                    self._late(name, node, scope)
            for attribute in node.attribute:
                self._attribute(attribute, kinds, node, scope)
            if node.overload:
                self._require_text(node.overload, f"the overload of {node_label(node)}")
                self._findings.overloaded = True
            if isinstance(node.name, bytes) or isinstance(node.doc_string, bytes):
                self._findings.garbled.append(node)
            scope.ready.update(node.output)

    def _results(self, nodes: Iterable[onnx.NodeProto], defined: set[str]) -> bool:
        """Add the results of nodes; return whether a Constant node repeats another, which can be repaired."""
        constants: set[str] = set()
        repeats = False
        for node in nodes:
            for name in node.output:
                if name in defined and not (name in constants and is_constant_node(node)):
                    self._refuse(f"'{name}' is defined twice, the second time by {node_label(node)}")
                repeats |= name in defined
                if name:
                    defined.add(name)
                    if is_constant_node(node):
                        constants.add(name)
        for name in defined:
            if isinstance(name, bytes):
                self._refuse(f"the name {name!r} is not UTF-8", "the file is corrupt")
        return repeats

    def _late(self, name: str, node: onnx.NodeProto, scope: _Scope) -> None:
        """Distinguish a name that is defined later, or by an outer graph, from an undefined one."""
        place: _Scope | None = scope
        while place is not None and name not in place.defined:
            place = place.outer
        if place is None:
            self._refuse(f"{node_label(node)} reads '{name}', which nothing defines", "the model is incomplete")
        if name not in place.ready:
            self._findings.unsorted = True

    def _outputs(self, names: Iterable[str], scope: _Scope) -> None:
        for name in names:
            if name in scope.defined:
                continue
            place = scope.outer
            while place is not None and name not in place.defined:
                place = place.outer
            if place is None:
                self._refuse(f"nothing defines the output '{name}'", "the model is incomplete")
            self._refuse(
                f"a subgraph returns '{name}' of an outer graph as its output",
                "put an Identity node in between",
            )

    def _operator(self, node: onnx.NodeProto) -> Mapping[str, int]:
        """Check an operator on its first occurrence; return the kinds of its attributes."""
        domain, name = node.domain, node.op_type
        self._require_text(name, "the operator of a node")
        self._require_text(domain, f"the domain of operator '{name}'")
        kinds: Mapping[str, int] = {}
        if (domain, name) not in self._defined:
            kinds = attribute_kinds(domain, name, self._versions.get(domain))
        self._kinds[domain, name] = kinds
        return kinds

    def _attribute(
        self, attribute: onnx.AttributeProto, kinds: Mapping[str, int], node: onnx.NodeProto, scope: _Scope
    ) -> None:
        kind, name = attribute.type, attribute.name
        self._require_text(name, f"an attribute of {node_label(node)}")
        wanted = kinds.get(name, kind)
        if wanted != kind and kind != _Attribute.UNDEFINED and (wanted, kind) != (_Attribute.FLOAT, _Attribute.INT):
            found = KIND_NAMES.get(kind, "something unknown")
            self._refuse(f"attribute '{name}' of {node_label(node)} holds {found}, not {KIND_NAMES[wanted]}")
        if name == "axes" and node.op_type in ("Squeeze", "Unsqueeze"):
            axes = list(attribute.ints)
            if axes != sorted(axes) and min(axes) >= 0:
                self._findings.unordered.append(attribute)
        if kind == _Attribute.GRAPH:
            self._graph(attribute.g, scope)
        elif kind == _Attribute.GRAPHS:
            for graph in attribute.graphs:
                self._graph(graph, scope)
        elif kind == _Attribute.TENSOR:
            if not attribute.ref_attr_name:
                self._tensor(attribute.t, f"attribute '{attribute.name}' of {node_label(node)}")
        elif kind in (_Attribute.SPARSE_TENSOR, _Attribute.SPARSE_TENSORS):
            self._refuse(f"{node_label(node)} holds a sparse tensor", "store it as a dense tensor")
        elif kind == _Attribute.UNDEFINED and not attribute.ref_attr_name:
            self._findings.untyped.append(attribute)

    def _tensor(self, tensor: onnx.TensorProto, label: str) -> None:
        try:
            dtype = ir.DataType(tensor.data_type)
        except ValueError:
            dtype = ir.DataType.UNDEFINED
        if dtype == ir.DataType.UNDEFINED:
            self._refuse(f"{label} has the unknown data type {tensor.data_type}")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            self._findings.external = True
            return
        dims = tuple(tensor.dims)
        if tensor.HasField("raw_data") and dtype != ir.DataType.STRING:
            expected, found, unit = tensor_nbytes(dtype, dims), len(tensor.raw_data), "bytes"
        else:
            field, per_element = _ELEMENTS.get(dtype, ("int32_data", 1))
            found, unit = len(getattr(tensor, field)), "elements"
            expected = _count(dtype, dims) * per_element
        if found != expected:
            self._refuse(f"{label} holds {found} {unit}, but its shape needs {expected}", "the file is corrupt")


def _count(dtype: ir.DataType, dims: tuple[int, ...]) -> int:
    """Return the number of elements in the typed fields of a tensor: types of 2 and 4 bits are packed in bytes."""
    if dtype != ir.DataType.STRING and dtype.bitwidth in (2, 4):
        return tensor_nbytes(dtype, dims)
    return math.prod(dims)
