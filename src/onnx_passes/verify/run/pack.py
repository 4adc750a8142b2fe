"""Pack a model for ONNX Runtime: bytes with what it takes to compute, and weights beside them where they lie.

Types that numpy or ONNX Runtime cannot hand over are carried across the boundary in a wider one, without loss.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.encode import Encoder, Written, encode, skeleton
from onnx_passes.graph.map_types import described
from onnx_passes.graph.randomness import is_random
from onnx_passes.graph.uses import is_overwritten
from onnx_passes.graph.wire import PROTOBUF_LIMIT
from onnx_passes.ops.describe import expander
from onnx_passes.verify.run.child import with_maps_as_arrays

WEIGHTS = "weights"
"""The file that weights which are handed over pretend to be in."""

Key = tuple[bytes, tuple[tuple[str, int], ...]]
Hand = Callable[[ir.TensorProtocol], Any]


WIDER_TYPES = {
    **dict.fromkeys(
        (
            ir.DataType.BFLOAT16,
            ir.DataType.FLOAT8E4M3FN,
            ir.DataType.FLOAT8E4M3FNUZ,
            ir.DataType.FLOAT8E5M2,
            ir.DataType.FLOAT8E5M2FNUZ,
            ir.DataType.FLOAT4E2M1,
        ),
        ir.DataType.FLOAT,
    ),
    ir.DataType.INT4: ir.DataType.INT8,
    ir.DataType.INT2: ir.DataType.INT8,
    ir.DataType.UINT4: ir.DataType.UINT8,
    ir.DataType.UINT2: ir.DataType.UINT8,
}
_SUFFIX = "//wider"


class Boundary:
    """Casts at the inputs and outputs of a proto, and the way back for arrays."""

    def __init__(self, proto: onnx.ModelProto, outputs: list[tuple[str, ir.DataType | None]]) -> None:
        self._inputs: dict[str, ir.DataType] = {}
        self._outputs: dict[str, tuple[str, ir.DataType | None]] = {}
        heads: list[onnx.NodeProto] = []
        for value in proto.graph.input:
            dtype = ir.DataType(value.type.tensor_type.elem_type)
            if dtype in WIDER_TYPES:
                heads.append(_cast(value.name + _SUFFIX, value.name, dtype))
                self._inputs[value.name] = dtype
                value.name += _SUFFIX
                value.type.tensor_type.elem_type = WIDER_TYPES[dtype].value
        if heads:
            nodes = [*heads, *proto.graph.node]
            del proto.graph.node[:]
            proto.graph.node.extend(nodes)
        self._choose_outputs(proto, outputs)

    def _choose_outputs(self, proto: onnx.ModelProto, outputs: list[tuple[str, ir.DataType | None]]) -> None:
        declared = {value.name: value for value in proto.graph.output}
        chosen: list[onnx.ValueInfoProto] = []
        for name, dtype in outputs:
            if dtype is not None and dtype in WIDER_TYPES:
                proto.graph.node.append(_cast(name, name + _SUFFIX, WIDER_TYPES[dtype]))
                self._outputs[name] = (name + _SUFFIX, dtype)
                chosen.append(onnx.ValueInfoProto(name=name + _SUFFIX))
            else:
                self._outputs[name] = (name, None)
                chosen.append(declared.get(name) or onnx.ValueInfoProto(name=name))
        del proto.graph.output[:]
        proto.graph.output.extend(chosen)

    @property
    def names(self) -> list[str]:
        """List the outputs in order."""
        return list(self._outputs)

    @property
    def outside(self) -> dict[str, str]:
        """Map outputs to what they are called at the boundary."""
        return {name: outside for name, (outside, _) in self._outputs.items()}

    def inward(self, name: str, array: np.ndarray) -> tuple[str, np.ndarray]:
        """Widen an input."""
        dtype = self._inputs.get(name)
        if dtype is None:
            # Numpy makes scalars, which ONNX Runtime refuses, of what it computes with arrays of rank 0.
            return name, np.asarray(array) if isinstance(array, np.generic) else array
        return name + _SUFFIX, np.asarray(array).astype(WIDER_TYPES[dtype].numpy())

    def outward(self, names: list[str], arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
        """Narrow outputs again, by their own names."""
        named: dict[str, np.ndarray] = {}
        for name, array in zip(names, arrays, strict=True):
            dtype = self._outputs[name][1]
            named[name] = array if dtype is None else array.astype(dtype.numpy())
        return with_maps_as_arrays(named.items())


def _cast(source: str, target: str, dtype: ir.DataType) -> onnx.NodeProto:
    return onnx.helper.make_node("Cast", [source], [target], to=dtype.value)


@dataclass(frozen=True)
class Packed:
    """A serialised model, its weights by name, and the way of arrays in and out."""

    content: bytes
    handed: dict[str, Any]
    boundary: Boundary

    @property
    def weight_bytes(self) -> int:
        """Return the bytes of the weights, and of the model without them."""
        held: Iterable[Any] = {id(held): held for held in self.handed.values()}.values()
        return len(self.content) + sum(value.tensor_size_in_bytes() for value in held)

    @cached_property
    def key(self) -> Key:
        """Return what decides about results: models of one key are the same to ONNX Runtime."""
        weights = tuple((name, id(held)) for name, held in self.handed.items())
        return hashlib.blake2b(self.content).digest(), weights


def pack(
    model: ir.Model,
    outputs: list[tuple[str, ir.DataType | None]],
    functions: Sequence[onnx.FunctionProto],
    hand: Hand,
    feeds: Collection[str] | None = None,
    written: dict[frozenset[ir.OperatorIdentifier], Written] | None = None,
) -> Packed:
    """Pack a model with the given outputs; ``hand`` returns what a weight is handed over as, or nothing.

    Operators of quantized networks are written as standard ones, unless the model or ``functions`` define them.
    Types and shapes of interior values, documentation and metadata are left out: the engine works out its own.
    Inputs with a default that ``feeds`` does not name become weights like others. What those operators are ``written``
    as is kept there, by the operators that are defined.
    """
    inputs = [
        value for value in model.graph.inputs if feeds is None or value.const_value is None or value.name in feeds
    ]
    fed = {value.name for value in inputs}
    # In older versions every initializer has to be an input.
    version = max(model.ir_version, 4) if len(inputs) < len(model.graph.inputs) else model.ir_version
    defined = frozenset({*model.functions, *((f.domain, f.name, f.overload) for f in functions)})
    expand = expander(defined)
    proto = skeleton(model, ir_version=version, expand=expand)
    used = {(node.domain, node.op_type) for node in model.graph}
    proto.functions.extend(missing_functions(used, proto.functions, functions))
    proto.graph.input.extend(map(described, inputs))
    proto.graph.output.extend(map(described, model.graph.outputs))
    handed: dict[str, Any] = {}
    for value in model.graph.initializers.values():
        proto.graph.initializer.append(
            _initializer(value, None if value.name in fed or is_overwritten(value) else hand, handed)
        )
    boundary = Boundary(proto, outputs)
    # Casts of the boundary and branches come before the nodes: of those that are ready, the first node runs.
    apart = apart_from_inputs(model.graph, fed)
    branch_off(proto.graph, apart)
    kept = None if written is None else written.setdefault(defined, {})
    nodes = (node for node in model.graph if node not in apart)
    return Packed(encode(proto, nodes, expand, written=kept), handed, boundary)


def missing_functions(
    used: Collection[tuple[str, str]], known: Iterable[onnx.FunctionProto], functions: Sequence[onnx.FunctionProto]
) -> Iterator[onnx.FunctionProto]:
    """Choose the definitions of operators that a model uses and leaves undefined."""
    defined = {(function.domain, function.name) for function in known}
    for function in functions:
        key = (function.domain, function.name)
        if key in used and key not in defined:
            yield function


def _initializer(value: ir.Value, hand: Hand | None, handed: dict[str, Any]) -> onnx.TensorProto:
    tensor, name = value.const_value, value.name or ""
    if tensor is None:
        raise ModelError(f"initializer '{name}' has no data", where="execution")
    dims = tuple(tensor.shape.numpy())
    held = None if hand is None else hand(tensor)
    if held is not None:
        handed[name] = held
        proto = onnx.TensorProto(
            name=name, data_type=tensor.dtype.value, dims=dims, data_location=onnx.TensorProto.EXTERNAL
        )
        for key, text in (("location", WEIGHTS), ("offset", "0"), ("length", str(tensor.nbytes))):
            proto.external_data.add(key=key, value=text)
        return proto
    if tensor.nbytes > PROTOBUF_LIMIT:
        raise ModelError(
            f"initializer '{name}' is larger than protobuf allows, and not laid out as ONNX Runtime needs it"
        )
    if tensor.dtype is ir.DataType.STRING or isinstance(tensor, ir.serde.TensorProtoTensor):
        proto = ir.serde.serialize_tensor(tensor)
        proto.name = name
        return proto
    return onnx.TensorProto(name=name, data_type=tensor.dtype.value, dims=dims, raw_data=tensor.tobytes())


_MANY = 1000
_IN_A_BRANCH = 100
_BIG = 2**20
"""What weights of more bytes than this become is not computed before it is read: a branch keeps all of its results."""
_ALWAYS = "//always"


def apart_from_inputs(graph: ir.Graph, fed: Collection[str | None]) -> dict[ir.Node, None]:
    """List the nodes which compute the same each time, from nothing that is fed, in order; none if they are few."""
    weights = (value for value in graph.initializers.values() if value.name not in fed)
    known = {value for value in weights if value.const_value is None or value.const_value.nbytes <= _BIG}
    apart: dict[ir.Node, None] = {}
    for node in graph:
        if all(value is None or value in known for value in node.inputs) and _is_steady(node):
            known.update(node.outputs)
            # ONNX Runtime takes the results of these for weights.
            if not is_constant_node(node):
                apart[node] = None
    return apart if len(apart) > _MANY else {}


def branch_off(graph: onnx.GraphProto, nodes: Collection[ir.Node]) -> None:
    """Add nodes to a graph, some in each branch; the branches are always taken."""
    if not nodes:
        return
    true = onnx.helper.make_tensor("true", onnx.TensorProto.BOOL, [], [True])
    # Not an initializer: these would have to be inputs in old versions.
    graph.node.append(onnx.helper.make_node("Constant", [], [_ALWAYS], value=true))
    encoder, ordered = Encoder(), list(nodes)
    for start in range(0, len(ordered), _IN_A_BRANCH):
        part = ordered[start : start + _IN_A_BRANCH]
        branch = onnx.GraphProto.FromString(encoder.nodes(part))
        branch.name = f"{_ALWAYS}{start}"
        names = [value.name for node in part for value in node.outputs if value.name]
        branch.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        # The other branch never runs, but has to agree on types.
        graph.node.append(onnx.helper.make_node("If", [_ALWAYS], names, then_branch=branch, else_branch=branch))


def _is_steady(node: ir.Node) -> bool:
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return (
        node.domain == ""
        and not is_random(node)
        and all(attribute.type not in graphs for attribute in node.attributes.values())
    )
