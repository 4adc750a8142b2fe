"""Models of float16, executed so that every result is rounded to float16.

ONNX Runtime computes most of them in float32, between Casts of its own, and leaves out those that meet: whether a value
is rounded depends on what else reads it, so that removing a dead node changes results. A sequence of one element behind
every node keeps its Casts apart. Only so does it mean anything that two models are equal.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import type_outputs
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.schemas import signature
from onnx_passes.ops.definition import definition_of
from onnx_passes.verify.run.infer_types import infer_types

_HALF = ir.DataType.FLOAT16
_SEQUENCES_SINCE = 11
_RESULT, _SEQUENCE, _FIRST = "//result", "//sequence", "//first"


def computes_halves(model: ir.Model) -> bool:
    """Tell whether a model computes with float16."""
    graph = model.graph
    known = (*graph.inputs, *graph.outputs, *graph.initializers.values())
    return any(value.dtype is _HALF for value in known) or any(map(_yields_halves, graph))


def _yields_halves(node: ir.Node) -> bool:
    if any(value.dtype is _HALF for value in node.outputs):
        return True
    return node.op_type == "Cast" and node.attributes.get_int("to", 0) == _HALF.value


def with_rounded_halves(model: ir.Model) -> ir.Model:
    """Copy a model of float16 and let every result be rounded; any other model is returned as it is."""
    if not computes_halves(model) or model.opset_imports.get("", 1) < _SEQUENCES_SINCE:
        return model
    copied = copy_model(model)
    _type(copied)
    first = ir.Value(name=_FIRST, const_value=ir.Tensor(np.array(0, np.int64)), shape=ir.Shape(()))
    first.type = ir.TensorType(ir.DataType.INT64)
    copied.graph.register_initializer(first)
    for node in list(copied.graph):
        for value in node.outputs:
            if value.dtype is _HALF and value.name:
                _round(copied.graph, node, value, first)
    return copied


def _type(model: ir.Model) -> None:
    """Type every result, whatever was inferred before: two models that compute the same must be rounded alike."""
    if _propagate_types(model.graph):
        return
    infer_types(model)
    _propagate_types(model.graph)


def _propagate_types(graph: ir.Graph) -> bool:
    """Type results by schemas and definitions alone; tells whether all are known."""
    complete = True
    for node in graph:
        if any(value.dtype is None for value in node.outputs if value.name):
            given = node.inputs[0] if node.inputs else None
            if definition_of(node) is not None and given is not None and given.dtype is not None:
                node.outputs[0].dtype = given.dtype
            else:
                type_outputs(node, signature(node.domain, node.op_type, graph.opset_imports.get(node.domain, 1)))
            complete = complete and all(value.dtype is not None for value in node.outputs if value.name)
    return complete


def _round(graph: ir.Graph, node: ir.Node, value: ir.Value, first: ir.Value) -> None:
    users, name = list(value.uses()), str(value.name)
    sequence = ir.Node("", "SequenceConstruct", [value])
    element = ir.Node("", "SequenceAt", [sequence.outputs[0], first])
    rounded = element.outputs[0]
    value.name, sequence.outputs[0].name, rounded.name = name + _RESULT, name + _SEQUENCE, name
    rounded.type = ir.TensorType(_HALF)
    rounded.shape = None if value.shape is None else value.shape.copy()
    for user, index in users:
        user.replace_input_with(index, rounded)
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = rounded
    graph.insert_after(node, [sequence, element])
