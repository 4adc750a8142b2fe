"""Shape inference of onnx itself for values that are still unknown, without vectors that are too long."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnx_passes.analysis.shapes.known_shapes import contradict
from onnx_passes.core.measure import count_elements
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import constant, constant_tensor
from onnx_passes.graph.map_types import holds_map
from onnx_passes.graph.weightless import encode_weightless, weightless

if TYPE_CHECKING:
    import onnx


_LONGEST = 2**16
"""Elements of a vector up to which they are followed."""
_LONGEST_WEIGHT = 2**22
"""Elements of a weight of one axis up to which onnx may make up a dimension for each."""


def makes_long_vectors(graph: ir.Graph) -> bool:
    """Return whether any weight or concatenation is a vector that is too long to follow its elements."""
    weights = (value.const_value for value in graph.initializers.values())
    if any(
        tensor is not None and len(tensor.shape) == 1 and count_elements(tensor) > _LONGEST_WEIGHT for tensor in weights
    ):
        return True
    lengths: dict[ir.Value, int] = {}
    for node in all_nodes(graph):
        if node.domain != "" or node.op_type not in ("Concat", "Range"):
            continue
        if node.op_type == "Range":
            length = _range_length(node)
        else:
            length = sum(_length(value, lengths) for value in node.inputs)
        if length > _LONGEST:
            return True
        lengths[node.outputs[0]] = length
    return False


def length_of_long_vector(node: ir.Node) -> int | None:
    """Return the length of a concatenated vector, if it is too long to follow its elements."""
    if node.op_type != "Concat" or node.domain != "":
        return None
    sizes = [_vector_size(value) for value in node.inputs]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) and sum(known) > _LONGEST else None


def _vector_size(value: ir.Value | None) -> int | None:
    if value is None or value.shape is None or len(value.shape) != 1:
        return None
    size = value.shape[0]
    return size if isinstance(size, int) else None


def _length(value: ir.Value | None, lengths: dict[ir.Value, int]) -> int:
    """Return how many elements of a vector are known, as far as it was followed."""
    if value is None:
        return 0
    tensor = constant_tensor(value)
    if tensor is not None:
        return tensor.size if len(tensor.shape) == 1 else 0
    return lengths.get(value) or _vector_size(value) or 0


def _range_length(node: ir.Node) -> int:
    ends = [constant(value) for value in node.inputs]
    known = [end.item() for end in ends if end is not None and end.size == 1]
    if len(known) != 3 or not known[2]:
        return 0
    start, limit, delta = known
    return max(0, int((limit - start) / delta))


_OVERRIDABLE_SINCE = 4


def has_gaps(graph: ir.Graph) -> bool:
    """Return whether the type or shape of a result is unknown, in the graph or a subgraph."""
    return next(nodes_with_gaps(graph), None) is not None


def nodes_with_gaps(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield the nodes of a graph and its subgraphs with a result of unknown type or shape."""
    for node in all_nodes(graph):
        for value in node.outputs:
            if _is_gap(value) and value.name:
                yield node
                break


def is_static(graph: ir.Graph) -> bool:
    """Return whether all values of a graph and its subgraphs are tensors of known type and size."""
    return all(
        isinstance(value.type, ir.TensorType) and value.shape is not None and value.shape.is_static()
        for node in all_nodes(graph)
        for value in node.outputs
        if value.name
    )


def has_static_inputs(graph: ir.Graph) -> bool:
    """Return whether the size of every input is declared."""
    return all(
        value.shape is not None and all(isinstance(size, int) and size >= 0 for size in value.shape)
        for value in graph.inputs
    )


def fill_gaps(model: ir.Model, *, data_prop: bool) -> bool:
    """Fill in missing types and shapes by the inference of onnx; return whether it found any."""
    import onnx

    if not has_gaps(model.graph):
        return False
    overridable: set[str | None] = set()
    if model.ir_version >= _OVERRIDABLE_SINCE:
        # A caller may pass something else for an input than its default.
        overridable = {value.name for value in model.graph.inputs if value.is_initializer()}
    given: onnx.ModelProto | bytes | None = encode_weightless(model, without=overridable)
    if given is None:
        given = weightless(model)
        _drop_initializers(given.graph, overridable)
    try:
        data_prop = data_prop and not makes_long_vectors(model.graph)
        inferred = onnx.shape_inference.infer_shapes(given, data_prop=data_prop)
        if isinstance(inferred, bytes):
            inferred = onnx.ModelProto.FromString(inferred)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError):
        return False
    return _Filling(model.graph).fill(model.graph, inferred.graph)


def false_claims(model: ir.Model, *, data_prop: bool) -> dict[ir.Value, ir.Shape]:
    """Replace declared shapes of results that onnx contradicts, and return them; it is asked without knowing them."""
    declared = {
        value: value.shape for node in all_nodes(model.graph) for value in node.outputs if value.shape is not None
    }
    for value in declared:
        value.shape = None
    fill_gaps(model, data_prop=data_prop)
    found: dict[ir.Value, ir.Shape] = {}
    for value, shape in declared.items():
        if contradict(shape, value.shape):
            found[value] = shape
        else:
            value.shape = shape
    return found


def _is_gap(value: ir.Value) -> bool:
    return value.type is None or (value.shape is None and isinstance(value.type, ir.TensorType))


def _drop_initializers(graph: onnx.GraphProto, names: set[str | None]) -> None:
    kept = [tensor for tensor in graph.initializer if tensor.name not in names]
    if len(kept) < len(graph.initializer):
        del graph.initializer[:]
        graph.initializer.extend(kept)


def names_in_use(graph: ir.Graph) -> set[str]:
    """Return the names of dimensions of the values that nodes read and compute."""
    values = (value for node in all_nodes(graph) for value in (*node.inputs, *node.outputs) if value is not None)
    return {dim.value for v in values for dim in (v.shape or ()) if not isinstance(dim, int) and dim.value}


class _Filling:
    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self.fresh = (name for number in count() if (name := f"_d{number}") not in self.names)

    @cached_property
    def names(self) -> set[str]:
        """The names of dimensions in the original graph, computed at first use."""
        return names_in_use(self.graph)

    def fill(self, graph: ir.Graph, proto: onnx.GraphProto) -> bool:
        """Walk both forms of a graph side by side."""
        types = {info.name: info.type for info in (*proto.value_info, *proto.output)}
        filled = False
        for node, node_proto in zip(graph, proto.node, strict=True):
            for value in node.outputs:
                if value.name in types and not holds_map(types[value.name]) and _is_gap(value):
                    filled |= self.fill_value(value, types[value.name])
            attributes = {attribute.name: attribute for attribute in node_proto.attribute}
            for attribute in node.attributes.values():
                if attribute.type is ir.AttributeType.GRAPH and not attribute.is_ref():
                    filled |= self.fill(attribute.as_graph(), attributes[attribute.name].g)
        return filled

    def fill_value(self, value: ir.Value, proto: onnx.TypeProto) -> bool:
        type_ = ir.serde.deserialize_type_proto_for_type(proto)
        shape = ir.serde.deserialize_type_proto_for_shape(proto)
        filled = False
        if value.type is None and type_ is not None:
            value.type, filled = type_, True
        if value.shape is None and shape is not None and isinstance(value.type, ir.TensorType):
            value.shape, filled = ir.Shape([self.dimension(dim) for dim in shape]), True
        return filled

    def dimension(self, dim: int | ir.SymbolicDim) -> int | str:
        """Keep numbers and names of the model; rename other ones, which onnx may repeat in several runs."""
        if isinstance(dim, int):
            return dim
        return dim.value if dim.value in self.names else next(self.fresh)
