"""Write nodes as a higher version of the operator set does, by onnx's own converter.

The converter drops functions, metadata and annotations, and reads every weight; so it is given only descriptions of
nodes. Where it is wrong, the conversion is refused or its result is corrected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.version_converter
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import subgraphs_of
from onnx_passes.graph.schemas import schema_of
from onnx_passes.ops.opsets.form import NodeKind

_CAST_LIKE_SINCE = 15


def stand_in(op_type: str, source: int, target: int) -> str:
    """Name the operator that the converter is to see: it does not know that Hardmax changed like Softmax."""
    return "Softmax" if op_type == "Hardmax" and source < 13 <= target else op_type


def crosses(version: int, source: int, target: int) -> bool:
    """Return whether a conversion passes, up or down, the step to ``version``."""
    return min(source, target) < version <= max(source, target)


def objection(node: ir.Node, source: int, target: int) -> str | None:
    """Return the reason why a node cannot be converted that the converter misses; downwards for control flow only."""
    if subgraphs_of(node):
        return _control_objection(node, source, target)
    if target < source:
        return None
    if node.op_type == "Dropout" and _is_used(*node.outputs[1:]):
        same = not crosses(10, source, target) and not crosses(12, source, target)
        return None if same else "its mask does not mean the same in both versions"
    if node.op_type == "BatchNormalization" and source < 14 <= target and _is_used(*node.outputs[1:]):
        return "its further outputs do not mean the same in both versions"
    if source < 11 <= target < _CAST_LIKE_SINCE and node.op_type in ("Clip", "Pad") and _is_untyped(node.inputs[0]):
        return "the type of its data is not known, which its bounds have to have"
    return _resize_objection(node) if node.op_type == "Resize" and source < 11 <= target else None


def mend(result: list[onnx.NodeProto], node: ir.Node, source: int, target: int) -> None:
    """Correct the result of the converter for a node.

    The last node of ``result`` is the one that yields the values of ``node``.
    """
    last = result[-1]
    if source < 11 <= target and node.op_type in ("Clip", "Pad"):
        _match_type(result, node, target)
    if source < 11 <= target and last.op_type == "Resize":
        _keep_coordinates(last, node)
    if node.op_type == "Hardmax":
        for proto in result:
            proto.op_type = "Hardmax" if proto.op_type == "Softmax" else proto.op_type


def retype_outputs(node: ir.Node, target: int) -> None:
    """Adjust the types of outputs that another version computes in another type."""
    if node.op_type == "Dropout" and len(node.outputs) > 1 and node.inputs[0] is not None:
        data = node.inputs[0].dtype
        dtype = ir.DataType.BOOL if target >= 10 else data
        node.outputs[1].type = None if dtype is None else ir.TensorType(dtype)


def _is_untyped(value: ir.Value | None) -> bool:
    return value is not None and value.dtype is None


def _is_used(*values: ir.Value) -> bool:
    return any(value.is_graph_output() or value.uses() for value in values)


def _resize_objection(node: ir.Node) -> str | None:
    if node.attributes.get_string("mode", "nearest") != "nearest":
        return None
    scales = constant(node.inputs[1])
    if scales is None:
        return "its scales are not constant, so that the rounding it needs is not known"
    if (scales > 1).any() and (scales < 1).any():
        return "it enlarges one axis and shrinks another, for which opset 11 rounds alike"
    return None


def _keep_coordinates(resize: onnx.NodeProto, node: ir.Node) -> None:
    """Keep the coordinates of Resize 10 and Upsample, as ONNX Runtime computes them, not those of Resize 11."""
    added = {"coordinate_transformation_mode": "asymmetric"}
    if node.attributes.get_string("mode", "nearest") == "nearest":
        scales = constant(node.inputs[1]) if node.op_type == "Resize" else None
        added["nearest_mode"] = "ceil" if scales is not None and (scales < 1).any() else "floor"
    for name, text in added.items():
        resize.attribute.append(onnx.helper.make_attribute(name, text))


def _match_type(result: list[onnx.NodeProto], node: ir.Node, target: int) -> None:
    """Retype constants that were attributes to the type of the data, which may be unknown, instead of float."""
    dtype = None if node.inputs[0] is None else node.inputs[0].dtype
    if dtype is ir.DataType.FLOAT:
        return
    bounds = [proto for proto in result if proto.op_type == "Constant" and _holds_float(proto)]
    last = result[-1]
    for proto in bounds:
        if dtype is not None:
            _retype(proto.attribute[0], dtype)
        elif target >= _CAST_LIKE_SINCE:
            name = f"{proto.output[0]}.like"
            cast = onnx.helper.make_node("CastLike", [proto.output[0], last.input[0]], [name])
            result.insert(len(result) - 1, cast)
            last.input[:] = [name if given == proto.output[0] else given for given in last.input]


def _holds_float(proto: onnx.NodeProto) -> bool:
    return proto.attribute[0].t.data_type == onnx.TensorProto.FLOAT


def _retype(attribute: onnx.AttributeProto, dtype: ir.DataType) -> None:
    with np.errstate(over="ignore"):
        array = onnx.numpy_helper.to_array(attribute.t).astype(dtype.numpy())
    attribute.t.CopyFrom(ir.serde.serialize_tensor(ir.Tensor(array, dtype)))


def _control_objection(node: ir.Node, source: int, target: int) -> str | None:
    """Return the reason why an operator with subgraphs cannot be converted, mostly types it does not accept."""
    if node.op_type == "Scan" and crosses(9, source, target):
        return "Scan was another operator before opset 9"
    axes = (node.attributes.get(name) for name in ("scan_input_axes", "scan_output_axes"))
    if target < 11 <= source and any(min(given.as_ints(), default=0) < 0 for given in axes if given is not None):
        return "negative axes need opset 11"
    schema = schema_of("", node.op_type, target)
    if schema is None:
        return f"there is no {node.op_type} in opset {target}"
    for values, parameters in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
        for position, value in enumerate(values):
            parameter = parameters[min(position, len(parameters) - 1)]
            if value is not None and value.type is not None and _spelled(value.type) not in parameter.types:
                return f"opset {target} does not allow '{value.name}' to be {_spelled(value.type)}"
    return None


def _spelled(type_: ir.TypeProtocol) -> str:
    if isinstance(type_, ir.SequenceType):
        return f"seq({_spelled(type_.elem_type)})"
    if isinstance(type_, ir.OptionalType):
        return f"optional({_spelled(type_.elem_type)})"
    return f"tensor({type_.dtype.name.lower()})"


def ascend(kinds: Sequence[NodeKind], source: int, target: int) -> dict[int, str]:
    """Put the results of a conversion upwards into kinds; or return why not, by the positions of those it fails on.

    Raises ModelError if it fails on all of them together only.
    """
    try:
        result = _run_converter(kinds, source, target)
    except Exception as error:
        blamed = _blame(kinds, source, target)
        if not blamed:
            raise ModelError(f"opset {source} cannot be converted to {target}: {_message(error)}") from error
        return blamed
    producers = {name: node for node in result.graph.node for name in node.output if name}
    constants = {tensor.name: tensor for tensor in result.graph.initializer}
    order = {id(node): position for position, node in enumerate(result.graph.node)}
    for kind in kinds:
        kind.result = _made_of(kind, producers, constants, order)
        mend(kind.result, kind.nodes[0], source, target)
    return {}


def _blame(kinds: Sequence[NodeKind], source: int, target: int) -> dict[int, str]:
    """Find the kinds of nodes that the converter fails on, since its errors do not name them."""
    found: dict[int, str] = {}
    for position, kind in enumerate(kinds):
        try:
            _run_converter([kind], source, target)
        except Exception as reason:  # noqa: BLE001 - becomes part of the error that is raised
            found[position] = _message(reason)
    return found


def _message(error: Exception) -> str:
    return str(error).rpartition("failed: ")[2].strip().rstrip(".") or type(error).__name__


def _run_converter(kinds: Iterable[NodeKind], source: int, target: int) -> onnx.ModelProto:
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
    kind: NodeKind,
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
