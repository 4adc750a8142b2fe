"""Write nodes as a higher version of the operator set does, by onnx's own converter.

It drops functions, metadata and annotations, and reads every weight; so it is given descriptions of nodes only. Where
it errs see ``opset_rules``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx
import onnx.helper
import onnx.version_converter

from onnx_passes.core.errors import ModelError
from onnx_passes.graph import opset_rules
from onnx_passes.graph.opset_kinds import Kind


def ascend(kinds: Sequence[Kind], source: int, target: int) -> dict[int, str]:
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
        opset_rules.mend(kind.result, kind.nodes[0], source, target)
    return {}


def _blame(kinds: Sequence[Kind], source: int, target: int) -> dict[int, str]:
    """Find what the converter stumbles over: it does not say."""
    found: dict[int, str] = {}
    for position, kind in enumerate(kinds):
        try:
            _run_converter([kind], source, target)
        except Exception as reason:  # noqa: BLE001 - becomes part of the error that is raised
            found[position] = _message(reason)
    return found


def _message(error: Exception) -> str:
    return str(error).rpartition("failed: ")[2].strip().rstrip(".") or type(error).__name__


def _run_converter(kinds: Iterable[Kind], source: int, target: int) -> onnx.ModelProto:
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
    kind: Kind,
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
